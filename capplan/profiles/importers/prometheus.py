"""Prometheus text of an engine's ``/metrics``, as saved by hand.

One text holds the totals since the server was started; two of one server are a window, and more
of them a window each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from capplan.errors import ResultsFileError
from capplan.inputs.limits import METRICS, in_words
from capplan.profiles.engine_counters import difference
from capplan.profiles.engine_reading import read_scrape
from capplan.profiles.importers.document import Document
from capplan.profiles.importers.reading import Reading
from capplan.profiles.metrics_import import observe_text_parts, observe_window_parts

_SERIES = re.compile(
    r"^(# (HELP|TYPE|UNIT) [a-zA-Z_:]"
    r"|(ray_)?(vllm|sglang|tgi|trtllm|llamacpp)[:_][a-zA-Z0-9_:]+[{ ])"
)
_SEARCHED_LINES = 50


def detect(document: Document) -> bool:
    """Whether the text is an exposition of metrics."""
    if document.kind != "text":
        return False
    lines = [line for line in document.head.splitlines() if line.strip()]
    return any(_SERIES.match(line) for line in lines[:_SEARCHED_LINES])


def read(document: Document) -> Iterator[Reading]:
    """Yield the totals since the server was started, one a served LLM."""
    for observation in observe_text_parts(_whole(document), document.name):
        yield Reading(observation)


def _whole(document: Document) -> str:
    parts, size = [], 0
    for line in document.lines():
        parts.append(line)
        size += len(line)
        if size > METRICS.most_bytes:
            raise ResultsFileError(
                f"{document.name} is larger than any metrics text: {in_words(METRICS.most_bytes)} "
                "are read at most.",
                "Give what the server shows under /metrics at one moment.",
            )
    return "".join(parts)


def continues(before: Document, after: Document) -> bool:
    """Whether the second text is of the same server, later and without a restart between."""
    seen = difference(*(read_scrape(_whole(one)) for one in (before, after)))
    return bool(seen.windows) and not seen.restarted and not seen.missing


def age(document: Document) -> tuple[tuple[str, ...], float]:
    """Return which engines a text is of, and the sum of their counters: it grows with time."""
    engines = read_scrape(_whole(document)).engines
    counted = sum(sum(one.counters.values()) + sum(one.counts.values()) for one in engines)
    return tuple(" ".join(one.key) for one in engines), counted


def read_window(before: Document, after: Document) -> Iterator[Reading]:
    """Yield what happened between two texts of one server, one a served LLM."""
    earlier, later = map(_whole, (before, after))
    for observation in observe_window_parts(earlier, later, after.name):
        yield Reading(observation)
