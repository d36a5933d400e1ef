"""Figures of a workload and of a trace."""

from __future__ import annotations

from capplan.estimate import request_trace as traced
from capplan.estimate.length_distributions import quantile_tokens
from capplan.estimate.recurring_rates import seen_arrival
from capplan.estimate.request_trace import RequestTrace
from capplan.estimate.traffic import (
    further_context_tokens,
    mean_requests_per_s,
    output_distribution,
    peak_to_mean,
    prompt_distribution,
    requests_per_s_of_week,
)
from capplan.schema.arrival import DAYS_PER_WEEK, HOURS_PER_DAY
from capplan.schema.lengths import Lengths, LognormalLength
from capplan.schema.traffic import LengthFigures, TrafficFigures
from capplan.schema.workload import Workload
from capplan.units import HOURS_PER_MONTH, SECONDS_PER_HOUR

WINDOWS_S = {"1 min": 60.0, "5 min": 300.0, "15 min": 900.0}
"""Windows over which peaks are told."""
DEFAULT_WINDOW = "5 min"
"""The peak that a fleet is sized for: minutes outlast a queue, hours hide a burst."""


def traffic_figures(workload: Workload, serving_hours: float = HOURS_PER_MONTH) -> TrafficFigures:
    """Return rates, tokens and lengths of a workload."""
    mean, ratio = (
        mean_requests_per_s(workload, serving_hours),
        peak_to_mean(workload, serving_hours),
    )
    computed = workload.prompt_tokens * (1.0 - workload.prefix_cache_hit_rate)
    month_s = serving_hours * SECONDS_PER_HOUR

    def times_mean(factor: float) -> float | None:
        return None if mean is None else mean * factor

    by_hour, by_day = _shape(workload, serving_hours)
    return TrafficFigures(
        mean_requests_per_s=mean,
        peak_requests_per_s=times_mean(ratio),
        peak_to_mean=ratio,
        output_tokens_per_s=times_mean(workload.output_tokens),
        peak_output_tokens_per_s=times_mean(ratio * workload.output_tokens),
        computed_prompt_tokens_per_s=times_mean(computed),
        requests_per_month=times_mean(month_s),
        output_tokens_per_month=times_mean(workload.output_tokens * month_s),
        prompt=length_figures(prompt_distribution(workload)),
        output=length_figures(output_distribution(workload)),
        further_context_tokens=further_context_tokens(workload),
        requests_per_s_by_hour=by_hour,
        requests_per_s_by_day=by_day,
    )


def _shape(
    workload: Workload, serving_hours: float
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    week, arrival = requests_per_s_of_week(workload, serving_hours), workload.arrival
    if week is None or arrival is None:
        return None, None
    table = week.reshape(DAYS_PER_WEEK, HOURS_PER_DAY)
    hours = tuple(map(float, table.mean(axis=0))) if arrival.hour_of_day else None
    days = tuple(map(float, table.mean(axis=1))) if arrival.day_of_week else None
    return hours, days


def length_figures(lengths: Lengths) -> LengthFigures:
    """Return mean and quantiles of a distribution."""
    p50, p90, p95, p99, longest = quantile_tokens(lengths, [0.5, 0.9, 0.95, 0.99, 1.0])
    return LengthFigures(
        kind=lengths.kind,
        mean_tokens=lengths.mean_tokens,
        p50_tokens=float(p50),
        p90_tokens=float(p90),
        p95_tokens=float(p95),
        p99_tokens=float(p99),
        longest_tokens=None if isinstance(lengths, LognormalLength) else float(longest),
    )


def peaks(trace: RequestTrace) -> dict[str, float | None]:
    """Return the rate of the busiest window of each length."""
    return {
        name: traced.peak_requests_per_s(trace, seconds) for name, seconds in WINDOWS_S.items()
    }


def workload_of_trace(trace: RequestTrace, window: str = DEFAULT_WINDOW) -> Workload:
    """Return the workload that a trace shows: rate, peak, shape of day and week, lengths.

    Parameters
    ----------
    trace
        At least one request.
    window
        Of the peak, a key of :data:`WINDOWS_S`; a trace that is shorter shows no peak.
    """
    peak = traced.peak_requests_per_s(trace, WINDOWS_S[window])
    rate, arrival = seen_arrival(
        traced.mean_requests_per_s(trace),
        peak,
        traced.hour_of_day_weights(trace),
        traced.day_of_week_weights(trace),
    )
    return Workload(
        requests_per_s=rate,
        arrival=arrival,
        prompt_lengths=traced.empirical(trace.prompt_tokens),
        output_lengths=traced.empirical(trace.output_tokens),
        length_correlation=traced.length_correlation(trace),
    )
