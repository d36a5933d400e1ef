"""JSON lines that are all built alike, as arrays: no loop over rows, no object a row.

Lines are alike where each has the same keys in the same order as the first of its block; lists
may differ in length. What other fields than the three hold is not looked at. All else takes the
slower way in :mod:`capplan.workloads.jsonlines`; the answers are the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from capplan.workloads.byte_table import Bytes, Cells, Floats, Places, times, whole_numbers
from capplan.workloads.times import TimeForm

Path = tuple[str, ...]
"""A field's name, and before it that of the object which it stands in."""
Arrays = tuple[Floats, ...]
"""Seconds, prompt tokens, output tokens and, where it is asked for, their total."""

_QUOTE, _ESCAPE, _SPACE, _MINUS, _ZERO, _NINE = (ord(sign) for sign in '"\\ -09')
_COLON, _COMMA, _BEGIN, _END, _NEWLINE, _LIST, _LIST_END = (ord(sign) for sign in ":,{}\n[]")
_IS_SIGN = np.zeros(256, dtype=bool)
_IS_SIGN[[_QUOTE, _COLON, _COMMA, _BEGIN, _END, _NEWLINE, _LIST, _LIST_END]] = True


@dataclass(frozen=True)
class _Marks:
    """Where signs stand that are in no text and in no list; each ends a cell."""

    data: Bytes
    places: Places
    kinds: Bytes


@dataclass(frozen=True)
class _Shape:
    """How the first line of a block is built: its signs, its keys, and where values stand."""

    signs: Bytes
    fixed: tuple[int, ...]
    """Cells that hold a key, or the nothing between two signs."""
    values: dict[Path, int]
    """Cells by the field whose value they hold."""


def read_alike(block: bytes, paths: Sequence[Path], form: TimeForm) -> Arrays | None:
    """Return seconds, prompt and output tokens of whole lines; None if they are not all alike.

    Parameters
    ----------
    block
        Lines, the last one ended.
    paths
        The fields of time, prompt tokens, output tokens and, where it is checked, their total.
    form
        How times are written.

    Raises
    ------
    UnicodeDecodeError
        If it is no UTF-8.
    """
    if not block.isascii():
        block.decode("utf-8")
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    marks = None if b"\r" in block else _marks(block)
    shape = _shape(marks) if marks is not None else None
    if marks is None or shape is None or not all(path in shape.values for path in paths):
        return None
    cells = _cells(marks, shape)
    if cells is None:
        return None
    time, *lengths = (shape.values[path] for path in paths)
    seconds = _times(cells, time, form)
    tokens = [_tokens(cells, column) for column in lengths]
    read = [column for column in tokens if column is not None]
    if seconds is None or len(read) < len(tokens):
        return None
    return (seconds, *read)


def _marks(block: bytes) -> _Marks | None:
    data = np.frombuffer(block, dtype=np.uint8)
    places = np.flatnonzero(_IS_SIGN[data])
    kinds = data[places]
    are_quotes = ends_text = kinds == _QUOTE
    if b"\\" in block:
        if b"\\\\" in block:
            return None  # whether a quote ends its text then hangs on how many precede it
        ends_text = are_quotes & (data[places - 1] != _ESCAPE)
    # odd behind a quote that begins a text; the count runs over, its last bit is right
    inside = (np.cumsum(ends_text, dtype=np.uint8) & 1).view(bool)
    if inside[kinds == _NEWLINE].any():
        return None
    kept = ~(inside | are_quotes)
    places, kinds = places[kept], kinds[kept]
    if b"[" not in block:
        return _Marks(data, places, kinds)
    depth = np.cumsum((kinds == _LIST).astype(np.int32) - (kinds == _LIST_END))
    if depth[kinds == _NEWLINE].any() or depth.min() < 0:
        return None
    outside = (depth == 0) & (kinds != _LIST_END)
    return _Marks(data, places[outside], kinds[outside])


def _shape(marks: _Marks) -> _Shape | None:
    """Return how the first line is built; None if it is no object, or says a field twice."""
    length = int((marks.kinds == _NEWLINE).argmax()) + 1
    signs, ends = marks.kinds[:length].tolist(), marks.places[:length].tolist()
    line = marks.data[: ends[-1]].tobytes()
    if not isinstance(_parsed(line), dict):
        return None
    values: dict[Path, int] = {}
    seen: set[Path] = set()
    outer: list[str] = []
    for at, sign in enumerate(signs):
        if sign == _COLON:
            name = _parsed(line[ends[at - 1] + 1 : ends[at]])
            path = (*outer, str(name))
            if path in seen:
                return None
            seen.add(path)
            if signs[at + 1] == _BEGIN:
                outer.append(path[-1])
            else:
                values[path] = at + 1
        elif sign == _END and outer:
            outer.pop()
    fixed = sorted(set(range(length)) - set(values.values()))
    return _Shape(marks.kinds[:length], tuple(fixed), values)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _cells(marks: _Marks, shape: _Shape) -> Cells | None:
    """Return the cells of all lines; None if one of them is built otherwise than the first."""
    width = len(shape.signs)
    if len(marks.places) % width or (marks.kinds.reshape(-1, width) != shape.signs).any():
        return None
    ends = marks.places.reshape(-1, width)
    starts = np.concatenate([[0], marks.places[:-1] + 1]).reshape(-1, width)
    lengths = ends - starts
    for at in shape.fixed:
        length = int(lengths[0, at])
        if (lengths[:, at] != length).any():
            return None
        if length:
            letters = sliding_window_view(marks.data, length)[starts[:, at]]
            if (letters != letters[0]).any():
                return None
    return Cells(marks.data, starts, ends)


def _bare(cells: Cells, column: int) -> Cells | None:
    """Return one column without a space around its values; None if one is empty."""
    data, starts, ends = cells.data, cells.starts[:, column], cells.ends[:, column]
    starts = starts + (data[starts] == _SPACE)
    ends = ends - (data[ends - 1] == _SPACE)
    return None if (ends <= starts).any() else Cells(data, starts[:, None], ends[:, None])


def _times(cells: Cells, column: int, form: TimeForm) -> Floats | None:
    found = _bare(cells, column)
    if found is None:
        return None
    if form.scale is not None:
        return times(found, 0, form) if _are_numbers(found) else None
    first, last = found.data[found.starts], found.data[found.ends - 1]
    if (first != _QUOTE).any() or (last != _QUOTE).any() or (found.ends - found.starts < 3).any():
        return None
    return times(Cells(found.data, found.starts + 1, found.ends - 1), 0, form)


def _tokens(cells: Cells, column: int) -> Floats | None:
    found = _bare(cells, column)
    return whole_numbers(found, 0) if found is not None and _are_numbers(found) else None


def _are_numbers(cells: Cells) -> bool:
    """Whether values begin and end as JSON's numbers do; float() takes others, too."""
    first, last = cells.data[cells.starts], cells.data[cells.ends - 1]
    second = cells.data[np.minimum(cells.starts + 1, cells.ends - 1)]
    padded = (first == _ZERO) & (cells.ends - cells.starts > 1) & _digits(second)
    return bool(((_digits(first) | (first == _MINUS)) & _digits(last) & ~padded).all())


def _digits(signs: Bytes) -> NDArray[np.bool_]:
    return (signs >= _ZERO) & (signs <= _NINE)
