"""Intervals: clustered by request, combined by the delta method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.student import student_quantile

Z_95 = 1.96
Z_90 = 1.645
_ERROR_95, _ERROR_90 = 0.05, 0.10


@dataclass(frozen=True)
class LogEstimate:
    """A positive estimate whose logarithm has a Student-t error.

    Attributes
    ----------
    mid
        The estimate.
    log_sd
        Standard error of its logarithm, close to the relative one.
    degrees
        Degrees of freedom behind ``log_sd``; few of them widen the interval.
    """

    mid: float
    log_sd: float
    degrees: float = float("inf")

    def interval_90(self) -> tuple[float, float]:
        """Return the ends of the 90 % interval."""
        reach = float(np.exp(student_quantile_95(self.degrees) * self.log_sd))
        return self.mid / reach, self.mid * reach

    def divided_into(self, numerator: LogEstimate) -> LogEstimate:
        """Return ``numerator / self`` for independent errors (delta method)."""
        return LogEstimate(
            mid=numerator.mid / self.mid,
            log_sd=combine_relative(numerator.log_sd, self.log_sd),
            degrees=min(numerator.degrees, self.degrees),
        )


def student_quantile_95(degrees: float) -> float:
    """Return the 95 % quantile of Student's t: the ends of a two-sided 90 % interval.

    Exact at any degrees of freedom; an expansion in 1/degrees is 12 % short at one of them.
    """
    return student_quantile(_ERROR_90, degrees)


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
    count = int(np.count_nonzero(denominator))  # a request without a round tells no spread
    if count < 2 or ratio <= 0:
        return ratio, float("inf")
    residuals = numerator - ratio * denominator
    variance = count / (count - 1) * float((residuals**2).sum())
    return ratio, float(np.sqrt(variance) / total / ratio)


def ratio_of_requests(
    numerator: NDArray[np.float64], denominator: NDArray[np.float64]
) -> tuple[float, float]:
    """Return :func:`ratio_of_sums` with an error that may be taken for a normal one.

    The spread of a few requests is itself known badly. The error is widened (:func:`as_normal`),
    so that 1.96 of it cover 95 %: 94 % of 1,500 texts of two requests, where it was 67 % before.
    """
    ratio, relative_se = ratio_of_sums(numerator, denominator)
    return ratio, as_normal(relative_se, np.count_nonzero(denominator) - 1.0)


def as_normal(relative_se: float, degrees: float) -> float:
    """Return the error whose normal 95 % interval is as wide as Student's.

    Parameters
    ----------
    relative_se
        As estimated from the data.
    degrees
        Degrees of freedom behind it, one less than the requests; without any it is infinite.
    """
    if degrees <= 0:
        return float("inf")
    return relative_se * max(student_quantile(_ERROR_95, degrees) / Z_95, 1.0)


def combine_relative(*errors: float) -> float:
    """Return the relative standard error of a product or ratio of independent factors."""
    return math.hypot(*errors)
