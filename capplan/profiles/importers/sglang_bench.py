"""``sglang.bench_serving --output-file``: one JSON object a run, appended line by line.

TPOT leaves the first token out. With its own protocol the gap between pieces of a stream is
divided by the tokens of the piece, so ITL is a time per token; with OpenAI's (backend
``sglang-oai``) it is that of a step. ``accept_length`` is the server's own mean since it was
started, bonus token included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, spread
from capplan.profiles.importers.reading import Reading, Stated
from capplan.profiles.importers.vllm_bench import (
    SGLANG_KEYS,
    engine_of,
    latency,
    load_of,
    text_of_dataset,
)
from capplan.schema.observation import Flag, Observation
from capplan.schema.pairing import Method

FORMAT = "sglang-bench"
_MS = 1e-3
_E2E: Mapping[str, Sequence[str]] = {
    "mean": ("mean_e2e_latency_ms",),
    "p50": ("median_e2e_latency_ms",),
    "p90": ("p90_e2e_latency_ms",),
    "p95": ("p95_e2e_latency_ms",),
    "p99": ("p99_e2e_latency_ms",),
}
METHODS = {
    "EAGLE": Method.EAGLE,
    "EAGLE3": Method.EAGLE3,
    "NEXTN": Method.MTP,
    "NGRAM": Method.NGRAM,
    "STANDALONE": Method.DRAFT_MODEL,
    "DFLASH": Method.DFLASH,
}
"""SGLang's names of speculative algorithms."""


def detect(document: Document) -> bool:
    """Whether the first object of the file is such a result."""
    value = document.value
    return (
        isinstance(value, dict)
        and "output_throughput" in value
        and any(key in value for key in SGLANG_KEYS)
    )


def read(document: Document) -> Iterator[Reading]:
    """Yield each run of the file."""
    for index, value in enumerate(document.values):
        if isinstance(value, dict) and "output_throughput" in value:
            part = f"run {index + 1}" if len(document.values) > 1 else ""
            yield _reading(Fields(value), document.name, part)


def _reading(fields: Fields, source: str, part: str) -> Reading:
    server = fields.section("server_info")
    length = fields.count("accept_length")
    sent = fields.positive("num_prompts")
    observation = Observation(
        source=source,
        format=FORMAT,
        part=part or fields.text("tag"),
        model=fields.text("model", "model_id") or server.text("model_path"),
        draft=server.text("speculative_draft_model_path"),
        method=METHODS.get(server.text("speculative_algorithm").upper()),
        engine=engine_of(fields.text("backend")) or "sglang",
        engine_version=server.text("version"),
        gpu_count=server.whole("tp_size"),
        duration_s=fields.positive("duration"),
        load=load_of(fields, sent),
        completed=fields.count("completed"),
        failed=fields.count("failed"),
        prompt_tokens=fields.count("total_input_tokens"),
        output_tokens=fields.count("total_output_tokens"),
        output_tokens_per_s=fields.count("output_throughput"),
        ttft_s=latency(fields, "ttft", "_ms", _MS),
        tpot_s=latency(fields, "tpot", "_ms", _MS),
        e2e_s=spread(fields, _E2E, _MS),
    )
    stated = Stated(
        requests_sent=sent,
        requests_per_s=fields.count("request_throughput"),
        prompt_tokens_per_s=fields.count("input_throughput"),
        total_tokens_per_s=fields.count("total_throughput"),
        gap_s=latency(fields, "itl", "_ms", _MS),
        gap_is=gap_of(fields.text("backend")),
        tokens_per_draft_round=length,
        num_speculative_tokens=drafted_tokens(server),
        prompt_text=text_of_dataset(fields.text("dataset_name")),
        flags=(SINCE_START,) if length is not None else (),
        odd=tuple(fields.odd),
    )
    return Reading(observation, stated)


def gap_of(backend: str) -> Literal["token", "unknown"]:
    """Return what ITL is; TPOT tells where it depends on the version."""
    return "token" if backend.lower() in {"", "sglang", "sglang-native"} else "unknown"


def drafted_tokens(server: Fields) -> int | None:
    """Return N of a chain of drafts from the server's arguments.

    A chain verifies the last accepted token beside N drafts: one more than it drafts.
    """
    verified = server.whole("speculative_num_draft_tokens")
    chain = server.count("speculative_eagle_topk") in (None, 1.0)
    if verified is not None and verified > 1 and chain:
        return verified - 1
    return None


SINCE_START = Flag(
    check="acceptance_since_start",
    text="the server's mean length of a round counts everything since it was started, warm-up too",
    remedy="Restart the server before the benchmark, or use its log.",
)
