"""What was understood of a workload, in figures."""

from __future__ import annotations

from capplan.schema.base import Value
from capplan.schema.workload import Slo, Workload


class LengthFigures(Value):
    """A distribution of lengths, in tokens."""

    kind: str
    mean_tokens: float
    p50_tokens: float
    p90_tokens: float
    p95_tokens: float
    p99_tokens: float
    longest_tokens: float | None
    """None for a lognormal, which has none."""


class TrafficFigures(Value):
    """Rates and lengths of a workload, derived from what it states."""

    mean_requests_per_s: float | None
    peak_requests_per_s: float | None
    """What a fleet is sized for."""
    peak_to_mean: float
    output_tokens_per_s: float | None
    """At the mean rate."""
    peak_output_tokens_per_s: float | None
    computed_prompt_tokens_per_s: float | None
    """At the mean rate, without those of which the prefix cache holds the KV."""
    requests_per_month: float | None
    output_tokens_per_month: float | None
    prompt: LengthFigures
    output: LengthFigures
    further_context_tokens: float
    """Context of a mean decode step beyond prompt + half the output."""
    requests_per_s_by_hour: tuple[float, ...] | None
    """Mean of each hour of the day; None without a shape or a rate."""
    requests_per_s_by_day: tuple[float, ...] | None
    """Mean of each day of the week, Monday first."""


class TraceFigures(Value):
    """What a trace held, and what was made of it."""

    file: str
    layout: str
    columns: tuple[str, str, str]
    times: str
    rows: int
    requests: int
    """Those that count: neither bad nor failed."""
    failed: int
    """Without an output token; kept out."""
    bad: int
    """Rows that could not be read; kept out."""
    bad_rows: tuple[str, ...]
    """The first of them, with line and reason."""
    hours: float
    mean_requests_per_s: float | None
    peak_requests_per_s: dict[str, float | None]
    """Of the busiest 1, 5 and 15 minutes."""
    index_of_dispersion: float | None
    """Variance over mean of requests a minute; 1 for independent arrivals at a steady rate."""
    length_correlation: float
    notes: tuple[str, ...] = ()


class CountedFigures(Value):
    """What counters of an engine's metrics held, and what was made of them."""

    file: str
    software: str
    model: str
    engines: int
    requests: float
    """That ended well while they were counted."""
    failed: float
    """Requests that were aborted or failed; kept out."""
    looks: int
    step_s: float
    """The longest time between two looks."""
    hours: float
    """From the first look to the last."""
    unseen_hours: float
    """Of these: without an engine that was seen."""
    restarts: int
    peak_requests_per_s: dict[str, float | None]
    """Of the busiest 1, 5 and 15 minutes; None where looks are further apart."""
    notes: tuple[str, ...] = ()


class ServiceReport(Value):
    """One service."""

    name: str
    workload: Workload
    target: str | None = None
    """LLM that it asks for."""
    slo: Slo = Slo()
    """Limits that it asks for."""
    figures: TrafficFigures
    trace: TraceFigures | None = None
    counted: CountedFigures | None = None


class WorkloadReport(Value):
    """Every service, and what they are together."""

    services: tuple[ServiceReport, ...]
    together: ServiceReport | None = None
    """All services on one fleet; None for one service, or where a rate is missing."""
    notes: tuple[str, ...] = ()
