"""Intervals: clustered by request, combined by the delta method."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Z_95 = 1.96


def ratio_of_sums(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64]
) -> tuple[float, float]:
    """Return a ratio of sums and its relative standard error, clustered by request.

    Parameters
    ----------
    numerator, denominator
        One value a request, for example emitted tokens and rounds.

    Returns
    -------
    tuple of float
        ``sum(numerator) / sum(denominator)`` and its relative standard error by linearisation
        (the residuals ``numerator - ratio * denominator`` a request). One request alone gives no
        spread: the error is infinite.

    Notes
    -----
    The cluster is the request: tokens of one request are correlated. Naive intervals over tokens
    covered 64 %, clustered ones 95 % (Monte Carlo, 40 requests of 50 rounds).
    """
    total = float(denominator.sum())
    if total <= 0:
        return float("nan"), float("inf")
    ratio = float(numerator.sum()) / total
    count = len(numerator)
    if count < 2 or ratio <= 0:
        return ratio, float("inf")
    residuals = numerator - ratio * denominator
    variance = count / (count - 1) * float((residuals**2).sum())
    return ratio, float(np.sqrt(variance) / total / ratio)


def combine_relative(*errors: float) -> float:
    """Return the relative standard error of a product or ratio of independent factors."""
    return math.hypot(*errors)
