"""Traces as JSON lines, read in blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any, BinaryIO

from capplan.errors import WorkloadError
from capplan.workloads.blocks import BYTE_ORDER_MARK, line_blocks
from capplan.workloads.columns import find_columns
from capplan.workloads.json_table import Path, read_alike
from capplan.workloads.rows import Rows
from capplan.workloads.times import time_form

Record = dict[str, Any]


def read_jsonlines(
    stream: BinaryIO, file: str, chosen: Mapping[str, str], unit: str | None
) -> Rows:
    """Read one JSON object a line; fields of objects inside are named ``usage.prompt_tokens``.

    Raises
    ------
    WorkloadError
        If no line is an object with the fields.
    UnicodeDecodeError
        If it is no UTF-8.
    """
    table = _Lines(file, chosen, unit)
    for block in _without_mark(line_blocks(stream)):
        table.take(block)
    if table.rows is None:
        early = table.early
        why = f"line {early[0][0]}: {early[0][1]}" if early else "it is empty"
        raise WorkloadError(
            f"{file} holds no JSON object a line: {why}.",
            'Write one request a line: {"timestamp": 0.5, "prompt_tokens": 900, '
            '"output_tokens": 210}',
        )
    return table.rows


def _without_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    if first := next(blocks, b"").removeprefix(BYTE_ORDER_MARK):
        yield first
    yield from blocks


class _Lines:
    """The rows of a file, from its first object on."""

    def __init__(self, file: str, chosen: Mapping[str, str], unit: str | None) -> None:
        self.rows: Rows | None = None
        self.early: list[tuple[int, str]] = []
        """What is wrong with the lines before the first object."""
        self._file, self._chosen, self._unit = file, chosen, unit
        self._paths: list[Path] = []
        self._line = 1

    def take(self, block: bytes) -> None:
        """Read whole lines: all at once where they are alike, else object by object."""
        if self.rows is None and isinstance(first := _one(block.partition(b"\n")[0]), dict):
            self._begin(first)
        if self._at_once(block):
            self._line += block.count(b"\n")
            return
        texts = StringIO(block.decode("utf-8"), newline=None).readlines()
        self._slowly(texts)
        self._line += len(texts)

    def _begin(self, record: Record) -> Rows:
        """Learn from the first object what the fields are, and how times are written."""
        flat = _flat(record)
        columns = find_columns(list(flat), self._file, self._chosen)
        self._paths = [_path(name, record) for name in columns.read_names]
        name = columns.names[0]
        form = time_form(flat[name], name, columns.layout, self._file, self._unit)
        self.rows = Rows(columns, form, self._file)
        for at, reason in self.early:
            self.rows.reject(at, reason)
        return self.rows

    def _at_once(self, block: bytes) -> bool:
        if self.rows is None:
            return False
        arrays = read_alike(block, self._paths, self.rows.form)
        return arrays is not None and self.rows.add_arrays(*arrays)

    def _slowly(self, texts: list[str]) -> None:
        good, lines, wrong = _sorted_out(self._line, texts)
        rows = self.rows
        if rows is None:
            self.early += wrong
            rows = self._begin(good[0]) if good else None
        else:
            for at, reason in wrong:
                rows.reject(at, reason)
        if rows is not None and good:
            times, prompts, outputs, *totals = (_column(good, path) for path in self._paths)
            rows.add(times, prompts, outputs, lines, *totals)


def _sorted_out(
    line: int, texts: list[str]
) -> tuple[list[Record], list[int], list[tuple[int, str]]]:
    """Return objects, their lines, and what is wrong with other lines; blank ones are none."""
    lines = [at for at, text in enumerate(texts, line) if not text.isspace()]
    kept = [text for text in texts if not text.isspace()]
    try:
        # one document is read at twice the speed of many; a line may not end another's object
        together = json.loads(f"[{','.join(kept)}]")
    except (ValueError, RecursionError):
        together = None
    if together is None or len(together) != len(kept):
        together = [_one(text) for text in kept]
    if all(type(found) is dict for found in together):
        return together, lines, []
    good: list[Record] = []
    places: list[int] = []
    wrong: list[tuple[int, str]] = []
    for at, found in zip(lines, together, strict=True):
        if isinstance(found, dict):
            good.append(found)
            places.append(at)
        else:
            wrong.append((at, found if isinstance(found, _Wrong) else _no_object(found)))
    return good, places, wrong


class _Wrong(str):
    """What is wrong with a line; no text that a line holds."""

    __slots__ = ()


def _no_object(found: Any) -> _Wrong:
    return _Wrong(f"a JSON {type(found).__name__}, no object")


def _one(text: str | bytes) -> Record | _Wrong:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _Wrong(f"no JSON: {getattr(error, 'msg', 'nested too deep')}")
    return found if isinstance(found, dict) else _no_object(found)


def _flat(record: Record) -> Record:
    found: Record = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found.update({f"{name}.{inner}": kept for inner, kept in value.items()})
        else:
            found[name] = value
    return found


def _path(name: str, record: Record) -> Path:
    """Return where a field stands; a name with a dot may also be that of a field itself."""
    return (name,) if name in record else tuple(name.split(".", 1))


def _column(records: list[Record], path: Path) -> list[Any]:
    """Return one field of every record, None where it is missing."""
    if len(path) == 1:
        name = path[0]
        return [record.get(name) for record in records]
    outer, inner = path
    found = []
    for record in records:
        value = record.get(outer)
        found.append(value.get(inner) if isinstance(value, dict) else None)
    return found
