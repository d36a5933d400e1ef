"""Traces as JSON lines, read in chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from capplan.errors import WorkloadError
from capplan.workloads.columns import Columns, find_columns
from capplan.workloads.rows import Rows
from capplan.workloads.times import time_form

_CHUNK_CHARACTERS = 4 * 2**20
Record = dict[str, Any]


def read_jsonlines(stream: TextIO, file: str, chosen: Mapping[str, str], unit: str | None) -> Rows:
    """Read one JSON object a line; fields of objects inside are named ``usage.prompt_tokens``.

    Raises
    ------
    WorkloadError
        If no line is an object with the fields.
    """
    rows: Rows | None = None
    early: list[tuple[int, str]] = []
    for line, texts in _chunks(stream):
        good: list[Record] = []
        lines: list[int] = []
        for at, found in _records(line, texts):
            if isinstance(found, dict):
                good.append(found)
                lines.append(at)
            elif rows is None:
                early.append((at, found))
            else:
                rows.reject(at, found)
        if not good:
            continue
        if rows is None:
            rows = _begin(good[0], file, chosen, unit)
            for at, reason in early:
                rows.reject(at, reason)
        _take(rows, good, lines)
    if rows is None:
        why = f"line {early[0][0]}: {early[0][1]}" if early else "it is empty"
        raise WorkloadError(
            f"{file} holds no JSON object a line: {why}.",
            'Write one request a line: {"timestamp": 0.5, "prompt_tokens": 900, '
            '"output_tokens": 210}',
        )
    return rows


def _chunks(stream: TextIO) -> Iterator[tuple[int, list[str]]]:
    line = 1
    while texts := stream.readlines(_CHUNK_CHARACTERS):
        yield line, texts
        line += len(texts)


def _records(line: int, texts: list[str]) -> Iterator[tuple[int, Record | str]]:
    """Yield each line's object, or what is wrong with it; blank lines are passed over."""
    lines = [at for at, text in enumerate(texts, line) if not text.isspace()]
    kept = [text for text in texts if not text.isspace()]
    try:
        # one document is read at twice the speed of many; a line may not end another's object
        together = json.loads(f"[{','.join(kept)}]")
    except (json.JSONDecodeError, RecursionError):
        together = None
    if together is None or len(together) != len(kept):
        together = [_one(text) for text in kept]
    for at, found in zip(lines, together, strict=True):
        if isinstance(found, (dict, str)):
            yield at, found
        else:
            yield at, f"a JSON {type(found).__name__}, no object"


def _one(text: str) -> Record | str:
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        return f"no JSON: {getattr(error, 'msg', 'nested too deep')}"
    return found if isinstance(found, dict) else f"a JSON {type(found).__name__}, no object"


def _flat(record: Record) -> Record:
    found: Record = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found.update({f"{name}.{inner}": kept for inner, kept in value.items()})
        else:
            found[name] = value
    return found


def _begin(record: Record, file: str, chosen: Mapping[str, str], unit: str | None) -> Rows:
    flat = _flat(record)
    columns = find_columns(list(flat), file, chosen)
    name = columns.names[0]
    return Rows(columns, time_form(flat[name], name, columns.layout, file, unit), file)


def _take(rows: Rows, records: list[Record], lines: list[int]) -> None:
    times, prompts, outputs = (_column(records, name) for name in _names(rows.columns))
    rows.add(times, prompts, outputs, lines)


def _names(columns: Columns) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(name.split(".", 1)) for name in columns.names)


def _column(records: list[Record], path: tuple[str, ...]) -> list[Any]:
    """Return one field of every record, None where it is missing."""
    if len(path) == 1:
        return [record.get(path[0]) for record in records]
    outer, inner = path
    found = []
    for record in records:
        value = record.get(outer)
        found.append(value.get(inner) if isinstance(value, dict) else None)
    return found
