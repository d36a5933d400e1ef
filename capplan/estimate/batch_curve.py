"""Speedup at a batch between two measured ones.

The time of a generated token with speculation over that without, 1 / speedup, is taken to move
evenly with the logarithm of the batch: it does not stay as it is at batch 1, and it does not keep
growing as fast as at first. docs/method/batch.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.estimate.uncertainty import LogEstimate

SCATTER = 0.1
"""Relative scatter a square root of an e-fold of batch, where no other curve tells better."""
MEASURED_RELATIVE_SE = 0.02
_DEGREES = 8.0


@dataclass(frozen=True)
class BatchPoint:
    """Speedup at one batch (or concurrency), both positive."""

    batch: float
    speedup: float


def speedup_between(
    low: BatchPoint, high: BatchPoint, batch: float, scatter: float = SCATTER
) -> LogEstimate:
    """Interpolate the speedup at a batch between two measured ones.

    Parameters
    ----------
    low, high
        Measured at two batches.
    batch
        Between them. Beyond them the curve is held level, since the line has no bound there,
        and the error grows.
    scatter
        How far real curves stray, from :func:`scatter_of`.
    """
    span = float(np.log(high.batch / low.batch))
    place = float(np.log(batch / low.batch)) / span
    inside = min(max(place, 0.0), 1.0)
    inverse = (1.0 - inside) / low.speedup + inside / high.speedup
    # a Brownian bridge: no scatter at the two measured ends, most in the middle
    variance = scatter**2 * span * (inside * (1.0 - inside) + abs(place - inside))
    return LogEstimate(1.0 / inverse, float(np.sqrt(variance + MEASURED_RELATIVE_SE**2)), _DEGREES)


def scatter_of(curves: Sequence[Sequence[BatchPoint]]) -> float:
    """Return how far measured curves stray from the line between their ends.

    Parameters
    ----------
    curves
        Each ordered by batch, with at least three different batches.

    Returns
    -------
    float
        Root mean square in the units of :data:`SCATTER`, which stands for ten further points.
    """
    squares = [10 * SCATTER**2]
    for curve in curves:
        low, high = curve[0], curve[-1]
        span = float(np.log(high.batch / low.batch))
        for point in curve[1:-1]:
            place = float(np.log(point.batch / low.batch)) / span
            miss = np.log(speedup_between(low, high, point.batch).mid / point.speedup)
            squares.append(float(miss) ** 2 / (span * place * (1.0 - place)))
    return float(np.sqrt(sum(squares) / (len(squares) + 9)))
