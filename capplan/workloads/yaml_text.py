"""The mapping that a workload file holds."""

from __future__ import annotations

from typing import Any

from capplan.errors import UnreadableFileError, WorkloadError
from capplan.inputs.limits import WORKLOAD
from capplan.inputs.yaml_text import parse_yaml


def parse(text: str, file: str) -> dict[str, Any]:
    """Return the mapping of a YAML (or JSON) document.

    Raises
    ------
    WorkloadError
        If it is no YAML, has a key twice, is nested too deeply, or is no mapping.
    """
    try:
        found = parse_yaml(text, file, WORKLOAD)
    except UnreadableFileError as error:
        raise WorkloadError(
            f"Cannot read {file}: {error.reason}.",
            "Fields stand one a line as name: value; see docs/workloads.md.",
        ) from error
    if not isinstance(found, dict):
        raise WorkloadError(
            f"{file} is no workload: expected fields (name: value), got "
            f"{'nothing' if found is None else type(found).__name__}.",
            "See docs/workloads.md for the fields.",
        )
    return found
