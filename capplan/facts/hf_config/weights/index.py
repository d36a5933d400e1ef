"""``model.safetensors.index.json``: which file holds which tensor, and what all of them weigh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capplan.errors import UnreadableFileError
from capplan.inputs.documents import read_json
from capplan.inputs.limits import WEIGHT_INDEX
from capplan.inputs.names import is_bare_name

INDEX_NAMES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class WeightIndex:
    """What an index states."""

    name: str
    total_bytes: int | None
    """``metadata.total_size``; None if absent or no number above 0."""
    files: tuple[str, ...]
    tensors: tuple[str, ...]
    note: str = ""
    """What is wrong with it; empty if nothing is."""


def read_index(folder: Path) -> WeightIndex | None:
    """Return the index of a folder, None if there is none; of two the one that states a total."""
    found = [_read(folder / name) for name in INDEX_NAMES if (folder / name).is_file()]
    with_total = (index for index in found if index.total_bytes is not None)
    return next(with_total, found[0] if found else None)


def _read(path: Path) -> WeightIndex:
    try:
        content = read_json(path, WEIGHT_INDEX)
    except UnreadableFileError:
        return WeightIndex(path.name, None, (), (), f"{path.name} cannot be read as JSON")
    if not isinstance(content, Mapping):
        return WeightIndex(path.name, None, (), (), f"{path.name} is no JSON object")
    weight_map = content.get("weight_map")
    names = dict(weight_map) if isinstance(weight_map, Mapping) else {}
    files = tuple(sorted({name for name in names.values() if is_bare_name(name)}))
    total = _total(content)
    note = "" if total is not None else f"{path.name} states no total_size above 0"
    return WeightIndex(path.name, total, files, tuple(map(str, names)), note)


def _total(content: Mapping[str, object]) -> int | None:
    metadata = content.get("metadata")
    value = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value[:25])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value < 1e18 else None
