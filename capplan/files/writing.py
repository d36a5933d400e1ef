"""Write files so that a reader sees the old content or the new, never a part of either.

What a process killed with ``kill -9`` leaves behind is a temporary file, whose lock the kernel has
given back: by that the next process that writes the same file knows it, and removes it.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from capplan.files.locks import lock_file
from capplan.files.places import place_of, short_name, storage_error

PART_SUFFIX = ".part"
_PART = re.compile(rf"\.(.+)\.[a-z0-9_]{{8}}{re.escape(PART_SUFFIX)}", re.DOTALL)


def write_atomic(path: Path, content: bytes | str) -> None:
    """Replace the content of a file in one step.

    The bytes go to a temporary file in the same folder (a rename is atomic only within one file
    system), reach the disk, and only then take the name. A link stays a link: what it points to is
    replaced. A stream (:func:`capplan.files.places.place_of`) is written as it stands.

    Raises
    ------
    StorageError
        If the disk is full, the folder is missing, or folder or file may not be written. The old
        file stays.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        place = place_of(path)
        if place is None:
            with path.open("ab") as stream:
                stream.write(data)
        else:
            _replace(place, data)
    except OSError as error:
        raise storage_error(path, error) from error


def _replace(path: Path, data: bytes) -> None:
    if path.exists() and os.access(path.parent, os.W_OK) and not os.access(path, os.W_OK):
        # A rename asks only the folder; a file that its owner made read-only is meant to stay.
        raise PermissionError(errno.EACCES, "the file is read-only")
    handle, part = _new_part(path)
    try:
        _write_all(handle, data)
        os.fchmod(handle, _mode_for(path))
        os.fsync(handle)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    _sync_folder(path.parent)
    remove_parts(path)


def _new_part(path: Path) -> tuple[int, Path]:
    """Return a temporary file, locked for as long as it is written."""
    while True:
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{short_name(path.name)}.", suffix=PART_SUFFIX
        )
        lock_file(handle)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # taken for abandoned in the moment before it was locked


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk; some file systems cannot, and the file is whole anyway."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode_for(path: Path) -> int:
    """Mode bits of the file replaced, or what the umask gives a new one (mkstemp says 600)."""
    if path.exists():
        return path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def remove_parts(path: Path, also: re.Pattern[str] | None = None) -> None:
    """Remove temporary files that killed processes left beside ``path``; live ones keep theirs.

    Parameters
    ----------
    path
        The file that they were to become.
    also
        Names of other files of the folder whose parts go too.
    """
    own = short_name(path.name)
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            named = _PART.fullmatch(entry.name)
            if named and (named[1] == own or (also is not None and also.fullmatch(named[1]))):
                _remove_if_abandoned(path.parent / entry.name)


def _remove_if_abandoned(part: Path) -> None:
    with suppress(OSError):
        handle = os.open(part, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            if lock_file(handle):
                part.unlink(missing_ok=True)
        finally:
            os.close(handle)
