"""Tokens a round at a length that was not measured, from shorter ones.

Two parameters: acceptance of the first position and how fast it falls with the position. Both are
kept as a distribution on a grid, so that one measured length is enough where a prior of the fall
is known, and every answer has an interval. docs/method/acceptance.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.uncertainty import LogEstimate

Floats = NDArray[np.float64]

MAX_LENGTH = 64
_FIRST = np.linspace(0.02, 1.0, 99)
_FALL = np.linspace(-0.4, 1.0, 71)

MEASURED_RELATIVE_SE = 0.005
"""Of one published value before its neighbours are seen: two printed decimals, one run."""
_PRIOR_DEGREES = 4.0


@dataclass(frozen=True)
class FallPrior:
    """Belief in the fall exponent before a series is seen.

    The default is that of a draft of which nothing else is known: published series of eleven
    methods have 0.05 to 0.41 on average (docs/method/acceptance.md).
    """

    mean: float = 0.15
    sd: float = 0.2


@dataclass(frozen=True)
class LengthSeries:
    """Tokens a round of one pair on one text, by length."""

    lengths: tuple[int, ...]
    tokens_per_round: tuple[float, ...]

    def up_to(self, length: int) -> LengthSeries:
        """Return the part below a length."""
        return self.only([n for n in self.lengths if n < length])

    def only(self, lengths: Sequence[float | None]) -> LengthSeries:
        """Return the part at some lengths."""
        pairs = zip(self.lengths, self.tokens_per_round, strict=True)
        kept = [(n, tokens) for n, tokens in pairs if n in lengths]
        return LengthSeries(tuple(n for n, _ in kept), tuple(tokens for _, tokens in kept))


def falling_rates(first: ArrayLike, exponent: ArrayLike, positions: int) -> Floats:
    """Return ``a_i = min(1, first * i^-exponent)`` for i = 1 .. positions, along the last axis.

    Parameters
    ----------
    first
        Acceptance of the first position, 0 to 1.
    exponent
        Fall with the position; 0 is i.i.d.
    positions
        How many.

    Notes
    -----
    Slower at late positions than the geometric ``first * r^(i-1)``: texts on which a draft fails
    have left the average by then. Fitted on N = 3 and 5 it misses N = 7 by 0.8 % (geometric:
    1.0 %); ``capplan validate --mode acceptance``.
    """
    position = np.arange(1, positions + 1, dtype=float)
    fall = position ** -np.asarray(exponent, dtype=float)[..., None]
    rates: Floats = np.minimum(1.0, np.asarray(first, dtype=float)[..., None] * fall)
    return rates


@cache
def _log_tokens() -> Floats:
    """Return log tokens a round on the grid, shape (falls, firsts, MAX_LENGTH)."""
    fall, first = np.meshgrid(_FALL, _FIRST, indexing="ij")
    cumulative = np.cumprod(falling_rates(first, fall, MAX_LENGTH), axis=-1)
    tokens: Floats = np.log1p(np.cumsum(cumulative, axis=-1))
    return tokens


def _weights(series: LengthSeries, prior: FallPrior) -> tuple[Floats, float, float]:
    """Return the distribution on the grid, the noise it implies and its degrees of freedom."""
    lengths = np.asarray(series.lengths, dtype=int)
    misses = _log_tokens()[:, :, lengths - 1] - np.log(series.tokens_per_round)
    squares = (misses**2).sum(axis=2)
    degrees = _PRIOR_DEGREES + max(len(lengths) - 2, 0)
    noise2 = (_PRIOR_DEGREES * MEASURED_RELATIVE_SE**2 + float(squares.min())) / degrees
    log_weight = -squares / noise2 / 2 - ((_FALL[:, None] - prior.mean) / prior.sd) ** 2 / 2
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum(), float(np.sqrt(noise2)), degrees


def extrapolate_length(
    series: LengthSeries, wanted: int, prior: FallPrior | None = None
) -> LogEstimate:
    """Predict tokens a round at a length from those at others.

    Parameters
    ----------
    series
        At least one measured length, each 1 to 64. One alone leaves the fall to the prior.
    wanted
        N, 1 to 64.
    prior
        Of the fall exponent, best from other tasks of the same pair (:func:`pooled_fall`).
    """
    weight, noise, degrees = _weights(series, prior or FallPrior())
    tokens = _log_tokens()[:, :, wanted - 1]
    mean = float((weight * tokens).sum())
    variance = float((weight * (tokens - mean) ** 2).sum()) + noise**2
    return LogEstimate(float(np.exp(mean)), float(np.sqrt(variance)), degrees)


def length_curve(
    series: LengthSeries, positions: int, prior: FallPrior | None = None
) -> tuple[Floats, Floats]:
    """Return tokens a round at N = 0 .. positions and the relative error of the law.

    At measured lengths the curve passes through the measured values; between and beyond them it
    follows the law. The error is that of the unknown fall alone: none where measured, growing
    beyond.
    """
    weight, _, _ = _weights(series, prior or FallPrior())
    tokens = _log_tokens()[:, :, :positions]
    mean = np.einsum("fa,fan->n", weight, tokens)
    variance = np.einsum("fa,fan->n", weight, (tokens - mean) ** 2)
    lengths = np.arange(1, positions + 1)
    miss = np.log(series.tokens_per_round) - mean[np.asarray(series.lengths) - 1]
    curve = np.exp(mean + np.interp(lengths, series.lengths, miss))
    return (
        np.concatenate([[1.0], np.clip(curve, 1.0, lengths + 1.0)]),
        np.concatenate([[0.0], np.sqrt(variance)]),
    )


_UNINFORMED = FallPrior(0.15, 0.5)
"""Each text speaks for itself before the texts are averaged: shrinking twice would be too much."""
_LEAST_SPREAD = 0.05
_FEW = 2


def pooled_fall(others: Sequence[LengthSeries]) -> FallPrior:
    """Return the prior of the fall that other texts of the same pair suggest.

    Texts measured at one length say nothing of it. With fewer than two texts the default is only
    narrowed, not replaced.
    """
    falls = [
        float((_weights(series, _UNINFORMED)[0].sum(axis=1) * _FALL).sum())
        for series in others
        if len(set(series.lengths)) >= _FEW
    ]
    if not falls:
        return FallPrior()
    if len(falls) < _FEW:
        return FallPrior(falls[0], 2 * _LEAST_SPREAD)
    return FallPrior(float(np.mean(falls)), max(float(np.std(falls, ddof=1)), _LEAST_SPREAD))
