"""The header of a GGUF file, walked through without trusting a count in it.

The ``gguf`` package maps the file and believes every length; what it is given has passed here.
Layout (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): magic, version, numbers of
tensors and of metadata entries, the entries (key, type, value), the tensors (name, dimensions,
type, place), padding, the data.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from capplan.errors import UnreadableFileError
from capplan.inputs.limits import GGUF_HEADER
from capplan.inputs.reading import why

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type: integers, floats and booleans."""
_MOST_DIMENSIONS = 4
_MOST_ENTRIES = 100_000
_LONGEST_NAME = 65_535
"""The format's own limit of keys; names of tensors have at most 64 bytes."""


@dataclass(frozen=True)
class GgufHeader:
    """What the header says, as far as it is needed to trust the rest."""

    version: int
    tensors: int
    entries: int
    header_bytes: int


class _Cursor:
    """Reads forward, within what the file and the limit leave."""

    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        self._file, self._path = file, path
        self._end = min(size, GGUF_HEADER.most_bytes)
        self._left_groups = GGUF_HEADER.most_groups
        self.at = 0

    def refuse(self, reason: str) -> UnreadableFileError:
        """Return the error for what was found here."""
        return UnreadableFileError(
            str(self._path), f"{reason}, at byte {self.at:,}", "Download the file again."
        )

    def skip(self, count: int) -> None:
        """Pass over bytes that must be there."""
        if count > self._end - self.at:
            raise self.refuse(f"its header is cut off: {count:,} bytes should follow")
        self._file.seek(count, 1)
        self.at += count

    def number(self, code: str) -> int:
        """Return an integer."""
        size = struct.calcsize(code)
        if size > self._end - self.at:
            raise self.refuse("its header is cut off")
        self.at += size
        (value,) = struct.unpack(code, self._file.read(size))
        return int(value)

    def count(self, most: int, what: str) -> int:
        """Return a count, no larger than what it may be."""
        value = self.number("<Q")
        if value > most:
            raise self.refuse(f"it claims {value:,} {what}, at most {most:,} are read")
        return value

    def groups(self, count: int) -> None:
        """Take this many values off what may be in a header."""
        self._left_groups -= count
        if self._left_groups < 0:
            raise self.refuse(f"it holds more than {GGUF_HEADER.most_groups:,} values")


def read_gguf_header(path: Path) -> GgufHeader:
    """Walk through a header and return its counts.

    Raises
    ------
    UnreadableFileError
        If the file cannot be read, or its header is cut, larger than any, or of another format.
    """
    try:
        with path.open("rb") as file:
            return _read(_Cursor(file, path, path.stat().st_size), file)
    except (OSError, ValueError) as error:
        raise UnreadableFileError(str(path), why(error)) from error


def _read(cursor: _Cursor, file: BinaryIO) -> GgufHeader:
    magic = file.read(len(MAGIC))
    cursor.at = len(magic)
    if magic != MAGIC:
        raise cursor.refuse(f"it is no GGUF file: it starts with {magic!r}, expected {MAGIC!r}")
    version = cursor.number("<I")
    if version not in _VERSIONS:
        raise cursor.refuse(f"it is of version {version} of the format, expected 2 or 3")
    tensors = cursor.count(_MOST_ENTRIES, "tensors")
    entries = cursor.count(_MOST_ENTRIES, "entries")
    for _ in range(entries):
        cursor.skip(cursor.count(_LONGEST_NAME, "bytes of a key"))
        _skip_value(cursor, cursor.number("<I"), 1)
    for _ in range(tensors):
        _skip_tensor(cursor)
    return GgufHeader(version, tensors, entries, cursor.at)


def _skip_value(cursor: _Cursor, kind: int, depth: int) -> None:
    cursor.groups(1)
    if kind in _WIDTHS:
        cursor.skip(_WIDTHS[kind])
    elif kind == _STRING:
        cursor.skip(cursor.count(GGUF_HEADER.most_bytes, "bytes of a text"))
    elif kind == _ARRAY and depth < GGUF_HEADER.deepest:
        inner = cursor.number("<I")
        count = cursor.count(GGUF_HEADER.most_groups, "values of a list")
        if inner in _WIDTHS:
            cursor.skip(count * _WIDTHS[inner])
            return
        for _ in range(count):
            _skip_value(cursor, inner, depth + 1)
    else:
        raise cursor.refuse(f"a value is of the unknown type {kind}")


def _skip_tensor(cursor: _Cursor) -> None:
    cursor.skip(cursor.count(_LONGEST_NAME, "bytes of a name"))
    dimensions = cursor.number("<I")
    if dimensions > _MOST_DIMENSIONS:
        raise cursor.refuse(f"a tensor has {dimensions:,} dimensions, at most 4 are possible")
    cursor.skip(8 * dimensions + 4 + 8)
