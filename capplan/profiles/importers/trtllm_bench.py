"""``trtllm-bench throughput --report_json``: TensorRT-LLM's own report.

TPOT leaves the first token out. Acceptance is given as percentiles over requests, not as totals,
so counts follow only where the number of drafted tokens is printed as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, spread
from capplan.profiles.importers.reading import Reading, Stated, contradiction
from capplan.schema.observation import Flag, Load, Observation, SpeculationCounts, Spread
from capplan.schema.pairing import Method

FORMAT = "trtllm-bench"
_MS = 1e-3
_PARTS: Mapping[str, Sequence[str]] = {
    "mean": ("average", "avg"),
    "p50": ("p50",),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
}
_METHODS = {"mtp": Method.MTP, "eagle3": Method.EAGLE3, "eagle": Method.EAGLE}


def detect(document: Document) -> bool:
    """Whether the file is such a report."""
    value = document.value
    if not isinstance(value, dict):
        return False
    performance = value.get("performance")
    return isinstance(performance, dict) and "request_throughput_req_s" in performance


def read(document: Document) -> Iterator[Reading]:
    """Yield the one run of the file."""
    fields = Fields(document.value)
    engine, world = fields.section("engine"), fields.section("world_info")
    requests, speed = fields.section("request_info"), fields.section("performance")
    stream = fields.section("streaming_metrics")
    completed = requests.count("num_requests")
    lengths = [requests.count(f"avg_{side}_length") for side in ("input", "output")]
    prompt, output = (n * completed if n is not None and completed else None for n in lengths)
    total_ms = speed.positive("total_latency_ms")
    speculation, flags = _speculation(fields.section("decoding_stats"), completed)
    observation = Observation(
        source=document.name,
        format=FORMAT,
        model=engine.text("model"),
        method=_METHODS.get(fields.section("decoding_stats").text("mode").lower()),
        engine="tensorrt-llm",
        engine_version=engine.text("version"),
        gpu=fields.section("machine").text("name"),
        gpu_count=world.whole("world_size", "tp_size"),
        duration_s=total_ms * _MS if total_ms is not None else None,
        load=Load(
            arrival="all_at_once",  # the tool hands its whole data set to the engine
            achieved_rate_per_s=speed.count("request_throughput_req_s"),
            mean_concurrency=requests.count("avg_num_concurrent_requests"),
        ),
        completed=completed,
        prompt_tokens=prompt,
        output_tokens=output,
        output_tokens_per_s=speed.count("system_output_throughput_tok_s"),
        ttft_s=_latency(stream, "ttft_percentiles", "avg_ttft_ms"),
        tpot_s=_latency(stream, "tpot_percentiles", "avg_tpot_ms"),
        e2e_s=_latency(speed, "request_latency_percentiles_ms", "avg_request_latency_ms"),
        speculation=speculation,
    )
    stated = Stated(
        requests_per_s=speed.count("request_throughput_req_s"),
        total_tokens_per_s=speed.count("system_total_throughput_tok_s"),
        output_tokens_per_s_per_gpu=speed.positive("output_throughput_per_gpu_tok_s"),
        mean_prompt_tokens=lengths[0],
        mean_output_tokens=lengths[1],
        flags=flags,
        odd=tuple(fields.odd),
    )
    yield Reading(observation, stated)


def _latency(fields: Fields, percentiles: str, mean: str) -> Spread | None:
    found = spread(fields.section(percentiles), _PARTS, _MS)
    average = fields.count(mean)
    if average is None:
        return found
    return (found or Spread()).model_copy(update={"mean": average * _MS})


def _speculation(
    stats: Fields, requests: float | None
) -> tuple[SpeculationCounts | None, tuple[Flag, ...]]:
    """Turn means over requests into totals: a mean times the requests is their sum."""
    drafted = stats.section("num_draft_tokens_percentiles").count("average")
    accepted = stats.section("num_accepted_draft_tokens_percentiles").count("average")
    length = stats.section("acceptance_length_percentiles").count("average")
    if drafted is None or accepted is None or not requests or length is None or length <= 1:
        return None, ()
    if accepted > drafted:
        text = f"{accepted:g} tokens accepted a request of {drafted:g} drafted: more than all"
        return None, (contradiction("accepted_over_drafted", text),)
    rounded = Flag(
        check="rounds_from_means",
        text="rounds follow from the mean length of a round over requests, which is not the "
        "length of the mean round",
        remedy="The report gives percentiles over requests only.",
    )
    rounds = requests * accepted / (length - 1)
    counts = SpeculationCounts(
        drafts=rounds, drafted=requests * drafted, accepted=requests * accepted
    )
    return counts, (rounded,)
