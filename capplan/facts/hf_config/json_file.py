"""Small JSON files of a checkpoint, read with errors that say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capplan.errors import FactsError, UnreadableFileError
from capplan.inputs.documents import parse_json
from capplan.inputs.limits import CONFIG
from capplan.inputs.reading import read_text

_REMEDY = "Take the file again from the checkpoint's own repository."


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file.

    Raises
    ------
    FactsError
        If it cannot be read, is empty, is no JSON, or no object.
    """
    try:
        text = read_text(path, CONFIG)
        if text.startswith("version https://git-lfs"):
            raise FactsError(
                f"{path}: is a Git LFS pointer, not the file itself.",
                "Fetch it with: git lfs pull --include '*.json'",
            )
        content = parse_json(text, str(path), CONFIG, finite=False, bounded=False)
    except UnreadableFileError as error:
        raise FactsError(f"{path}: cannot be read: {error.reason}.", _REMEDY) from error
    if not isinstance(content, dict):
        raise FactsError(f"{path}: expected a JSON object, got {type(content).__name__}.", _REMEDY)
    return content
