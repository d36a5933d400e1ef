"""Write files so that a reader sees the old content or the new, never a part of either."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from capplan.errors import StorageError

PART_SUFFIX = ".part"


def write_atomic(path: Path, content: bytes | str) -> None:
    """Replace the content of a file in one step.

    The bytes go to a temporary file in the same folder (a rename is atomic only within one file
    system), reach the disk, and only then take the name. What is no regular file (a device such
    as ``/dev/null``, a pipe) is written as it stands: a rename would put a file in its place.

    Raises
    ------
    StorageError
        If the disk is full, the folder is missing or may not be written. The old file stays.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(path, data)
    except OSError as error:
        raise _storage_error(path, error) from error


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART_SUFFIX)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.chmod(_mode_for(path))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _mode_for(path: Path) -> int:
    """Mode bits of the file replaced, or what the umask gives a new one (mkstemp says 600)."""
    if path.exists():
        return path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _storage_error(path: Path, error: OSError) -> StorageError:
    why = error.strerror or str(error)
    return StorageError(
        f"Cannot write {path}: {why}. What the file held before is unchanged.",
        "Free some space, or choose a folder that you may write to, and run the command again.",
    )


def remove_parts(path: Path) -> None:
    """Remove temporary files that a killed process left beside ``path``."""
    for part in path.parent.glob(f".{path.name}.*{PART_SUFFIX}"):
        part.unlink(missing_ok=True)
