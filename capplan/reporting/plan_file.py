"""Plan files to plans, with errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capplan.errors import PlanFormatError, PlanVersionError, UnreadableFileError
from capplan.inputs.documents import read_json
from capplan.inputs.limits import PLAN
from capplan.schema.plan import PLAN_SCHEMA_VERSION, Plan

_WRITE_ONE = "Write one with: capplan recommend --budget USD --format json -o plan.json"
_WRITE_AGAIN = "Write it again with: capplan recommend --budget USD --format json -o plan.json"
_PROFILE_FIELDS = ("environment", "backend", "timing")


def load_plan(path: str | Path) -> Plan:
    """Read a plan file.

    Raises
    ------
    PlanFormatError
        If the file is absent, cut off, or no plan.
    PlanVersionError
        If a newer capplan wrote it.
    """
    file = Path(path)
    document = _parse(file)
    _check_version(file, document)
    try:
        return Plan.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise PlanFormatError(f"{file} is not a valid plan: {_first(error)}.", _WRITE_AGAIN) from (
            error
        )


def _parse(file: Path) -> dict[str, Any]:
    try:
        document = read_json(file, PLAN)
    except UnreadableFileError as error:
        raise PlanFormatError(
            f"Cannot read the plan file {file}: {error.reason}.", _WRITE_ONE
        ) from (error)
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise PlanFormatError(f"{file} is not a plan: expected an object, got {kind}.", _WRITE_ONE)
    if all(field in document for field in _PROFILE_FIELDS):
        raise PlanFormatError(
            f"{file} is a profile, expected a plan.",
            f"Make a plan of it: capplan recommend --budget USD --profile {file}",
        )
    return document


def _check_version(file: Path, document: dict[str, Any]) -> None:
    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise PlanFormatError(
            f"{file} is not a plan: schema_version is {version!r}, expected a whole number.",
            _WRITE_ONE,
        )
    if version > PLAN_SCHEMA_VERSION:
        raise PlanVersionError(
            f"{file} has plan schema {version}; this capplan reads up to {PLAN_SCHEMA_VERSION}.",
            "Upgrade with: pip install --upgrade capplan",
        )
    if version < 1:
        raise PlanFormatError(
            f"{file} has plan schema {version}, expected 1 to {PLAN_SCHEMA_VERSION}.",
            _WRITE_AGAIN,
        )


def _first(error: ValidationError) -> str:
    """Return the first fault with its place: ``options.0.gpu: Field required``."""
    fault = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    more = error.error_count() - 1
    return f"{place or 'file'}: {fault['msg']}" + (f" (and {more} more)" if more else "")
