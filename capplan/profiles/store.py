"""Profile files on disk: a JSON document and a sidecar of raw arrays, replaced atomically.

The sidecar is named by the hash of its content and written first, so the JSON file, which takes
its name last, always points to a sidecar that is whole: a kill at any moment leaves a pair that
can be read.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from capplan.errors import ProfileFormatError, StorageError
from capplan.files import write_atomic
from capplan.profiles.frame import ProfileTable, profile_frame
from capplan.profiles.migrate import migrate
from capplan.schema.profile import Profile

if TYPE_CHECKING:
    import pandas as pd

Arrays = Mapping[str, NDArray[Any]]

_HASH_DIGITS = 16
_AGAIN = "Take the profile again, or restore the file from a copy."


@dataclass(frozen=True, repr=False)
class StoredProfile:
    """A profile with its raw arrays and the file it lies in."""

    profile: Profile
    arrays: Arrays
    path: Path

    def __repr__(self) -> str:
        """One line: the raw values fill pages."""
        target, device = self.profile.target.spec.id, self.profile.environment.device.name
        stability = self.profile.verdict.stability.value
        return f"<StoredProfile of {target} on {device}: {stability}, {self.path.name}>"

    def to_frame(self, table: ProfileTable = "steps") -> pd.DataFrame:
        """Return ``steps`` (timed points) or ``rounds`` (speculation really run), a row each.

        Raises
        ------
        MissingPackageError
            If pandas is not installed.
        """
        return profile_frame(self.profile, table)


def load_profile(path: str | Path) -> StoredProfile:
    """Read a profile and its sidecar.

    Raises
    ------
    ProfileFormatError
        If the file is missing, truncated, not JSON, not a profile, or its sidecar is not whole.
    ProfileVersionError
        If a newer capplan wrote it.
    """
    file = Path(path)
    profile = _parse(_read_text(file), file.name)
    return StoredProfile(profile, _load_sidecar(file, profile.sidecar), file)


def save_profile(path: str | Path, profile: Profile, arrays: Arrays) -> StoredProfile:
    """Write a profile and its arrays; the previous pair stays readable until the last moment.

    Returns
    -------
    StoredProfile
        What now lies on disk: the profile with the name of its sidecar.

    Raises
    ------
    StorageError
        If the disk is full or the folder may not be written; the old pair is untouched.
    """
    file = Path(path)
    sidecar = _write_sidecar(file, arrays) if arrays else None
    stored = profile.model_copy(update={"sidecar": sidecar})
    try:
        write_atomic(file, stored.model_dump_json(indent=1) + "\n")
    finally:
        _remove_stale_sidecars(file)
    return StoredProfile(stored, dict(arrays), file)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProfileFormatError(
            f"{file} is not a capplan profile: byte {error.start} is not UTF-8 text.",
            "Give a file that `capplan profile -o FILE` wrote.",
        ) from error
    except OSError as error:
        raise ProfileFormatError(
            f"Cannot read the profile {file}: {error.strerror or error}.",
            "Check the path; `capplan profile -o FILE` writes one.",
        ) from error


def _parse(text: str, name: str) -> Profile:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        whole = text.strip()
        cut = whole.startswith("{") and (error.pos >= len(whole) or not whole.endswith("}"))
        what = "ends in the middle (truncated)" if cut else f"is not JSON ({error.msg})"
        raise ProfileFormatError(
            f"The profile {name} {what}, line {error.lineno}, column {error.colno}.", _AGAIN
        ) from error
    if not isinstance(document, dict):
        raise ProfileFormatError(
            f"{name} is not a capplan profile: expected a JSON object, "
            f"got {type(document).__name__}.",
            "Give a file that `capplan profile -o FILE` wrote.",
        )
    try:
        return Profile.model_validate(migrate(document, name))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise ProfileFormatError(
            f"{name} is not a valid profile: {where}: {first['msg']} "
            f"({error.error_count()} problem(s)).",
            _AGAIN,
        ) from error


def _sidecar_pattern(file: Path) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(file.stem)}-[0-9a-f]{{{_HASH_DIGITS}}}\.npz")


def _write_sidecar(file: Path, arrays: Arrays) -> str:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **dict(sorted(arrays.items())))
    content = buffer.getvalue()
    name = f"{file.stem}-{hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]}.npz"
    if not (file.parent / name).exists():
        write_atomic(file.parent / name, content)
    return name


def _load_sidecar(file: Path, name: str | None) -> Arrays:
    if name is None:
        return {}
    if Path(name).name != name:
        raise ProfileFormatError(
            f"{file.name}: sidecar must be a bare file name, got {name!r}.", _AGAIN
        )
    content = _read_sidecar(file, name)
    digest = hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]
    if not name.endswith(f"-{digest}.npz"):
        raise ProfileFormatError(
            f"The sidecar {name} of {file.name} is damaged: its content hashes to {digest}.",
            _AGAIN,
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ProfileFormatError(
            f"The sidecar {name} of {file.name} holds no plain arrays: {error}.", _AGAIN
        ) from error


def _read_sidecar(file: Path, name: str) -> bytes:
    try:
        return (file.parent / name).read_bytes()
    except OSError as error:
        raise ProfileFormatError(
            f"The sidecar {name} of {file.name} cannot be read: {error.strerror or error}.",
            "Copy the .npz file together with the profile, into the same folder.",
        ) from error


def _remove_stale_sidecars(file: Path) -> None:
    """Remove sidecars of earlier states; the one that the file on disk names stays."""
    try:
        current = json.loads(file.read_text(encoding="utf-8")).get("sidecar")
    except (OSError, ValueError, AttributeError):
        return
    pattern = _sidecar_pattern(file)
    for other in file.parent.glob("*.npz"):
        if other.name != current and pattern.fullmatch(other.name):
            _unlink(other)


def _unlink(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot remove the superseded {file}: {error.strerror or error}.",
            "The profile itself is written; check the permissions of the folder.",
        ) from error
