"""Locks that the kernel gives back when their holder dies, however it dies."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from capplan.errors import StorageError
from capplan.files.places import place_of, short_name, storage_error

LOCK_SUFFIX = ".lock"
_SIGNATURE_BYTES = 200
_OPENED = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Keep other processes from writing what grows in ``path``; the lock of a dead one is taken.

    Raises
    ------
    StorageError
        If another process holds it, or the folder may not be written.
    """
    held = _take(path)
    try:
        yield
    finally:
        if held is not None:
            lock, handle = held
            with suppress(OSError):
                lock.unlink(missing_ok=True)
            os.close(handle)


def lock_file(handle: int) -> bool | None:
    """Lock an open file until it is closed; False if another has it, None where no locks are."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _take(path: Path) -> tuple[Path, int] | None:
    try:
        place = place_of(path)
        if place is None:
            return None  # a stream keeps nothing that two could spoil
        lock = place.with_name(f".{short_name(place.name)}{LOCK_SUFFIX}")
        return lock, _locked(lock)
    except BlockingIOError as error:
        raise StorageError(
            f"Another run is writing {path} ({error.strerror}).",
            "Wait for it to end, or write to another file with -o.",
        ) from error
    except OSError as error:
        raise storage_error(path, error) from error


def _locked(lock: Path) -> int:
    """Return a handle that holds the lock.

    Raises
    ------
    BlockingIOError
        Saying who holds it.
    """
    while True:
        handle = os.open(lock, _OPENED, 0o666)
        if lock_file(handle) is False:
            who = os.pread(handle, _SIGNATURE_BYTES, 0).decode("utf-8", "replace").strip()
            os.close(handle)
            raise BlockingIOError(errno.EAGAIN, who or "which process, its lock does not say")
        if _is_still(handle, lock):
            _sign(handle)
            return handle
        os.close(handle)  # its last holder removed it while we waited for our turn


def _is_still(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _sign(handle: int) -> None:
    """Write down who holds a lock; on a full disk it is held without."""
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)
