"""Quantiles, moments and samples of request lengths."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.schema.lengths import EmpiricalLength, FixedLength, Lengths, LognormalLength

Floats = NDArray[np.float64]

_NORMAL = NormalDist()
_MOST_SIGMAS = 8.0
"""Quantiles of the normal are taken within this; beyond lie 1e-15 of the requests."""
_CUT = 0.999
"""Share of requests that launch text makes room for."""


def quantile_tokens(lengths: Lengths, probability: ArrayLike) -> Floats:
    """Return the length that a share of the requests does not exceed.

    Parameters
    ----------
    lengths
        Fixed, lognormal or empirical.
    probability
        0 to 1; broadcasts. A lognormal has no longest request: at 1 (and 0) it is cut 8 sigmas
        from its median.
    """
    p = np.asarray(probability, dtype=float)
    if isinstance(lengths, FixedLength):
        return np.full(p.shape, lengths.tokens)
    if isinstance(lengths, LognormalLength):
        return np.asarray(lengths.median_tokens * np.exp(lengths.sigma * _normal_quantile(p)))
    return np.asarray(np.interp(p, lengths.probabilities, lengths.tokens))


def _normal_quantile(p: Floats) -> Floats:
    flat = [
        _NORMAL.inv_cdf(value) if 0.0 < value < 1.0 else math.copysign(_MOST_SIGMAS, value - 0.5)
        for value in np.ravel(p)
    ]
    return np.asarray(np.clip(np.reshape(flat, p.shape), -_MOST_SIGMAS, _MOST_SIGMAS))


def variance_tokens2(lengths: Lengths) -> float:
    """Return the variance of the length, in tokens squared.

    Lognormal: ``mean^2 (exp(sigma^2) - 1)``. Empirical: exact for the straight lines between the
    quantiles, on each of which the mean square is ``(a^2 + ab + b^2) / 3``.
    """
    if isinstance(lengths, FixedLength):
        return 0.0
    if isinstance(lengths, LognormalLength):
        return float(lengths.mean_tokens**2 * math.expm1(lengths.sigma**2))
    return _empirical_variance(lengths)


def raw_moments(lengths: Lengths) -> tuple[float, float, float]:
    """Return the means of the length, its square and its cube.

    A lognormal is cut at its 99.9th percentile: lengths beyond it count as that. The third moment
    of its whole tail rests on requests that nobody admits (at sigma 1.1, six tenths of it).
    """
    if isinstance(lengths, FixedLength):
        return lengths.tokens, lengths.tokens**2, lengths.tokens**3
    if isinstance(lengths, LognormalLength):
        first, second, third = (_cut_moment(lengths, k) for k in (1, 2, 3))
        return first, second, third
    ends = np.asarray(lengths.tokens, dtype=float)
    a, b = ends[:-1], ends[1:]
    weights = np.diff(np.asarray(lengths.probabilities, dtype=float))
    square = (weights * (a * a + a * b + b * b)).sum() / 3.0
    cube = (weights * (a + b) * (a * a + b * b)).sum() / 4.0
    return lengths.mean_tokens, float(square), float(cube)


def _cut_moment(lengths: LognormalLength, k: int) -> float:
    """Return the k-th moment of a lognormal whose longest lengths are cut.

    ``m^k (exp(k^2 s^2 / 2) Phi(z - k s) + (1 - p) exp(k s z))`` with ``p = Phi(z)``.
    """
    sigma, z = lengths.sigma, _NORMAL.inv_cdf(_CUT)
    inside = math.exp((k * sigma) ** 2 / 2.0) * _NORMAL.cdf(z - k * sigma)
    return float(lengths.median_tokens**k * (inside + (1.0 - _CUT) * math.exp(k * sigma * z)))


def _empirical_variance(lengths: EmpiricalLength) -> float:
    ends = np.asarray(lengths.tokens, dtype=float)
    a, b = ends[:-1], ends[1:]
    weights = np.diff(np.asarray(lengths.probabilities, dtype=float))
    square = float((weights * (a * a + a * b + b * b)).sum() / 3.0)
    return max(square - lengths.mean_tokens**2, 0.0)


@lru_cache(maxsize=64)
def spread_tokens(lengths: Lengths, points: int = 33) -> tuple[float, ...]:
    """Return equally likely lengths that stand for the distribution, with exactly its mean.

    The middle of each of ``points`` equal slices of probability; the tails that this misses are
    put back by scaling to the mean.
    """
    middles = (np.arange(points) + 0.5) / points
    values = quantile_tokens(lengths, middles)
    return tuple(float(value) for value in values * (lengths.mean_tokens / values.mean()))


def sample_tokens(lengths: Lengths, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Draw whole lengths of at least one token.

    Rounding to the nearest integer leaves the mean in place but for the shortest requests.
    """
    if isinstance(lengths, LognormalLength):
        drawn = lengths.median_tokens * np.exp(lengths.sigma * rng.standard_normal(size))
    else:
        drawn = quantile_tokens(lengths, rng.random(size))
    return _whole(drawn)


def sample_pairs(
    prompts: Lengths,
    outputs: Lengths,
    correlation: float,
    rng: np.random.Generator,
    size: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw prompt and output lengths together.

    Parameters
    ----------
    prompts, outputs
        Distributions; each is drawn exactly.
    correlation
        Of a Gaussian copula. The Pearson correlation of the lengths themselves is nearer to 0
        where their tails are long.
    rng
        Source of randomness.
    size
        Requests.
    """
    first = rng.standard_normal(size)
    second = correlation * first + math.sqrt(1.0 - correlation**2) * rng.standard_normal(size)
    return _of_normals(prompts, first), _of_normals(outputs, second)


def _of_normals(lengths: Lengths, z: Floats) -> NDArray[np.int64]:
    if isinstance(lengths, LognormalLength):
        return _whole(lengths.median_tokens * np.exp(lengths.sigma * z))
    return _whole(quantile_tokens(lengths, _normal_cdf(z)))


def _normal_cdf(z: Floats) -> Floats:
    return np.array([_NORMAL.cdf(value) for value in z])


def _whole(values: Floats) -> NDArray[np.int64]:
    return np.maximum(np.rint(values), 1.0).astype(np.int64)
