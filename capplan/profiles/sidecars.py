"""The raw arrays beside a profile: written before it names them, removed when no file does.

A sidecar is named by the hash of its content. A profile file takes its name after its sidecar
lies there, so a kill at any moment leaves a pair that can be read, and at worst a file too many,
which the next run removes.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.errors import UnreadableFileError
from capplan.files import place_of, remove_parts, write_atomic
from capplan.inputs.limits import PROFILE
from capplan.inputs.reading import read_bytes

HASH_DIGITS = 16
_MOST_NEIGHBOURS = 256
"""Files that are searched for the name of a sidecar; in a fuller folder old ones are kept."""


def digest_of(content: bytes) -> str:
    """Return the digits of a sidecar's content that stand in its name."""
    return hashlib.sha256(content).hexdigest()[:HASH_DIGITS]


def sidecar_name(file: Path, digest: str = "0" * HASH_DIGITS) -> str:
    """Return what the sidecar of a profile file is called."""
    return f"{file.stem}-{digest}.npz"


def write_sidecar(file: Path, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Write the arrays beside a profile file and return the sidecar's name."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **dict(sorted(arrays.items())))
    content = buffer.getvalue()
    name = sidecar_name(file, digest_of(content))
    if not (file.parent / name).exists():
        write_atomic(file.parent / name, content)
    return name


def sidecar_place(file: Path, name: str) -> Path:
    """Return where the sidecar lies: beside the file, or beside what it is a link to."""
    beside = file.parent / name
    with suppress(OSError):
        place = None if beside.exists() else place_of(file)
        return beside if place is None else place.parent / name
    return beside


def remove_superseded(file: Path, keep: str | None = None) -> None:
    """Remove sidecars of a profile file that no file of its folder names.

    Parameters
    ----------
    file
        The profile file; where it is not there, nothing is removed.
    keep
        The one that it is known to name.
    """
    pattern = _pattern(file)
    with suppress(OSError), os.scandir(file.parent) as entries:
        old = {one.name for one in entries if pattern.fullmatch(one.name)} - {keep}
        if file.exists():
            remove_unnamed(file.parent, old)


def remove_unnamed(folder: Path, sidecars: Set[str]) -> None:
    """Remove those sidecars that no file of the folder names."""
    with suppress(OSError):
        for name in sidecars - _named(folder, sidecars):
            (folder / name).unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove what runs that were killed left beside a profile; only its lock's holder may."""
    with suppress(OSError):
        place = place_of(path)
        if place is not None:
            remove_parts(place, also=_pattern(place))
            remove_superseded(place)


def _pattern(file: Path) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(file.stem)}-[0-9a-f]{{{HASH_DIGITS}}}\.npz")


def _named(folder: Path, names: Set[str]) -> Set[str]:
    """Return those of the names that stand in a file of the folder; all of them in doubt.

    A profile may have been copied or renamed: its sidecar still has the old name.
    """
    if not names:
        return set()
    with os.scandir(folder) as entries:
        neighbours = [Path(one) for one in entries if one.is_file() and _may_name(one)]
    if len(neighbours) > _MOST_NEIGHBOURS:
        return names
    found: set[str] = set()
    for neighbour in neighbours:
        try:
            content = read_bytes(neighbour, PROFILE)
        except UnreadableFileError:
            return names
        found.update(name for name in names if os.fsencode(name) in content)
    return found


def _may_name(entry: os.DirEntry[str]) -> bool:
    is_array_or_part = entry.name.endswith((".npz", ".part", ".lock"))
    return not is_array_or_part and entry.stat().st_size <= PROFILE.most_bytes
