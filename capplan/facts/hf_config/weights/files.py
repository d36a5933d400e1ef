"""The files of a checkpoint folder that hold its weights, each counted once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from capplan.errors import FactsError, UnreadableFileError
from capplan.facts.hf_config.weights.header import Tensor, read_header
from capplan.inputs.reading import read_start

_POINTER_LIMIT = 1024
"""A Git LFS pointer has about 130 bytes; weights have more."""
_POINTER = re.compile(
    rb"\Aversion https?://[^\n]*git-lfs[^\n]*\n(?:[^\n]*\n)*?size (\d{1,18})(?:\s|\Z)"
)
_SHARD = re.compile(r"(?P<stem>.+)(?P<sign>[-_])(?P<number>\d{3,6})-of-(?P<count>\d{3,6})")
_MOST_SHARDS = 10_000
_NOT_WEIGHTS = re.compile(
    r"(adapter_|optimizer|scheduler|training_args|rng_state|scaler|trainer_state|mmproj)"
)


@dataclass(frozen=True)
class WeightFile:
    """One file of weights."""

    path: Path
    size_bytes: int
    """Bytes of its tensors, or of the file where those are not known."""
    tensors: tuple[Tensor, ...] = ()
    is_pointer: bool = False
    note: str = ""


@dataclass(frozen=True)
class FileSet:
    """Files that together are one checkpoint."""

    kind: str
    """``safetensors``, ``bin`` or ``gguf``."""
    files: tuple[WeightFile, ...]
    missing: tuple[str, ...] = ()
    """Names of shards that are not there."""
    notes: tuple[str, ...] = ()
    is_listed: bool = False
    """Whether an index names these files: then they belong together, whatever they are called."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Tensors of all files; empty unless every header was read."""
        if not all(file.tensors for file in self.files):
            return ()
        return tuple(tensor for file in self.files for tensor in file.tensors)

    @property
    def pointers(self) -> int:
        """How many of the files are Git LFS pointers."""
        return sum(file.is_pointer for file in self.files)


def pointer_size(path: Path) -> int | None:
    """Return the size that a Git LFS pointer states, None if the file is no pointer."""
    try:
        if path.stat().st_size > _POINTER_LIMIT:
            return None
        found = _POINTER.match(read_start(path, _POINTER_LIMIT))
    except (OSError, UnreadableFileError):
        return None
    return int(found[1]) if found is not None else None


def find_weights(folder: Path, expected: Iterable[str] = ()) -> FileSet | None:
    """Return the weights of a folder, None if there are none.

    Parameters
    ----------
    folder
        Only its own files count: ``original/`` and the like hold the same weights again.
    expected
        Names that an index lists; those that are not there are reported.

    Raises
    ------
    FactsError
        If the folder or a file in it may not be read.
    """
    try:
        return _find(folder, expected)
    except OSError as error:
        raise FactsError(
            f"{folder}: cannot be read ({error.strerror}).", "Check its permissions."
        ) from error


def _find(folder: Path, expected: Iterable[str]) -> FileSet | None:
    names = sorted(
        path.name
        for path in folder.iterdir()
        if path.suffix in (".safetensors", ".bin", ".gguf")
        and path.is_file()
        and not _NOT_WEIGHTS.search(path.name)
    )
    wanted = sorted(set(expected))
    if wanted and any(name in names for name in wanted):
        there = [name for name in wanted if name in names]
        return replace(_file_set(folder, there, names, wanted), is_listed=True)
    chosen = _choose(names)
    return _file_set(folder, chosen, names, _all_shards(chosen)) if chosen else None


def files_elsewhere(sizes: Mapping[str, int]) -> FileSet | None:
    """Return the weights among files of which only names and sizes are known."""
    names = sorted(
        name
        for name in sizes
        if name.rpartition(".")[2] in ("safetensors", "bin", "gguf")
        and "/" not in name
        and not _NOT_WEIGHTS.search(name)
    )
    chosen = _choose(names)
    if not chosen:
        return None
    files = tuple(WeightFile(Path(name), sizes[name]) for name in chosen)
    missing = tuple(name for name in _all_shards(chosen) if name not in chosen)
    return FileSet(chosen[0].rpartition(".")[2], files, missing)


def _choose(names: list[str]) -> list[str]:
    """Return the names of one checkpoint: safetensors before pickles, model before others."""
    for pattern in (
        r"model([-_]\d+-of-\d+)?\.safetensors",
        r"(?!consolidated).*[-_]\d+-of-\d+\.safetensors",
        r"consolidated.*\.safetensors",
        r".*\.safetensors",
        r"pytorch_model([-_]\d+-of-\d+)?\.bin",
        r".*\.gguf",
    ):
        found = [name for name in names if re.fullmatch(pattern, name)]
        if found:
            return _whole_before_shards(found)
    return []


def _whole_before_shards(names: list[str]) -> list[str]:
    shards = [name for name in names if _SHARD.match(name)]
    return (
        shards if shards and _complete(shards) else [n for n in names if n not in shards] or names
    )


def _complete(shards: list[str]) -> bool:
    return not [name for name in _all_shards(shards) if name not in shards]


def shard_stem(name: str) -> str:
    """Return what the names of one checkpoint's shards have in common."""
    stem = name.rpartition(".")[0]
    found = _SHARD.fullmatch(stem)
    return found["stem"] if found is not None else stem


def _all_shards(names: list[str]) -> list[str]:
    """Return the names of all shards that the numbering promises."""
    promised: list[str] = []
    for name in names:
        stem, _, suffix = name.rpartition(".")
        found = _SHARD.fullmatch(stem)
        if found is None or int(found["count"]) > _MOST_SHARDS:
            continue
        count, width = int(found["count"]), len(found["number"])
        before, after = f"{found['stem']}{found['sign']}", f"-of-{found['count']}.{suffix}"
        start = 0 if f"{before}{'0' * width}{after}" in names else 1
        promised += [f"{before}{i:0{width}}{after}" for i in range(start, start + count)]
    return list(dict.fromkeys(promised))


def _file_set(folder: Path, chosen: list[str], names: list[str], promised: list[str]) -> FileSet:
    kind = chosen[0].rpartition(".")[2]
    missing = tuple(name for name in promised if name not in chosen)
    others = [name for name in names if name not in chosen]
    notes = []
    if others:
        shown = ", ".join(others[:3]) + (" ..." if len(others) > 3 else "")
        notes.append(f"not counted, taken as further copies or other weights: {shown}")
    return FileSet(kind, tuple(_file(folder / name) for name in chosen), missing, tuple(notes))


def _file(path: Path) -> WeightFile:
    pointed = pointer_size(path)
    if pointed is not None:
        return WeightFile(path, pointed, is_pointer=True)
    size = path.stat().st_size
    if path.suffix != ".safetensors":
        return WeightFile(path, size)
    header = read_header(path)
    if isinstance(header, str):
        return WeightFile(path, 0, note=f"{path.name}: {header}")
    short = header.header_bytes + header.data_bytes - size
    note = (
        f"{path.name}: the file is {short:,} bytes shorter than its header says: an incomplete "
        "download; the header's sizes are used"
        if short > 0
        else ""
    )
    return WeightFile(path, header.data_bytes, header.tensors, note=note)
