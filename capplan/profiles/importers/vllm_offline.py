"""``vllm bench latency`` and ``vllm bench throughput``: batches given to the engine at once.

``latency`` times whole batches of one shape; the file says neither the batch nor the lengths.
``throughput`` counts prompt and output tokens together.
"""

from __future__ import annotations

from collections.abc import Iterator

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, spread_of
from capplan.profiles.importers.reading import Reading, Stated
from capplan.schema.observation import Flag, Load, Observation

_THROUGHPUT = "vllm-bench-throughput"
_LATENCY = "vllm-bench-latency"


def detect(document: Document) -> bool:
    """Whether the file is one of the two."""
    value = document.value
    if not isinstance(value, dict):
        return False
    throughput = {"elapsed_time", "requests_per_second", "tokens_per_second"} <= value.keys()
    latency = {"avg_latency", "latencies", "percentiles"} <= value.keys()
    return throughput or latency


def read(document: Document) -> Iterator[Reading]:
    """Yield the one result of the file."""
    fields = Fields(document.value)
    if "elapsed_time" in fields:
        yield _throughput(fields, document.name)
    else:
        yield _latency(fields, document.name)


def _throughput(fields: Fields, source: str) -> Reading:
    observation = Observation(
        source=source,
        format=_THROUGHPUT,
        model=fields.text("model_id"),
        engine="vllm",
        duration_s=fields.positive("elapsed_time"),
        load=Load(arrival="all_at_once", achieved_rate_per_s=fields.count("requests_per_second")),
        completed=fields.count("num_requests"),
    )
    mixed = Flag(
        check="tokens_not_separated",
        text="tokens a second are of prompts and outputs together",
        remedy="vllm bench serve counts them apart.",
        unusable_for=("capacity", "latency", "acceptance", "step_time"),
    )
    stated = Stated(
        requests_per_s=fields.count("requests_per_second"),
        total_tokens_per_s=fields.count("tokens_per_second"),
        total_tokens=fields.count("total_num_tokens"),
        odd=tuple(fields.odd),
        flags=(mixed,),
    )
    return Reading(observation, stated)


def _latency(fields: Fields, source: str) -> Reading:
    batches = fields.counts("latencies")
    observation = Observation(
        source=source,
        format=_LATENCY,
        model=fields.text("model_id"),
        engine="vllm",
        duration_s=sum(batches) or None,
        load=Load(arrival="all_at_once"),
        e2e_s=spread_of(batches),
    )
    shapeless = Flag(
        check="batch_unknown",
        text=f"{len(batches)} batches were timed; the file says neither their size nor lengths",
        remedy="vllm bench serve, or capplan profile, records them.",
        unusable_for=("capacity", "acceptance", "step_time"),
    )
    flags = [shapeless]
    mean, timed = fields.positive("avg_latency"), observation.e2e_s
    of_values = timed.mean if timed is not None else None
    if mean is not None and of_values is not None and abs(of_values / mean - 1.0) > _ROUNDED:
        flags.append(_another_mean(mean, of_values))
    stated = Stated(
        requests_sent=float(len(batches)),
        latency_unit="s",
        odd=tuple(fields.odd),
        flags=tuple(flags),
    )
    return Reading(observation, stated)


_ROUNDED = 0.01


def _another_mean(printed: float, of_values: float) -> Flag:
    return Flag(
        check="mean_of_latencies",
        text=f"avg_latency is {printed:g}, the mean of the latencies {of_values:g}",
        remedy="The file was edited or its units changed; run the benchmark again.",
        unusable_for=("latency",),
    )
