"""Requests as they were logged, and what their times and lengths say of a workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.recurring_rates import Course, day_of_week_rates, hour_of_day_rates
from capplan.schema.lengths import EmpiricalLength

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Clock = Literal["calendar", "from midnight", "relative"]

COUNT_WINDOW_S = 60.0
_LEAST_WINDOWS = 30
"""Windows that an index of dispersion needs: with 30 its relative error is about a quarter."""
_LEAST_REQUESTS = 2
PROBABILITIES = (*(round(i / 200, 3) for i in range(199)), 0.995, 0.998, 0.999, 0.9995, 1.0)


@dataclass(frozen=True)
class RequestTrace:
    """Requests in the order of their arrival.

    Attributes
    ----------
    seconds
        Arrival times, rising. Seconds since 1970 in UTC where ``clock`` is ``calendar``, since a
        midnight where it is ``from midnight``, since anything where it is ``relative``.
    prompt_tokens, output_tokens
        Of each request; at least 1.
    clock
        What the times count from.
    """

    seconds: Floats
    prompt_tokens: Integers
    output_tokens: Integers
    clock: Clock

    @property
    def span_s(self) -> float:
        """Time between the first and the last request."""
        return float(self.seconds[-1] - self.seconds[0]) if len(self.seconds) else 0.0


def mean_requests_per_s(trace: RequestTrace) -> float | None:
    """Return gaps over time; None where all requests came at once.

    n requests have n - 1 gaps between the first and the last.
    """
    gaps = len(trace.seconds) - 1
    return gaps / trace.span_s if trace.span_s > 0 else None


def peak_requests_per_s(trace: RequestTrace, window_s: float) -> float | None:
    """Return the largest rate of any window of that length; None if the trace is shorter.

    Windows slide: one begins at every request, so that no burst is cut in two.
    """
    if trace.span_s < window_s:
        return None
    ends = np.searchsorted(trace.seconds, trace.seconds + window_s, side="left")
    return float((ends - np.arange(len(trace.seconds))).max() / window_s)


def index_of_dispersion(trace: RequestTrace, window_s: float = COUNT_WINDOW_S) -> float | None:
    """Return variance over mean of the requests in windows; None for too short a trace.

    1 for independent arrivals at a steady rate (Poisson), above it for bursts and for rates that
    change; 0 for a metronome.
    """
    windows = int(trace.span_s // window_s)
    if windows < _LEAST_WINDOWS:
        return None
    place = ((trace.seconds - trace.seconds[0]) // window_s).astype(np.int64)
    counts = np.bincount(place[place < windows], minlength=windows)
    return float(counts.var(ddof=1) / counts.mean())


def repeated_requests(trace: RequestTrace) -> int:
    """Return how many requests have an earlier one's very time and lengths."""
    tied = np.diff(trace.seconds) == 0
    near = np.concatenate([[False], tied]) | np.concatenate([tied, [False]])
    rows = np.stack([trace.seconds, trace.prompt_tokens, trace.output_tokens], axis=1)[near]
    order = np.lexsort(rows.T)
    return int((np.diff(rows[order], axis=0) == 0).all(axis=1).sum())


def hour_of_day_weights(trace: RequestTrace) -> tuple[float, ...] | None:
    """Return requests a second by hour of the day; None unless every hour was seen."""
    course = _course(trace)
    return None if trace.clock == "relative" or course is None else hour_of_day_rates(course)


def day_of_week_weights(trace: RequestTrace) -> tuple[float, ...] | None:
    """Return requests a second by day of the week, Monday first; None unless all were seen."""
    course = _course(trace)
    return None if trace.clock != "calendar" or course is None else day_of_week_rates(course)


def _course(trace: RequestTrace) -> Course | None:
    """Return the requests over time; None of too few."""
    if len(trace.seconds) < _LEAST_REQUESTS:
        return None
    begin, end = float(trace.seconds[0]), float(trace.seconds[-1])
    return Course(
        begin,
        end,
        lambda times: np.searchsorted(trace.seconds, times).astype(float),
        lambda times: np.clip(times, begin, end) - begin,
    )


def empirical(tokens: Integers) -> EmpiricalLength:
    """Return the quantiles of a sample, scaled to its mean.

    Half per cents and the tail are kept; straight lines between them miss the sample's mean by
    little, which the scaling takes out. The shortest request stays at least one token.
    """
    values = np.quantile(tokens, PROBABILITIES)
    found = EmpiricalLength(probabilities=PROBABILITIES, tokens=tuple(map(float, values)))
    factor = float(tokens.mean()) / found.mean_tokens
    scaled = tuple(max(value * factor, 1.0) for value in found.tokens)
    return EmpiricalLength(probabilities=PROBABILITIES, tokens=scaled)


def length_correlation(trace: RequestTrace) -> float:
    """Return Pearson's correlation of prompt and output length; 0 where one never changes."""
    prompts, outputs = trace.prompt_tokens, trace.output_tokens
    if len(prompts) < _LEAST_REQUESTS or prompts.std() == 0 or outputs.std() == 0:
        return 0.0
    return float(np.clip(np.corrcoef(prompts, outputs)[0, 1], -1.0, 1.0))
