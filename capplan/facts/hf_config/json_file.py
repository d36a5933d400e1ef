"""Small JSON files of a checkpoint, read with errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from capplan.errors import FactsError

_LARGEST = 64_000_000
"""Bytes beyond which a file is no configuration."""
_REMEDY = "Take the file again from the checkpoint's own repository."


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file.

    Raises
    ------
    FactsError
        If it cannot be read, is empty, is no JSON, or no object.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise FactsError(f"{path}: too large for a configuration.", _REMEDY)
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FactsError(f"{path}: cannot be read ({error.strerror}).", _REMEDY) from error
    except UnicodeDecodeError:
        raise FactsError(f"{path}: is no text in UTF-8.", _REMEDY) from None
    if not text.strip():
        raise FactsError(f"{path}: is empty, expected a JSON object.", _REMEDY)
    if text.startswith("version https://git-lfs"):
        raise FactsError(
            f"{path}: is a Git LFS pointer, not the file itself.",
            "Fetch it with: git lfs pull --include '*.json'",
        )
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FactsError(f"{path}: is not JSON: {error}.", _REMEDY) from None
    if not isinstance(content, dict):
        raise FactsError(f"{path}: expected a JSON object, got {type(content).__name__}.", _REMEDY)
    return content
