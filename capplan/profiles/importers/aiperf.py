"""AIPerf and genai-perf exports: a section a metric, each with its unit.

``inter_token_latency`` is (end to end - first token) / (tokens - 1): TPOT. AIPerf's
``inter_chunk_latency`` is the gap between pieces of the stream: a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import UNIT_SECONDS, Fields, spread
from capplan.profiles.importers.reading import PromptText, Reading, Stated
from capplan.schema.observation import Flag, Load, Observation, Spread

_PARTS: Mapping[str, Sequence[str]] = {
    "mean": ("avg", "mean"),
    "p50": ("p50", "median"),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
}
_DEFAULT_UNIT = "ms"
_STATISTICS = frozenset({"avg", "mean", "combined", "p50"})
"""What a section of a whole run holds; one of a request holds its value."""


def detect(document: Document) -> bool:
    """Whether the file is such an export, of one run or aggregated over several."""
    value = document.value
    if not isinstance(value, dict):
        return False
    metrics = value.get("metrics") if _is_aggregate(value) else value
    if not isinstance(metrics, dict):
        return False
    names = ("request_throughput", "request_latency", "time_to_first_token")
    sections = [metrics.get(name) for name in names]
    return any(isinstance(one, dict) and not _STATISTICS.isdisjoint(one) for one in sections)


def read(document: Document) -> Iterator[Reading]:
    """Yield the one run of the file."""
    value = document.value
    if _is_aggregate(value):
        yield _aggregate(Fields(value), document.name)
    else:
        yield metrics_reading(Fields(value), document.name, _format(value))


def _is_aggregate(value: Mapping[str, Any]) -> bool:
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and "aggregation_type" in metadata


def _format(value: Mapping[str, Any]) -> str:
    aiperf = ("aiperf_version", "schema_version", "benchmark_duration", "was_cancelled")
    return "aiperf" if any(key in value for key in aiperf) else "genai-perf"


def metrics_reading(fields: Fields, source: str, written_by: str) -> Reading:
    """Read one run from its metric sections."""
    config = fields.section("input_config")
    duration = _scalar(fields, "benchmark_duration") or _between(fields)
    completed = _scalar(fields, "request_count")
    load = _load(config, fields)
    observation = Observation(
        source=source,
        format=written_by,
        part=_part(load),
        model=_model(config),
        engine=config.text("backend") or config.section("endpoint").text("backend"),
        gpu=_gpu(fields),
        started_at=fields.text("start_time"),
        duration_s=duration,
        load=load,
        completed=completed,
        failed=_failed(fields),
        prompt_tokens=_scalar(fields, "total_isl"),
        output_tokens=_scalar(fields, "total_osl") or _scalar(fields, "total_output_tokens"),
        output_tokens_per_s=_scalar(fields, "output_token_throughput"),
        ttft_s=_latency(fields, "time_to_first_token"),
        tpot_s=_latency(fields, "inter_token_latency"),
        e2e_s=_latency(fields, "request_latency"),
    )
    stated = Stated(
        requests_per_s=_scalar(fields, "request_throughput"),
        total_tokens_per_s=_scalar(fields, "total_token_throughput"),
        mean_prompt_tokens=_scalar(fields, "input_sequence_length", "num_input_token"),
        asked_prompt_tokens=config.positive("synthetic_input_tokens_mean")
        or config.section("input", "synthetic_tokens").positive("mean"),
        mean_output_tokens=_scalar(fields, "output_sequence_length", "num_output_token"),
        gap_s=_latency(fields, "inter_chunk_latency"),
        gap_is="step",
        latency_unit=fields.section("request_latency").text("unit") or _DEFAULT_UNIT,
        unit_is_named=bool(fields.section("request_latency").text("unit")),
        prompt_text=_prompt_text(config),
        warmup=_warmup(config),
        flags=(*_cancelled(fields), *_not_streamed(config)),
        tolerance=0.05,
        odd=tuple(fields.odd),
    )
    return Reading(observation, stated)


def _aggregate(fields: Fields, source: str) -> Reading:
    metadata, metrics = fields.section("metadata"), fields.section("metrics")
    flat = {name: metrics.section(name).raw("combined") or metrics.raw(name) for name in metrics}
    found = metrics_reading(Fields(flat), source, "aiperf")
    runs = metadata.whole("num_successful_runs", "num_profile_runs") or 2
    stated = Stated(merged_runs=max(runs, 2), odd=tuple(fields.odd))
    return Reading(found.observation.model_copy(update={"part": f"{runs} runs"}), stated)


def _scalar(fields: Fields, *names: str) -> float | None:
    for name in names:
        value = fields.raw(name)
        section = fields.section(name)
        number = section.count("avg", "mean") if isinstance(value, dict) else fields.count(name)
        if number is not None:
            return number * UNIT_SECONDS.get(section.text("unit").lower(), 1.0)
    return None


def _latency(fields: Fields, name: str) -> Spread | None:
    section = fields.section(name)
    unit = section.text("unit").lower() or _DEFAULT_UNIT
    return spread(section, _PARTS, UNIT_SECONDS.get(unit, UNIT_SECONDS[_DEFAULT_UNIT]))


def _between(fields: Fields) -> float | None:
    start, end = fields.text("start_time"), fields.text("end_time")
    try:
        seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except (ValueError, TypeError):
        return None
    return seconds if seconds > 0 else None


def _failed(fields: Fields) -> float | None:
    stated = _scalar(fields, "error_request_count")
    if stated is not None:
        return stated
    errors = [
        Fields(item, "error_summary.").count("count") for item in fields.items("error_summary")
    ]
    return sum(count for count in errors if count is not None) if errors else None


def _load(config: Fields, fields: Fields) -> Load:
    places = (config.section("loadgen"), config.section("perf_analyzer", "stimulus"), config)
    rate = next((rate for one in places if (rate := one.positive("request_rate"))), None)
    limit = next((limit for one in places if (limit := _limit(one))), None)
    arrival: Literal["rate", "closed_loop", "unknown"] = "unknown"
    if rate is not None:
        arrival = "rate"
    elif limit is not None:
        arrival = "closed_loop"
    return Load(
        arrival=arrival,
        requested_rate_per_s=rate,
        achieved_rate_per_s=_scalar(fields, "request_throughput"),
        max_concurrency=limit,
        temperature=config.section("extra_inputs").count("temperature"),
    )


def _limit(config: Fields) -> int | None:
    """Return the concurrency; a sweep of one value is a list of one."""
    listed = config.items("concurrency")
    only = Fields({"concurrency": listed[0]}) if len(listed) == 1 else config
    return only.whole("concurrency")


def _part(load: Load) -> str:
    if load.requested_rate_per_s is not None:
        return f"rate {load.requested_rate_per_s:g}/s"
    return f"concurrency {load.max_concurrency}" if load.max_concurrency is not None else ""


def _model(config: Fields) -> str:
    listed = [
        *config.items("model"),
        *config.items("model_names"),
        *config.section("model").items("names"),
        *config.section("endpoint").items("model_names"),
    ]
    first = next((str(name) for name in listed if isinstance(name, str)), "")
    return first or config.text("model", "formatted_model_name")


def _gpu(fields: Fields) -> str:
    for endpoint in fields.section("telemetry_data", "endpoints").sections():
        for gpu in endpoint.section("gpus").sections():
            name = gpu.text("gpu_name")
            if name:
                return name
    return ""


def _prompt_text(config: Fields) -> PromptText:
    described = config.section("input")
    if "synthetic" in (config.text("prompt_source"), described.text("prompt_source")):
        return "synthetic text"
    files = described.text("file", "public_dataset") or config.text("input_file")
    return "synthetic text" if "prompt" in described and not files else ""


def _warmup(config: Fields) -> Literal["unknown", "excluded", "included"]:
    count = config.count("warmup_request_count")
    if count is None:
        count = config.section("loadgen").count("warmup_request_count")
    if count is None:
        return "unknown"
    return "excluded" if count > 0 else "included"


def _cancelled(fields: Fields) -> tuple[Flag, ...]:
    if fields.raw("was_cancelled") is not True:
        return ()
    text = "the benchmark was stopped before its end"
    return (Flag(check="cancelled", text=text, remedy="Let it run to its end."),)


def _not_streamed(config: Fields) -> tuple[Flag, ...]:
    streaming = config.raw("streaming")
    if streaming is None:
        streaming = config.section("endpoint").raw("streaming")
    if streaming is not False:
        return ()
    return (
        Flag(
            check="not_streamed",
            text="answers were not streamed: the time to the first token is that of the whole",
            remedy="Run the benchmark with --streaming.",
            unusable_for=("latency", "step_time"),
        ),
    )
