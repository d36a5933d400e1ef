"""Student's t for any share and any degrees of freedom, exact to nine digits.

Comparing many figures at once needs quantiles far out in the tail, where expansions about the
normal quantile are off by tens of per cent with few degrees of freedom.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL_FROM = 1e6
"""Degrees from which the difference to a normal quantile is below one in a million."""
_SMALLEST = 1e-300
_TERMS = 300


def two_sided_p(statistic: float, degrees: float) -> float:
    """Return the chance that Student's t lies further from 0 than ``statistic``.

    Parameters
    ----------
    statistic
        Estimate over its standard error; its sign does not count.
    degrees
        Degrees of freedom, above 0; infinity is the normal distribution.
    """
    size = abs(statistic)
    if math.isinf(size):
        return 0.0
    if degrees >= _NORMAL_FROM:
        return math.erfc(size / math.sqrt(2.0))
    return _incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + size * size))


@lru_cache(maxsize=4096)
def student_quantile(two_sided_error: float, degrees: float) -> float:
    """Return the reach of an interval, in standard errors, that misses with this chance.

    Parameters
    ----------
    two_sided_error
        Chance to lie outside, both sides together: 0.05 for a 95 % interval.
    degrees
        Degrees of freedom; without any the reach is infinite.
    """
    if degrees <= 0:
        return math.inf
    if degrees >= _NORMAL_FROM:
        return NormalDist().inv_cdf(1.0 - two_sided_error / 2.0)
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > two_sided_error:
        high *= 2.0
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (
            (middle, high) if two_sided_p(middle, degrees) > two_sided_error else (low, middle)
        )
    return middle


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function (Numerical Recipes, 6.4)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    front = math.exp(log_front)
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _continued(a, b, x) / a
    return 1.0 - front * _continued(b, a, 1.0 - x) / b


def _continued(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction of the incomplete beta function by Lentz's method."""
    c, d = 1.0, 1.0 / _safe(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 / _safe(1.0 + term * d)
            c = _safe(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _safe(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST
