"""Files too large to be held whole: read piece by piece, packed or not, up to a limit."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from capplan.errors import UnreadableFileError
from capplan.inputs.limits import LONGEST_LINE_BYTES, Limits, in_words
from capplan.inputs.reading import why

_BUFFER_BYTES = 2**20


class _Guarded(io.RawIOBase):
    """Passes bytes on and counts them, and how far the last line end lies behind."""

    def __init__(self, source: BinaryIO, name: str, limits: Limits) -> None:
        super().__init__()
        self._source, self._name, self._limits = source, name, limits
        self._total = self._line = 0

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # never another buffer
        """Read a piece.

        Raises
        ------
        UnreadableFileError
            If there is more than the limit, or a line of many megabytes.
        """
        piece = self._source.read(len(buffer))
        count = len(piece)
        buffer[:count] = piece
        self._total += count
        if self._total > self._limits.most_bytes:
            most = in_words(self._limits.most_bytes)
            raise UnreadableFileError(self._name, f"it has more than {most} once unpacked")
        end = piece.rfind(b"\n")
        self._line = self._line + count if end < 0 else count - end - 1
        if self._line > LONGEST_LINE_BYTES:
            most = in_words(LONGEST_LINE_BYTES)
            raise UnreadableFileError(self._name, f"a line of it has more than {most}")
        return count


@contextmanager
def open_stream(path: Path, limits: Limits) -> Iterator[BinaryIO]:
    """Open a file of lines, unpacked where its name ends in ``.gz``.

    Raises
    ------
    UnreadableFileError
        If it cannot be read or unpacked, or exceeds a limit: then in the middle of reading.
    """
    try:
        with _source(path) as source:
            guarded = io.BufferedReader(_Guarded(source, str(path), limits), _BUFFER_BYTES)
            yield cast("BinaryIO", guarded)
    except (EOFError, zlib.error) as error:
        raise UnreadableFileError(str(path), f"it is cut off or damaged ({error})") from error
    except OSError as error:
        raise UnreadableFileError(str(path), _why(error)) from error


def _why(error: OSError) -> str:
    return why(error) if error.strerror else str(error)


def _source(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    return path.open("rb")


def lines_of(path: Path, most_characters: int) -> Iterator[str]:
    """Yield the lines of a text, whatever its bytes; a longer line comes in pieces.

    Raises
    ------
    UnreadableFileError
        If the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            while line := stream.readline(most_characters):
                yield line
    except (OSError, ValueError) as error:
        raise UnreadableFileError(str(path), why(error)) from error
