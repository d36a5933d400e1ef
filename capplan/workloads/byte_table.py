"""Plain delimited text as arrays: no loop over rows, so a million of them take a second or two.

Text is plain where nothing is quoted and every line has as many cells as the header. All else
takes the slower way in :mod:`capplan.workloads.delimited`; the answers are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.workloads.times import TimeForm, seconds_of_texts

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

_NEWLINE, _RETURN, _QUOTE, _ZERO = ord("\n"), ord("\r"), b'"', ord("0")
_PLUS, _MINUS, _ZULU = ord("+"), ord("-"), ord("Z")
_MOST_DIGITS, _LONGEST_TIME, _DATE_LENGTH = 8, 40, 10
_UTC = np.frombuffer(b"+00:00", dtype=np.uint8)


@dataclass(frozen=True)
class Cells:
    """Where the cells of a block begin and end: arrays of (line, column)."""

    data: Bytes
    starts: Places
    ends: Places

    def __len__(self) -> int:
        return len(self.starts)


def split_cells(block: bytes, width: int, delimiter: str) -> Cells | None:
    """Find the cells of whole lines; None if the block is not plain."""
    if _QUOTE in block or not block.endswith(b"\n"):
        return None
    data = np.frombuffer(block, dtype=np.uint8)
    breaks = np.flatnonzero((data == ord(delimiter)) | (data == _NEWLINE))
    if len(breaks) % width:
        return None
    ends = breaks.reshape(-1, width)
    kinds = data[ends]
    if (kinds[:, -1] != _NEWLINE).any() or (kinds[:, :-1] == _NEWLINE).any():
        return None
    starts = np.concatenate([[0], breaks[:-1] + 1]).reshape(-1, width)
    ends = ends.copy()
    # a line end of two characters
    last = np.maximum(ends[:, -1] - 1, 0)
    ends[:, -1] -= (data[last] == _RETURN) & (ends[:, -1] > starts[:, -1])
    return Cells(data, starts, ends)


def whole_numbers(cells: Cells, column: int) -> Floats | None:
    """Return a column of digits; None if any cell holds something else."""
    starts, lengths = _spans(cells, column)
    if not len(lengths) or lengths.min() < 1 or lengths.max() > _MOST_DIGITS:
        return None
    value = np.zeros(len(starts))
    for place in range(int(lengths.max())):
        inside = place < lengths
        digit = cells.data[np.where(inside, starts + place, starts)].astype(np.int64) - _ZERO
        if ((digit < 0) | (digit > 9)).any():
            return None
        value = np.where(inside, value * 10.0 + digit, value)
    return value


def times(cells: Cells, column: int, form: TimeForm) -> Floats | None:
    """Return a column of times in seconds; None if any cell is not plainly of the form."""
    starts, lengths = _spans(cells, column)
    if not len(lengths) or lengths.min() < 1 or lengths.max() > _LONGEST_TIME:
        return None
    text = _matrix(cells.data, starts, lengths)
    try:
        if form.scale is not None:
            return _strings(text).astype(float) * form.scale
        return _moments(text, lengths)
    except ValueError:
        return None


def _moments(text: Bytes, lengths: Places) -> Floats | None:
    text = _without_utc(text, lengths)
    after_date = text[:, _DATE_LENGTH:]
    # numpy knows no offsets; such times are read one by one
    if ((text == _PLUS) | (text == _ZULU)).any() or (after_date == _MINUS).any():
        return None
    return seconds_of_texts(_strings(text))


def _spans(cells: Cells, column: int) -> tuple[Places, Places]:
    starts = cells.starts[:, column]
    return starts, cells.ends[:, column] - starts


def _matrix(data: Bytes, starts: Places, lengths: Places) -> Bytes:
    """Return a row of characters a cell, 0 behind its end."""
    offsets = np.arange(int(lengths.max()))
    inside = offsets < lengths[:, None]
    at = np.where(inside, starts[:, None] + offsets, starts[:, None])
    return np.where(inside, data[at], 0).astype(np.uint8)


def _strings(text: Bytes) -> NDArray[np.bytes_]:
    return np.ascontiguousarray(text).view(f"S{text.shape[1]}").ravel()


def _without_utc(text: Bytes, lengths: Places) -> Bytes:
    """Blank a suffix for UTC that every cell has."""
    if int(lengths.min()) <= len(_UTC):
        return text
    rows = np.arange(len(text))[:, None]
    tail = lengths[:, None] - np.arange(len(_UTC), 0, -1)
    if (text[rows, tail] == _UTC).all():
        text = text.copy()
        text[rows, tail] = 0
        return text
    last = lengths[:, None] - 1
    if (text[rows, last] == _ZULU).all():
        text = text.copy()
        text[rows, last] = 0
    return text
