"""The JSON answer of a Prometheus query: totals at one time, or windows over a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.reading import Reading
from capplan.profiles.metrics_import import course_observations, since_start_observations
from capplan.profiles.query_answer import is_query_answer, read_query_answer
from capplan.profiles.query_scrapes import Look, looks
from capplan.profiles.traffic_counts import traffic_counts
from capplan.schema.observation import Flag

_MOST_WINDOWS, _REQUESTS_A_WINDOW = 24, 30
"""Steps are taken together until a usual window says something; counters lose nothing by it."""
_OF_THE_LOAD = Flag(
    check="arrivals_unknown",
    text="Counters do not say whether the engine was as busy as it can be: throughput is that of "
    "the load.",
    remedy="capplan workload FILE shows that load, to plan for it; capacity takes a benchmark.",
    unusable_for=("capacity",),
)


def detect(document: Document) -> bool:
    """Whether the file is an answer of the query API."""
    return document.kind == "json" and is_query_answer(document.value)


def read(document: Document) -> Iterator[Reading]:
    """Yield the totals of one time, or windows over a range of times, one a served LLM."""
    answer = read_query_answer(document.value, document.name)
    found = looks(answer, document.name)
    notes = tuple(Flag(check="server_says", text=note) for note in answer.notes)
    if len(found) == 1:
        for observation in since_start_observations(found[0].scrape, document.name, notes):
            yield Reading(observation)
        return
    several = len({engine.model for look in found for engine in look.scrape.engines}) > 1
    for window in _windows(found):
        first, last = window[0], window[-1]
        for observation in course_observations(
            [look.scrape for look in window],
            document.name,
            duration_s=last.second - first.second,
        ):
            model = f"{observation.model}, " if several and observation.model else ""
            changes = {
                "part": f"{model}{_span(first, last)}",
                "flags": (*notes, _OF_THE_LOAD, *observation.flags),
            }
            yield Reading(observation.model_copy(update=changes))


def _windows(found: Sequence[Look]) -> Iterator[Sequence[Look]]:
    """Yield looks that make a window each; one ends where the next begins."""
    ended = sum(sum(counts.requests) for counts in traffic_counts(found))
    windows = int(min(max(ended // _REQUESTS_A_WINDOW, 1), _MOST_WINDOWS))
    stride = -(-(len(found) - 1) // windows)
    for begin in range(0, len(found) - 1, stride):
        yield found[begin : begin + stride + 1]


def _span(before: Look, after: Look) -> str:
    begin, end = (datetime.fromtimestamp(one.second, UTC) for one in (before, after))
    day = "" if begin.date() == end.date() else f"{end:%Y-%m-%d} "
    return f"{begin:%Y-%m-%d %H:%M:%S} to {day}{end:%H:%M:%S} UTC"
