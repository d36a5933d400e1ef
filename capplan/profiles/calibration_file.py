"""Calibration files on disk: a JSON document, replaced atomically."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capplan.errors import CalibrationFileError, UnreadableFileError
from capplan.files import write_atomic
from capplan.inputs.documents import read_json
from capplan.inputs.limits import CALIBRATION
from capplan.schema.calibration import CALIBRATION_SCHEMA_VERSION, Calibration

_AGAIN = "Make the file again: capplan calibrate PROFILE... -o calibration.json"


@dataclass(frozen=True)
class StoredCalibration:
    """A calibration and the file it lies in."""

    calibration: Calibration
    path: Path


def save_calibration(path: str | Path, calibration: Calibration) -> StoredCalibration:
    """Write a calibration in one step.

    Raises
    ------
    StorageError
        If it cannot be written; an older file stays as it was.
    """
    file = Path(path)
    write_atomic(file, calibration.model_dump_json(indent=1) + "\n")
    return StoredCalibration(calibration, file)


def load_calibration(path: str | Path) -> StoredCalibration:
    """Read a calibration.

    Raises
    ------
    CalibrationFileError
        If the file is missing, damaged, no calibration, or written by a newer capplan.
    """
    file = Path(path)
    document = _parsed(file)
    _check_version(document, file.name)
    try:
        return StoredCalibration(Calibration.model_validate(document), file)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise CalibrationFileError(
            f"{file.name} is not a valid calibration: {where}: {first['msg']} "
            f"({error.error_count()} problem(s)).",
            _AGAIN,
        ) from error


def _parsed(file: Path) -> dict[str, Any]:
    name = file.name
    try:
        document = read_json(file, CALIBRATION)
    except UnreadableFileError as error:
        raise CalibrationFileError(
            f"Cannot read the calibration {file}: {error.reason}.", _AGAIN
        ) from error
    if not isinstance(document, dict):
        raise CalibrationFileError(
            f"{name} is not a calibration: expected a JSON object, got {type(document).__name__}.",
            _AGAIN,
        )
    return document


def _check_version(document: dict[str, Any], name: str) -> None:
    version = document.get("schema_version")
    if "timing" in document and "backend" in document:
        raise CalibrationFileError(f"{name} is a profile, not yet a calibration.", _AGAIN)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CalibrationFileError(
            f"{name} is not a calibration: schema_version is {version!r}, expected "
            f"{CALIBRATION_SCHEMA_VERSION}.",
            _AGAIN,
        )
    if version > CALIBRATION_SCHEMA_VERSION:
        raise CalibrationFileError(
            f"{name} has schema version {version}; this capplan reads up to "
            f"{CALIBRATION_SCHEMA_VERSION}.",
            "Upgrade capplan, or calibrate again with this version.",
        )
