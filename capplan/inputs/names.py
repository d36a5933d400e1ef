"""Names that a file gives to other files: of its own folder, or of none."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeGuard

_LONGEST = 255


def is_bare_name(name: object) -> TypeGuard[str]:
    """Return whether this names a file of the folder at hand and nothing else.

    No separators of either kind of system, no drive, no ``..``, no control characters and no half
    characters, and not longer than a file system takes.
    """
    if not isinstance(name, str) or not name or name in (".", ".."):
        return False
    if PurePosixPath(name).name != name or PureWindowsPath(name).name != name:
        return False
    if not name.isprintable():
        return False
    return len(name.encode("utf-8", errors="surrogatepass")) <= _LONGEST


def at_home(text: str) -> Path:
    """Return a path with ``~`` replaced; as it stands where nobody is called that."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)
