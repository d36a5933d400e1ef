"""A job's answer in its folder, whole or begun: the text and the arrays that it names."""

from __future__ import annotations

import json
from pathlib import Path

_TRIES = 5


def sidecar_of(content: bytes) -> str | None:
    """Return the arrays' file that a profile names; None for what names none."""
    try:
        name = json.loads(content).get("sidecar")
    except (ValueError, AttributeError):
        return None  # whoever reads it says better what is wrong with it
    return name if isinstance(name, str) and Path(name).name == name else None


def read_answer(folder: Path, output: str) -> dict[str, bytes]:
    """Return the files of an answer, by name; nothing if there is none.

    The profiler replaces text and arrays one after the other and removes the old arrays; what is
    read here belongs together, since a pair that was torn is read again.
    """
    for _ in range(_TRIES):
        try:
            content = (folder / output).read_bytes()
            sidecar = sidecar_of(content)
            arrays = {sidecar: (folder / sidecar).read_bytes()} if sidecar else {}
        except OSError:
            continue
        return {**arrays, output: content}
    return {}
