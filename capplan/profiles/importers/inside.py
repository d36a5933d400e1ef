"""Results that another file wraps: a list of runs, a sweep's summary, a field of a report."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from capplan.profiles.importers.document import Document

_DEEPEST = 4
"""Levels above a result: a report, its list of runs, a run, the field that holds its result."""
_MOST_LOOKED_AT = 20_000


def results_inside(
    document: Document, is_result: Callable[[Document], bool]
) -> Iterator[tuple[str, Document]]:
    """Yield each result of a JSON file that is none itself, and its place.

    The outermost come first and nothing is looked for inside of them, so no figure is read twice.

    Parameters
    ----------
    document
        A file that no importer takes as a whole.
    is_result
        Whether an importer takes what a value would be as a file of its own.
    """
    outermost = islice(_children(_as_one(document)), _MOST_LOOKED_AT)
    ahead = deque((place, value, 1) for place, value in outermost)
    for _ in range(_MOST_LOOKED_AT):
        if not ahead:
            return
        place, value, depth = ahead.popleft()
        part = replace(document, kind="json", values=(value,))
        if is_result(part):
            yield place, part
        elif depth < _DEEPEST:
            inner = islice(_children(value), _MOST_LOOKED_AT - len(ahead))
            ahead.extend((f"{place}{below}", child, depth + 1) for below, child in inner)


def _as_one(document: Document) -> Any:
    return document.value if len(document.values) == 1 else list(document.values)


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the mappings and lists inside a value, each with its place."""
    pairs = (
        ((f".{key}", child) for key, child in value.items())
        if isinstance(value, dict)
        else ((f" {number}", child) for number, child in enumerate(value, 1))
    )
    yield from ((place, child) for place, child in pairs if isinstance(child, dict | list))
