"""Predict a value from similar measured ones: how much weight each of them deserves.

Measurements share parts of what makes them differ from the mean: the same draft, task, length,
GPU. With a covariance for each shared part, the best linear prediction (kriging, or a mixed
linear model with the parts as random effects) weighs them by what they have in common, and its
variance says how far the result may be off. docs/method/similarity.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MEAN_VARIANCE = 1e4
"""Variance of the common mean, in units of the noise: so large that the values alone set it."""


@dataclass(frozen=True)
class NoisePrior:
    """What is believed of the scatter of single measurements before any is seen.

    Attributes
    ----------
    sd
        Standard deviation of the noise.
    degrees
        Its weight, in measurements.
    """

    sd: float
    degrees: float


@dataclass(frozen=True)
class Prediction:
    """A Student-t prediction of a new measurement, its noise included.

    Attributes
    ----------
    mean, sd
        Location and scale.
    degrees
        Degrees of freedom of the scale.
    log_evidence
        How well the covariance explains the measurements, up to a constant of the values.
    """

    mean: float
    sd: float
    degrees: float
    log_evidence: float


def predict_from_similar(
    values: Floats, covariance: Floats, to_wanted: Floats, of_wanted: float, noise: NoisePrior
) -> Prediction:
    """Return the best linear prediction of one value from ``values``.

    Parameters
    ----------
    values
        Measured, shape (n,).
    covariance
        Of their shared parts, shape (n, n), in units of the noise variance; noise is added here.
    to_wanted
        Covariance of each value's shared parts with the wanted one's, shape (n,).
    of_wanted
        Variance of the wanted value's shared parts.
    noise
        Prior of the noise; the residuals of ``values`` update it (scaled inverse chi-square).

    Notes
    -----
    Henderson's mixed-model prediction with a vague common mean. Only ratios of the covariance to
    the noise matter to the mean; the scale is estimated.
    """
    n = len(values)
    centre = float(values.mean())
    lower = np.linalg.cholesky(covariance + MEAN_VARIANCE + np.eye(n))
    white = np.linalg.solve(lower, np.column_stack([values - centre, to_wanted + MEAN_VARIANCE]))
    residual, weight = white[:, 0], white[:, 1]
    degrees = noise.degrees + max(n - 1, 0)
    squares = noise.degrees * noise.sd**2 + float(residual @ residual)
    variance = max(of_wanted + MEAN_VARIANCE + 1.0 - float(weight @ weight), 1.0)
    return Prediction(
        mean=centre + float(weight @ residual),
        sd=float(np.sqrt(squares / degrees * variance)),
        degrees=degrees,
        log_evidence=-float(np.log(np.diag(lower)).sum()) - degrees / 2 * float(np.log(squares)),
    )


def average(predictions: Sequence[Prediction]) -> Prediction:
    """Average predictions of the same values under several covariances, by their evidence."""
    evidence = np.array([p.log_evidence for p in predictions])
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    means = np.array([p.mean for p in predictions])
    mean = float(weight @ means)
    variances = np.array([p.sd**2 for p in predictions]) + (means - mean) ** 2
    return Prediction(
        mean=mean,
        sd=float(np.sqrt(weight @ variances)),
        degrees=min(p.degrees for p in predictions),
        log_evidence=float(evidence.max()),
    )


def same(labels: Sequence[object]) -> Floats:
    """Return 1 where two labels are equal, else 0, shape (n, n)."""
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    coded = np.array([codes[label] for label in labels])
    return np.where(coded[:, None] == coded[None, :], 1.0, 0.0)
