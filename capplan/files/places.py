"""Where a file really lies, what lies beside it, and what to say if it cannot be written."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path

from capplan.errors import StorageError

_NAME_BYTES = 200
"""Of a file's name in the names of what lies beside it: file systems allow 255 bytes in all."""
_LINKS = 40
"""Links that lead to a file at most, as the kernel has it."""


def place_of(path: Path) -> Path | None:
    """Return the regular file that a path leads to, there or not yet; None for a stream.

    A stream is a device, a pipe, or another name of a file that is already open, as
    ``/dev/stdout`` is: a rename would put a file in its place.

    Raises
    ------
    OSError
        If the path leads in a circle, or no file system takes its name.
    """
    place = path
    for _ in range(_LINKS):
        if not place.is_symlink():
            break
        if Path(os.path.realpath(place.parent)).parts[:2] == ("/", "proc"):
            return None
        place = place.parent / place.readlink()
    with suppress(FileNotFoundError):
        path.stat()  # raises where links lead in a circle
    is_stream = path.exists() and not path.is_file() and not path.is_dir()
    return None if is_stream else place


def short_name(name: str) -> str:
    """Return a name short enough to be part of another, and still its own."""
    encoded = os.fsencode(name)
    if len(encoded) <= _NAME_BYTES:
        return name
    return f"{encoded[:_NAME_BYTES].decode('utf-8', 'ignore')}~{zlib.crc32(encoded):08x}"


def storage_error(path: Path, error: OSError) -> StorageError:
    """Return what to tell somebody whose file could not be written."""
    why = error.strerror or str(error)
    return StorageError(
        f"Cannot write {path}: {why}. What the file held before is unchanged.",
        "Free some space, or choose a folder that you may write to, and run the command again.",
    )
