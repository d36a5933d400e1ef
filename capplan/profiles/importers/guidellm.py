"""GuideLLM reports, schema 1 and 2: a list of benchmarks, one a rate or concurrency.

Means over time and requests; medians and maxima of rates are of single moments and not used.
``inter_token_latency_ms`` leaves the first token out (TPOT here), ``time_per_output_token_ms``
includes it. Tokens of a step are known where the report counts tokens a stream iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, scaled, spread
from capplan.profiles.importers.reading import PromptText, Reading, Stated
from capplan.schema.observation import Flag, Load, Observation, Spread

FORMAT = "guidellm"
_MS = 1e-3
_STATISTICS: Mapping[str, Sequence[str]] = {
    "mean": ("mean",),
    "p50": ("median",),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
}
_SYNTHETIC_KEYS = ("prompt_tokens", "output_tokens")


def detect(document: Document) -> bool:
    """Whether the file is such a report."""
    value = document.value
    if not isinstance(value, dict):
        return False
    benchmarks = value.get("benchmarks")
    return isinstance(benchmarks, list) and any(
        isinstance(one, dict) and isinstance(one.get("metrics"), dict) for one in benchmarks
    )


def read(document: Document) -> Iterator[Reading]:
    """Yield each benchmark of the report."""
    report = Fields(document.value)
    version = report.section("metadata").whole("version") or 1
    for index, value in enumerate(report.items("benchmarks")):
        if isinstance(value, dict) and isinstance(value.get("metrics"), dict):
            yield _reading(Fields(value, f"benchmarks[{index}]."), report, document.name, version)


def _reading(one: Fields, report: Fields, source: str, version: int) -> Reading:
    metrics = one.section("metrics")
    requests = _totals(metrics, one)
    strategy = one.first(
        "config.strategy", "args.strategy", "scheduler.strategy", "benchmarker.strategy"
    )
    duration = one.positive("duration") or _between(one)
    tpot = _spread(metrics, "inter_token_latency_ms", _MS)
    tokens_per_gap = _mean(metrics, "iter_tokens_per_iteration")
    whole = scaled(tpot, tokens_per_gap) if tokens_per_gap else None
    load = _load(strategy, metrics)
    observation = Observation(
        source=source,
        format=f"{FORMAT}-v{version}",
        part=_part(load, one, strategy),
        model=_model(one, report),
        started_at=str(one.count("start_time") or ""),
        duration_s=duration,
        load=load,
        completed=requests.count("successful"),
        failed=requests.count("errored"),
        prompt_tokens=_sum(metrics, "prompt_token_count"),
        output_tokens=_sum(metrics, "output_token_count"),
        output_tokens_per_s=_mean(metrics, "output_tokens_per_second"),
        ttft_s=_spread(metrics, "time_to_first_token_ms", _MS),
        tpot_s=tpot,
        step_s=whole,
        e2e_s=_spread(metrics, "request_latency", 1.0),
    )
    with_first = _mean(metrics, "time_per_output_token_ms")
    stated = Stated(
        requests_per_s=_mean(metrics, "requests_per_second"),
        total_tokens=_sum(metrics, "total_token_count"),
        mean_prompt_tokens=_mean(metrics, "prompt_token_count"),
        mean_output_tokens=_mean(metrics, "output_token_count"),
        tpot_with_first_s=with_first * _MS if with_first is not None else None,
        tokens_per_gap=tokens_per_gap,
        prompt_text=_prompt_text(one, report),
        warmup=_warmup(one),
        flags=_incomplete(requests),
        tolerance=0.05,
        odd=tuple(one.odd),
    )
    return Reading(observation, stated)


def _successful(metrics: Fields, name: str) -> Fields:
    return metrics.section(name, "successful")


def _mean(metrics: Fields, name: str) -> float | None:
    return _successful(metrics, name).count("mean")


def _sum(metrics: Fields, name: str) -> float | None:
    return _successful(metrics, name).count("total_sum")


def _spread(metrics: Fields, name: str, seconds: float) -> Spread | None:
    found = _successful(metrics, name)
    percentiles = found.section("percentiles")
    merged = {key: found.raw(key) for key in ("mean", "median")}
    merged |= {key: percentiles.raw(key) for key in ("p90", "p95", "p99")}
    return spread(Fields(merged, f"metrics.{name}.", metrics.odd), _STATISTICS, seconds)


def _totals(metrics: Fields, one: Fields) -> Fields:
    return (
        metrics.section("request_totals")
        if "request_totals" in metrics
        else one.first(
            "run_stats.requests_made", "scheduler_metrics.requests_made", "request_totals"
        )
    )


def _between(one: Fields) -> float | None:
    start, end = one.count("start_time"), one.count("end_time")
    return end - start if start is not None and end is not None and end > start else None


def _load(strategy: Fields, metrics: Fields) -> Load:
    kind = strategy.text("type_", "kind")
    rate = strategy.positive("rate")
    limit = strategy.whole("streams", "max_concurrency")
    arrival: Literal["rate", "all_at_once", "closed_loop", "unknown"] = "unknown"
    if kind in {"constant", "poisson", "async", "asynchronous"} and rate is not None:
        arrival, limit = "rate", None  # its max_concurrency bounds the client's own workers
    elif kind == "throughput":
        arrival = "all_at_once"
    elif kind in {"synchronous", "concurrent"} or limit is not None:
        arrival, limit = "closed_loop", 1 if kind == "synchronous" else limit
    return Load(
        arrival=arrival,
        requested_rate_per_s=rate if arrival == "rate" else None,
        achieved_rate_per_s=_mean(metrics, "requests_per_second"),
        max_concurrency=limit,
        mean_concurrency=_mean(metrics, "request_concurrency"),
    )


def _part(load: Load, one: Fields, strategy: Fields) -> str:
    kind = strategy.text("type_", "kind")
    if load.requested_rate_per_s is not None:
        return f"{kind} {load.requested_rate_per_s:g}/s"
    if load.max_concurrency is not None:
        return f"{kind} {load.max_concurrency}".strip()
    return kind or one.text("id_")


def _model(one: Fields, report: Fields) -> str:
    for place in (
        one.section("config", "backend"),
        one.section("benchmarker", "backend"),
        one.section("worker"),
        report.section("config", "spec", "backend"),
        report.section("args"),
        one.section("args"),
    ):
        found = place.text("model", "backend_model")
        if found:
            return found
    return ""


def _prompt_text(one: Fields, report: Fields) -> PromptText:
    data = [
        *report.section("config", "spec").items("data"),
        *report.section("args").items("data"),
        one.section("request_loader").raw("data"),
    ]
    for item in data:
        kind = item.get("kind") if isinstance(item, dict) else item
        text = str(kind or "")
        if "synthetic" in text or any(key in text for key in _SYNTHETIC_KEYS):
            return "synthetic text"
    return ""


def _warmup(one: Fields) -> Literal["unknown", "excluded", "included"]:
    seconds = one.count("warmup_duration")
    if seconds is None:
        return "unknown"
    return "excluded" if seconds > 0 else "included"


def _incomplete(requests: Fields) -> tuple[Flag, ...]:
    cut = requests.count("incomplete")
    if not cut:
        return ()
    return (
        Flag(
            check="incomplete_requests",
            text=f"{cut:g} requests were cut off by the end of the benchmark and are not counted",
            remedy="Short requests are favoured by that; let the benchmark run longer.",
        ),
    )
