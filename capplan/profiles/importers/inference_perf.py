"""inference-perf (kubernetes-sigs): a file a stage, and a summary over all of them.

``time_per_output_token`` and ``inter_token_latency`` count pieces of the stream; the end-to-end
identity shows where these are not tokens. The summary merges stages of different rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, spread
from capplan.profiles.importers.reading import Reading, Stated
from capplan.schema.observation import Load, Observation, Spread

FORMAT = "inference-perf"
_PARTS: Mapping[str, Sequence[str]] = {
    "mean": ("mean",),
    "p50": ("median", "p50"),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
}


def detect(document: Document) -> bool:
    """Whether the file is a stage or a summary."""
    value = document.value
    return (
        isinstance(value, dict)
        and isinstance(value.get("load_summary"), dict)
        and isinstance(value.get("successes"), dict)
    )


def read(document: Document) -> Iterator[Reading]:
    """Yield the one stage of the file."""
    fields = Fields(document.value)
    load, done = fields.section("load_summary"), fields.section("successes")
    latency, throughput = done.section("latency"), done.section("throughput")
    completed = done.count("count")
    rate = throughput.positive("requests_per_sec")
    asked = load.positive("requested_rate")
    lengths = [done.section(name).count("mean") for name in ("prompt_len", "output_len")]
    prompt, output = (
        mean * completed if mean is not None and completed is not None else None
        for mean in lengths
    )
    observation = Observation(
        source=document.name,
        format=FORMAT,
        part=_part(asked, load.whole("concurrency")),
        # the tool prints rates, not the time they were taken over
        duration_s=completed / rate if completed and rate else None,
        load=_load(load, rate, asked),
        completed=completed,
        failed=fields.section("failures").count("count"),
        prompt_tokens=prompt,
        output_tokens=output,
        output_tokens_per_s=throughput.count("output_tokens_per_sec"),
        ttft_s=_spread(latency, "time_to_first_token"),
        tpot_s=_spread(latency, "time_per_output_token"),
        e2e_s=_spread(latency, "request_latency"),
    )
    stated = Stated(
        requests_sent=load.positive("count"),
        prompt_tokens_per_s=throughput.count("input_tokens_per_sec"),
        total_tokens_per_s=throughput.count("total_tokens_per_sec"),
        mean_prompt_tokens=lengths[0],
        mean_output_tokens=lengths[1],
        gap_s=_spread(latency, "inter_token_latency"),
        latency_unit="s",
        merged_runs=1 if asked is not None or load.whole("concurrency") else 2,
        odd=tuple(fields.odd),
    )
    yield Reading(observation, stated)


def _part(asked: float | None, limit: int | None) -> str:
    if asked is not None:
        return f"rate {asked:g}/s"
    return "summary" if limit is None else f"concurrency {limit}"


def _spread(latency: Fields, name: str) -> Spread | None:
    return spread(latency.section(name), _PARTS, 1.0)


def _load(load: Fields, rate: float | None, asked: float | None) -> Load:
    limit = load.whole("concurrency")
    return Load(
        arrival="rate" if asked is not None else "closed_loop" if limit else "unknown",
        requested_rate_per_s=asked,
        achieved_rate_per_s=rate,
        max_concurrency=limit,
    )
