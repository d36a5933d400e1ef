"""Bytes and text of a file from outside, up to a limit."""

from __future__ import annotations

import stat
from pathlib import Path

from capplan.errors import UnreadableFileError
from capplan.inputs.limits import Limits, in_words

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_bytes(path: Path, limits: Limits) -> bytes:
    """Return the content of a file.

    What is no regular file (a pipe, a device) is read too, as ``/dev/stdin`` should be; the limit
    bounds it.

    Raises
    ------
    UnreadableFileError
        If it cannot be opened or read, or is larger than the limit.
    """
    try:
        with path.open("rb") as stream:
            size = path.stat()
            if stat.S_ISREG(size.st_mode) and size.st_size > limits.most_bytes:
                raise _too_large(path, limits, f"{in_words(size.st_size)}")
            content = stream.read(limits.most_bytes + 1)
    except (OSError, ValueError) as error:
        raise UnreadableFileError(str(path), why(error)) from error
    if len(content) > limits.most_bytes:
        raise _too_large(path, limits, f"more than {in_words(limits.most_bytes)}")
    return content


def read_text(path: Path, limits: Limits) -> str:
    """Return the text of a file in UTF-8, without the mark that editors put at its begin.

    Raises
    ------
    UnreadableFileError
        As :func:`read_bytes`, or if it is no UTF-8.
    """
    return as_text(read_bytes(path, limits), str(path))


def read_start(path: Path, size_bytes: int) -> bytes:
    """Return the first bytes of a file.

    Raises
    ------
    UnreadableFileError
        If it cannot be opened or read.
    """
    try:
        with path.open("rb") as stream:
            return stream.read(size_bytes)
    except (OSError, ValueError) as error:
        raise UnreadableFileError(str(path), why(error)) from error


def as_text(content: bytes, name: str) -> str:
    """Return bytes as text in UTF-8; errors as in :func:`read_text`."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if content.startswith(_UTF16):
            reason = "it is UTF-16, no UTF-8 text: byte 0 is not UTF-8"
        else:
            at, byte = error.start, content[error.start]
            reason = f"it is no UTF-8 text: byte {at} is not UTF-8, but 0x{byte:02x}"
        raise UnreadableFileError(name, reason, "Save it as UTF-8.") from error


def why(error: Exception) -> str:
    """Return why a file could not be read, as a clause.

    A ``ValueError`` is Python's answer to a name that no file can have: one with a NUL in it, or
    with half of a character.
    """
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "no file can have this name"


def _too_large(path: Path, limits: Limits, size: str) -> UnreadableFileError:
    return UnreadableFileError(
        str(path),
        f"it has {size}, a {limits.what} at most {in_words(limits.most_bytes)}",
        "Check that it is the file that was meant.",
    )
