"""``vllm bench serve --save-result``, and the older ``benchmark_serving.py``.

TPOT leaves the first token out. ITL is the gap between two pieces of a request's stream: an engine
step, so it is TPOT times the tokens of a step. Acceptance is a percentage, its rates by position
are fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, is_unbounded, spread, spread_of
from capplan.profiles.importers.reading import (
    PromptText,
    Reading,
    Stated,
    named,
    speculation_counts,
)
from capplan.schema.observation import Flag, Load, Observation, SpeculationCounts, Spread

FORMAT = "vllm-bench-serve"
_MS = 1e-3
_SHAPE_REQUESTS = 8
"""From so many requests on, equal lengths of all are no accident."""


def detect(document: Document) -> bool:
    """Whether the file is such a result."""
    value = document.value
    return (
        isinstance(value, dict)
        and "output_throughput" in value
        and any(key in value for key in ("request_throughput", "completed"))
        and any(key.endswith(("_ttft_ms", "_tpot_ms", "_itl_ms", "_e2el_ms")) for key in value)
        and not any(key in value for key in SGLANG_KEYS)
    )


SGLANG_KEYS = ("total_output_tokens_retokenized", "mean_e2e_latency_ms", "accept_length")


def read(document: Document) -> Iterator[Reading]:
    """Yield the result of each run in the file."""
    for index, value in enumerate(document.values):
        if isinstance(value, dict) and "output_throughput" in value:
            part = f"run {index + 1}" if len(document.values) > 1 else ""
            yield reading(Fields(value), document.name, part)


def reading(fields: Fields, source: str, part: str) -> Reading:
    """Read one result whose latencies carry the suffix ``_ms``."""
    speculation, flags, beside = _speculation(fields)
    sent = fields.positive("num_prompts")
    observation = Observation(
        source=source,
        format=FORMAT,
        part=part or fields.text("label"),
        model=fields.text("model_id"),
        engine=engine_of(fields.text("backend", "endpoint_type")),
        started_at=fields.text("date"),
        duration_s=fields.positive("duration"),
        load=load_of(fields, sent),
        completed=fields.count("completed"),
        failed=fields.count("failed"),
        prompt_tokens=fields.count("total_input_tokens"),
        output_tokens=fields.count("total_output_tokens"),
        output_tokens_per_s=fields.count("output_throughput"),
        ttft_s=latency(fields, "ttft", "_ms", _MS) or spread_of(fields.counts("ttfts")),
        tpot_s=latency(fields, "tpot", "_ms", _MS),
        e2e_s=latency(fields, "e2el", "_ms", _MS),
        speculation=speculation,
    )
    stated = Stated(
        requests_sent=sent,
        requests_per_s=fields.count("request_throughput"),
        prompt_tokens_per_s=fields.count("input_throughput"),
        total_tokens_per_s=fields.count("total_token_throughput"),
        gap_s=latency(fields, "itl", "_ms", _MS),
        gap_is="step",
        prompt_text=prompt_text(fields),
        **beside,
        flags=(*flags, *_ramp(fields)),
        odd=tuple(fields.odd),
    )
    return Reading(observation, stated)


def latency(fields: Fields, name: str, suffix: str, seconds: float) -> Spread | None:
    """Return a latency of the ``<statistic>_<name><suffix>`` family."""
    statistics: Mapping[str, Sequence[str]] = {
        "mean": (f"mean_{name}{suffix}",),
        "p50": (f"median_{name}{suffix}", f"p50_{name}{suffix}"),
        "p90": (f"p90_{name}{suffix}",),
        "p95": (f"p95_{name}{suffix}",),
        "p99": (f"p99_{name}{suffix}",),
    }
    return spread(fields, statistics, seconds)


def load_of(fields: Fields, sent: float | None) -> Load:
    """Read how the requests arrived."""
    rate = fields.raw("request_rate")
    limit = fields.whole("max_concurrency")
    open_loop = None if is_unbounded(rate) else fields.positive("request_rate")
    if fields.text("ramp_up_strategy"):
        arrival, open_loop = "unknown", None
    elif open_loop is not None:
        arrival = "rate"
    elif limit is not None and (sent is None or limit < sent):
        arrival = "closed_loop"
    elif is_unbounded(rate) or limit is not None:
        arrival = "all_at_once"
    else:
        arrival = "unknown"
    return Load.model_validate(
        {
            "arrival": arrival,
            "requested_rate_per_s": open_loop,
            "achieved_rate_per_s": fields.count("request_throughput"),
            "max_concurrency": limit,
            "peak_concurrency": fields.positive("max_concurrent_requests"),
            "mean_concurrency": fields.positive("concurrency"),
            "dataset": fields.text("dataset_name", "dataset"),
            "temperature": fields.count("temperature"),
        }
    )


def _ramp(fields: Fields) -> tuple[Flag, ...]:
    """Say that the load changed while the run lasted."""
    if not fields.text("ramp_up_strategy"):
        return ()
    first, last = fields.count("ramp_up_start_rps"), fields.count("ramp_up_end_rps")
    span = f" from {first:g} to {last:g} a second" if first is not None and last else ""
    return (
        Flag(
            check="ramped_rate",
            text=f"the rate of requests rose while the run lasted{span}: its figures are means "
            "over many loads",
            remedy="Measure each load in a run of its own, with --request-rate.",
            unusable_for=("capacity", "latency"),
        ),
    )


def engine_of(backend: str) -> str:
    """Return the engine that a client's backend names, where it names one."""
    known = ("vllm", "sglang", "tensorrt-llm", "trtllm", "trt", "tgi", "lmdeploy")
    name = backend.lower()
    return next((engine for engine in known if name.startswith(engine)), "")


def prompt_text(fields: Fields) -> PromptText:
    """Say what the prompts were made of: by the data set's name, else by their lengths."""
    named_text = text_of_dataset(fields.text("dataset_name", "dataset"))
    if named_text or "dataset_name" in fields:
        return named_text
    done = fields.count("completed")
    if done is None or done < _SHAPE_REQUESTS:
        return ""
    totals = (fields.count("total_input_tokens"), fields.count("total_output_tokens"))
    # natural prompts have different lengths; a whole mean of both lengths means one length each
    fixed = all(total and total % done == 0 for total in totals)
    lengths = fields.counts("input_lens")
    if lengths:
        fixed = len(set(lengths)) == 1
    return "random tokens" if fixed else ""


def text_of_dataset(name: str) -> PromptText:
    """Return what a data set of this name consists of, where it is no real text."""
    lowered = name.lower().replace("_", "-")
    if lowered.startswith(("random", "prefix-repetition", "generated-shared-prefix", "image")):
        return "random tokens"
    return "synthetic text" if "synthetic" in lowered else ""


def _speculation(
    fields: Fields,
) -> tuple[SpeculationCounts | None, tuple[Flag, ...], dict[str, Any]]:
    rates = fields.counts("spec_decode_per_position_acceptance_rates")
    drafts = fields.count("spec_decode_num_drafts")
    counts, flags = speculation_counts(
        drafts,
        fields.count("spec_decode_draft_tokens", "spec_decode_num_draft_tokens"),
        fields.count("spec_decode_accepted_tokens", "spec_decode_num_accepted_tokens"),
        num_speculative_tokens=len(rates) or None,
        accepted_per_position=tuple(rate * (drafts or 0.0) for rate in rates),
    )
    beside = named(
        {
            "acceptance_rate": fields.count("spec_decode_acceptance_rate"),
            "tokens_per_draft_round": fields.count("spec_decode_acceptance_length"),
        }
    )
    return counts, flags, {**beside, "position_rates": rates}
