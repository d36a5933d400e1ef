"""What counters of requests say of a workload: rate, peak, shape of the day, lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.recurring_rates import (
    Course,
    day_of_week_rates,
    hour_of_day_rates,
    seen_arrival,
)
from capplan.schema.lengths import EmpiricalLength, Lengths
from capplan.schema.workload import Workload

Floats = NDArray[np.float64]

_POINTS, _MOST_BUCKETS = 8, 200
"""Quantiles inside a bucket; of more buckets than that neighbours are taken together."""
_INNER = np.arange(1, _POINTS + 1) / _POINTS
_BENDS = np.geomspace(1 / 20, 20, 4001)
_MEAN_OF_BEND = (np.power.outer(_INNER, _BENDS).sum(axis=0) - 0.5) / _POINTS
"""Mean of ``u**bend`` with straight lines between the quantiles; it falls."""
_LEAST_SHARE, _JUMP, _DIGITS = 2e-5, 1e-6, 6
"""Probabilities stay apart where a workload file rounds them."""
_BELOW_ONE = 0.999
_NO_STEP = 1e-6


@dataclass(frozen=True)
class CountedTraffic:
    """Requests that ended between looks at counters.

    Attributes
    ----------
    seconds
        Of the looks, since 1970 in UTC, rising; shape (looks,), two at least.
    requests
        That ended from a look to the next; shape (looks - 1,).
    watched
        Whether they were counted at all; shape (looks - 1,).
    prompts, outputs
        Lengths of requests.
    prefix_hit_rate
        Share of prompt tokens whose KV was held.
    """

    seconds: Floats
    requests: Floats
    watched: NDArray[np.bool_]
    prompts: Lengths
    outputs: Lengths
    prefix_hit_rate: float

    @property
    def watched_s(self) -> float:
        """Time in which requests were counted."""
        return float(np.diff(self.seconds)[self.watched].sum())

    @property
    def step_s(self) -> float:
        """The longest time between two looks in which requests were counted."""
        return float(np.diff(self.seconds)[self.watched].max(initial=0.0))

    @property
    def course(self) -> Course:
        """Requests over time, spread evenly between two looks."""
        counted = _running_sum(np.where(self.watched, self.requests, 0.0))
        watched_s = _running_sum(np.where(self.watched, np.diff(self.seconds), 0.0))
        return Course(
            float(self.seconds[0]),
            float(self.seconds[-1]),
            lambda times: np.interp(times, self.seconds, counted),
            lambda times: np.interp(times, self.seconds, watched_s),
        )


def _running_sum(parts: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(parts)])


def peak_requests_per_s(traffic: CountedTraffic, window_s: float) -> float | None:
    """Return the largest rate of any window of that length that was watched from end to end.

    Windows begin or end at every look: between two of them the rate is taken to be even. None
    where no window was watched, or looks are further apart than it is long.
    """
    if traffic.step_s > window_s * (1 + _NO_STEP):
        return None
    course, looks = traffic.course, traffic.seconds
    begins = np.concatenate([looks[:-1], looks[1:] - window_s])
    ends = begins + window_s
    seen_s = course.watched_s(ends) - course.watched_s(begins)
    counted = course.counted(ends) - course.counted(begins)
    whole = seen_s >= window_s * (1 - _NO_STEP)
    return float(counted[whole].max() / window_s) if whole.any() else None


def workload_of_counts(traffic: CountedTraffic, window_s: float) -> Workload:
    """Return the workload that counters show.

    Parameters
    ----------
    traffic
        With at least one request.
    window_s
        Of the peak; where looks are further apart, the peak is that between two looks.
    """
    course = traffic.course
    rate, arrival = seen_arrival(
        float(traffic.requests[traffic.watched].sum()) / traffic.watched_s,
        peak_requests_per_s(traffic, max(window_s, traffic.step_s)),
        hour_of_day_rates(course),
        day_of_week_rates(course),
    )
    return Workload(
        requests_per_s=rate,
        arrival=arrival,
        prompt_lengths=traffic.prompts,
        output_lengths=traffic.outputs,
        prefix_cache_hit_rate=min(max(traffic.prefix_hit_rate, 0.0), _BELOW_ONE),
    )


def lengths_in_buckets(
    bounds: Sequence[float], counts: Sequence[float], mean_tokens: float
) -> EmpiricalLength:
    """Return the lengths of requests that were counted in buckets, with their known mean.

    Shares and bounds of the buckets are kept. Inside each, lengths follow
    ``lower + (upper - lower) * u**bend``, u even from 0 to 1: the one bend that gives the mean.
    Where requests lie beyond the largest bound, the longest of them is what the mean asks for with
    lengths spread evenly.

    Parameters
    ----------
    bounds
        Upper ones, rising; the last may be infinite.
    counts
        Requests up to each bound, never falling; the last above 0.
    mean_tokens
        Of all requests.
    """
    stride = -(-len(bounds) // _MOST_BUCKETS)
    edges = np.maximum([1.0, *bounds[::-stride][::-1]], 1.0)
    shares = np.diff([0.0, *counts[::-stride][::-1]]) / counts[-1]
    kept = shares > _LEAST_SHARE
    lower, upper, shares = edges[:-1][kept], edges[1:][kept], shares[kept] / shares[kept].sum()
    if np.isinf(upper[-1]):
        inside = float((shares[:-1] * (lower[:-1] + upper[:-1]) / 2).sum())
        wanted = 2 * (mean_tokens - inside) / shares[-1] - lower[-1]
        upper[-1] = max(wanted, lower[-1])
    bend = _bend(lower, upper, shares, mean_tokens)
    before = np.concatenate([[0.0], np.cumsum(shares)[:-1]])
    inside = before[:, None] + shares[:, None] * _INNER
    probabilities = np.concatenate([before[:, None] + _JUMP, inside], axis=1).ravel()
    lengths = lower[:, None] + (upper - lower)[:, None] * np.array([0.0, *_INNER**bend])
    return EmpiricalLength(
        probabilities=(0.0, *map(float, probabilities[:-1].round(_DIGITS)), 1.0),
        tokens=(float(lower[0]), *map(float, lengths.ravel())),
    )


def _bend(lower: Floats, upper: Floats, shares: Floats, mean_tokens: float) -> float:
    """Return the exponent that gives the mean, within what it may be."""
    above = mean_tokens - float((shares * lower).sum())
    room = float((shares * (upper - lower)).sum())
    wanted = above / room if room > 0 else 0.0
    return float(np.interp(wanted, _MEAN_OF_BEND[::-1], _BENDS[::-1]))
