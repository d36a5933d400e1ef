"""AIPerf's ``profile_export.jsonl``: one record a request, warm-up apart from profiling."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import UNIT_SECONDS, Fields, spread_of
from capplan.profiles.importers.reading import Reading, Stated
from capplan.schema.observation import Flag, Load, Observation, Spread

FORMAT = "aiperf-records"
_NS = 1e-9
_PROFILING = "profiling"
_PHASE_KEYS = ("benchmark_phase", "credit_phase")
"""The second of the first releases, which give one time a request: that of its start."""


def detect(document: Document) -> bool:
    """Whether the first record is one."""
    value = document.value
    return (
        isinstance(value, dict)
        and isinstance(value.get("metrics"), dict)
        and isinstance(value.get("metadata"), dict)
        and any(key in value["metadata"] for key in ("request_start_ns", *_PHASE_KEYS))
    )


def read(document: Document) -> Iterator[Reading]:
    """Yield the run that the records make up."""
    records = [Fields(value) for value in document.values if isinstance(value, dict)]
    measured = [r for r in records if r.section("metadata").text(*_PHASE_KEYS) in _PHASES]
    finished = [r for r in measured if not r.raw("error")]
    if not finished:
        return
    span = _span(finished)
    prompt, output = _total(finished, "input_sequence_length"), _total(finished, *_OUTPUT)
    observation = Observation(
        source=document.name,
        format=FORMAT,
        duration_s=span,
        load=Load(achieved_rate_per_s=len(finished) / span if span else None),
        completed=float(len(finished)),
        failed=float(len(measured) - len(finished)),
        prompt_tokens=prompt,
        output_tokens=output,
        output_tokens_per_s=output / span if output is not None and span else None,
        ttft_s=_latency(finished, "time_to_first_token", "ttft"),
        tpot_s=_latency(finished, "inter_token_latency"),
        e2e_s=_latency(finished, "request_latency"),
    )
    count = float(len(finished))
    untimed = Flag(
        check="no_times",
        text="the records carry no times that give a duration",
        remedy="The file was edited; take it again from the tool.",
        unusable_for=("capacity",),
    )
    stated = Stated(
        mean_prompt_tokens=prompt / count if prompt is not None else None,
        mean_output_tokens=output / count if output is not None else None,
        gap_s=spread_of(_gaps(finished)),
        gap_is="step",
        warmup="excluded" if len(measured) < len(records) else "unknown",
        flags=(untimed,) if span is None else (),
        tolerance=0.05,
        odd=tuple(place for record in finished for place in record.odd)[:20],
    )
    yield Reading(observation, stated)


_PHASES = frozenset({_PROFILING, ""})
_OUTPUT = ("output_sequence_length", "output_token_count")


def _value(record: Fields, *names: str) -> float | None:
    """Return a metric in SI units."""
    for name in names:
        section = record.section("metrics", name)
        number = section.count("value")
        if number is not None:
            return number * UNIT_SECONDS.get(section.text("unit").lower(), 1.0)
    return None


def _total(records: list[Fields], *names: str) -> float | None:
    values = [_value(record, *names) for record in records]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _latency(records: list[Fields], *names: str) -> Spread | None:
    values = [_value(record, *names) for record in records]
    return spread_of([value for value in values if value is not None])


def _gaps(records: list[Fields]) -> list[float]:
    gaps: list[float] = []
    for record in records:
        section = record.section("metrics", "inter_chunk_latency")
        seconds = UNIT_SECONDS.get(section.text("unit").lower(), 1e-3)
        gaps += [gap * seconds for gap in section.counts("value")]
    return gaps


def _span(finished: list[Fields]) -> float | None:
    """Return the time from the first start to the last end; failed records carry odd ends."""
    starts, ends = [], []
    for record in finished:
        metadata = record.section("metadata")
        start = metadata.count("request_start_ns", "timestamp_ns")
        end, taken_s = metadata.count("request_end_ns"), _value(record, "request_latency")
        if end is None and start is not None and taken_s is not None:
            end = start + taken_s / _NS
        if start is None or end is None:
            continue
        if start > end:
            record.odd.append("a request that ends before it starts")
        starts.append(start)
        ends.append(end)
    if not starts or max(ends) <= min(starts):
        return None
    return (max(ends) - min(starts)) * _NS
