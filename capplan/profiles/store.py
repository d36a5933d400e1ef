"""Profile files on disk: a JSON document and a sidecar of raw arrays, replaced atomically.

The sidecar is named by the hash of its content and written first, so the JSON file, which takes
its name last, always points to a sidecar that is whole: a kill at any moment leaves a pair that
can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from pydantic import ValidationError

from capplan.errors import ProfileFormatError, UnreadableFileError
from capplan.files import hold, place_of, write_atomic
from capplan.inputs.arrays import parse_arrays
from capplan.inputs.documents import read_json
from capplan.inputs.limits import PROFILE, SIDECAR
from capplan.inputs.names import is_bare_name
from capplan.inputs.reading import read_bytes
from capplan.profiles.frame import ProfileTable, profile_frame
from capplan.profiles.migrate import migrate
from capplan.profiles.sidecars import (
    digest_of,
    remove_superseded,
    remove_unnamed,
    sidecar_place,
    write_sidecar,
)
from capplan.profiles.trace_checks import wrong_trace
from capplan.schema.profile import Profile

if TYPE_CHECKING:
    import pandas as pd

Arrays = Mapping[str, NDArray[Any]]

_AGAIN = "Take the profile again, or restore the file from a copy."
_ANOTHER = (
    "Give a file that `capplan profile -o FILE` wrote; if this is one, restore it from a copy."
)


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
    profile = _parse(file)
    arrays = _load_sidecar(file, profile.sidecar)
    if problem := wrong_trace(profile, arrays):
        raise ProfileFormatError(
            f"The sidecar of {file.name} is not that of its traces: {problem}.", _AGAIN
        )
    return StoredProfile(profile, arrays, file)


def save_profile(path: str | Path, profile: Profile, arrays: Arrays) -> StoredProfile:
    """Write a profile and its arrays; the previous pair stays readable until the last moment.

    Returns
    -------
    StoredProfile
        What now lies on disk: the profile with the name of its sidecar.

    Raises
    ------
    StorageError
        If the disk is full, the folder may not be written, or a run is writing this profile; the
        old pair is untouched.
    """
    with hold(Path(path)):
        return save_held_profile(path, profile, arrays)


def save_held_profile(path: str | Path, profile: Profile, arrays: Arrays) -> StoredProfile:
    """Do as :func:`save_profile` for a run that holds the file already."""
    file = Path(path)
    place = place_of(file)
    sidecar = write_sidecar(place, arrays) if arrays and place is not None else None
    stored = profile.model_copy(update={"sidecar": sidecar})
    try:
        write_atomic(file, stored.model_dump_json(indent=1) + "\n")
    except BaseException:
        if place is not None and sidecar is not None:
            remove_unnamed(place.parent, {sidecar})
        raise
    if place is not None:
        remove_superseded(place, keep=sidecar)
    return StoredProfile(stored, dict(arrays), file)


def _parse(file: Path) -> Profile:
    name = file.name
    try:
        document = read_json(file, PROFILE)
    except UnreadableFileError as error:
        raise ProfileFormatError(
            f"Cannot read the profile {file}: {error.reason}.", _ANOTHER
        ) from (error)
    if not isinstance(document, dict):
        raise ProfileFormatError(
            f"{name} is not a capplan profile: expected a JSON object, "
            f"got {type(document).__name__}.",
            _ANOTHER,
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


def _load_sidecar(file: Path, name: str | None) -> Arrays:
    if name is None:
        return {}
    if not is_bare_name(name):
        raise ProfileFormatError(
            f"{file.name}: sidecar must be a bare file name, got {name!r}.", _AGAIN
        )
    content = _read_sidecar(file, name)
    digest = digest_of(content)
    if not name.endswith(f"-{digest}.npz"):
        raise ProfileFormatError(
            f"The sidecar {name} of {file.name} is damaged: its content hashes to {digest}.",
            _AGAIN,
        )
    try:
        return parse_arrays(content, name, SIDECAR)
    except UnreadableFileError as error:
        raise ProfileFormatError(
            f"The sidecar {name} of {file.name} cannot be used: {error.reason}.", _AGAIN
        ) from error


def _read_sidecar(file: Path, name: str) -> bytes:
    try:
        return read_bytes(sidecar_place(file, name), SIDECAR)
    except UnreadableFileError as error:
        raise ProfileFormatError(
            f"The sidecar {name} of {file.name} cannot be read: {error.reason}.",
            "Copy the .npz file together with the profile, into the same folder.",
        ) from error
