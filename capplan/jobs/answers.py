"""A job's answer in its folder, whole or begun: the text and the arrays that it names."""

from __future__ import annotations

from pathlib import Path

from capplan.errors import UnreadableFileError
from capplan.inputs.documents import parse_json
from capplan.inputs.limits import PROFILE, SIDECAR
from capplan.inputs.names import is_bare_name
from capplan.inputs.reading import as_text, read_bytes

_TRIES = 5
_ARRAYS = ".npz"


def sidecar_of(content: bytes) -> str | None:
    """Return the arrays' file that a profile names; None for what names none."""
    try:
        name = parse_json(as_text(content, "profile"), "profile", PROFILE).get("sidecar")
    except (UnreadableFileError, AttributeError):
        return None  # whoever reads it says better what is wrong with it
    return name if is_bare_name(name) and name.endswith(_ARRAYS) else None


def read_answer(folder: Path, output: str) -> dict[str, bytes]:
    """Return the files of an answer, by name; nothing if there is none.

    The profiler replaces text and arrays one after the other and removes the old arrays; what is
    read here belongs together, since a pair that was torn is read again.
    """
    for _ in range(_TRIES):
        try:
            content = read_bytes(folder / output, PROFILE)
            sidecar = sidecar_of(content)
            arrays = {sidecar: read_bytes(folder / sidecar, SIDECAR)} if sidecar else {}
        except UnreadableFileError:
            continue
        return {**arrays, output: content}
    return {}
