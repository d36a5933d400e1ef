"""Find a checkpoint on this machine and refuse what cannot be loaded safely. No torch here.

Nothing is ever downloaded: a profile of a checkpoint that nobody asked to fetch would surprise
by gigabytes. Pickle files are refused because loading one runs whatever code it carries.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from capplan.errors import (
    CheckpointError,
    MissingPackageError,
    UnknownIdError,
    UnreadableFileError,
)
from capplan.inputs.documents import read_json
from capplan.inputs.gguf import MAGIC, read_gguf_header
from capplan.inputs.limits import WEIGHT_INDEX
from capplan.inputs.names import at_home, is_bare_name
from capplan.inputs.reading import read_start
from capplan.inputs.safetensors import read_tensors

PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth")
HASH_BLOCK_BYTES = 2**24
_BROKEN_GGUF = (ValueError, LookupError, TypeError, OverflowError, MemoryError, OSError)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint found on disk.

    ``folder`` holds the configuration and, unless ``gguf`` names a single file, the safetensors.
    """

    name: str
    folder: Path
    gguf: Path | None = None
    revision: str = ""

    @property
    def weight_files(self) -> tuple[Path, ...]:
        """The files that hold the weights, in a stable order."""
        return (self.gguf,) if self.gguf else tuple(sorted(self.folder.glob("*.safetensors")))

    @property
    def has_tokenizer(self) -> bool:
        """Whether a tokenizer lies beside the weights or inside the GGUF file."""
        names = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")
        return self.gguf is not None or any((self.folder / name).is_file() for name in names)

    def sha256(self) -> str:
        """Return one hash over all weight files, read in blocks."""
        whole = hashlib.sha256()
        for path in self.weight_files:
            with path.open("rb") as file:
                while block := file.read(HASH_BLOCK_BYTES):
                    whole.update(block)
        return whole.hexdigest()


def require(feature: str, *packages: str) -> None:
    """Raise :class:`MissingPackageError` for the first package that is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingPackageError(feature, package, "profile")


def find_checkpoint(name: str, dummy_weights: bool = False) -> Checkpoint:
    """Return the checkpoint that a path or a cached Hugging Face id names.

    With ``dummy_weights`` a configuration is enough: a folder, a ``config.json`` or a cached id.

    Raises
    ------
    UnknownIdError
        Neither a path nor in the local cache.
    CheckpointError
        Found, but incomplete, cut or in a format that is refused.
    """
    path = at_home(name)
    if path.is_file():
        return _from_file(name, path, dummy_weights)
    found = Checkpoint(name, path) if path.is_dir() else _from_cache(name)
    if not (found.folder / "config.json").is_file():
        raise CheckpointError(
            f"{name} holds no config.json, so its architecture is unknown.",
            "Give the folder of a Hugging Face checkpoint, or a .gguf file.",
        )
    if not dummy_weights:
        _check_folder(found)
    return found


def _from_file(name: str, path: Path, dummy_weights: bool) -> Checkpoint:
    if dummy_weights and path.suffix == ".json":
        return Checkpoint(name, path.parent)
    if any(path.match(pattern) for pattern in PICKLE_PATTERNS):
        raise _pickle_error(name, path.name)
    if path.suffix != ".gguf":
        raise CheckpointError(
            f"{name} is neither a .gguf file nor a folder.",
            "Give the folder that holds config.json and the *.safetensors files, or a .gguf file.",
        )
    if dummy_weights:
        raise CheckpointError(
            f"{name} holds weights; dummy weights need a configuration alone.",
            "Give a config.json or the folder that holds one, or ask for real weights.",
        )
    check_gguf(path)
    return Checkpoint(name, path.parent, gguf=path)


def _from_cache(name: str) -> Checkpoint:
    require("Looking up a checkpoint in the local cache", "huggingface_hub")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        fetch = f"capplan never downloads weights; fetch them first with: hf download {name}"
        raise UnknownIdError(
            f"There is no checkpoint {name!r}: no such path, and no such id in the local "
            f"Hugging Face cache.{_nearest(name)}",
            "Give a folder with config.json and *.safetensors, or a .gguf file."
            if isinstance(error, HFValidationError)
            else fetch,
        ) from error
    return Checkpoint(name, folder, revision=folder.name)


def _nearest(name: str) -> str:
    from huggingface_hub.constants import HF_HUB_CACHE

    folders = Path(HF_HUB_CACHE).glob("models--*")
    cached = [folder.name.removeprefix("models--").replace("--", "/") for folder in folders]
    near = difflib.get_close_matches(name, cached)
    return f" Cached and similar: {', '.join(near)}." if near else ""


def _check_folder(found: Checkpoint) -> None:
    for path in found.weight_files:
        check_safetensors(path)
    if not found.weight_files:
        pickles = [file.name for pattern in PICKLE_PATTERNS for file in found.folder.glob(pattern)]
        if pickles:
            raise _pickle_error(found.name, sorted(pickles)[0])
        raise CheckpointError(
            f"{found.name} holds no *.safetensors file.",
            "Complete the download, or time its shape alone with --weights dummy.",
        )
    missing = _missing_shards(found.folder)
    if missing:
        raise CheckpointError(
            f"{found.name} is incomplete: {len(missing)} weight files are missing, "
            f"the first is {missing[0]}.",
            "Complete the download of the checkpoint.",
        )


def _missing_shards(folder: Path) -> Sequence[str]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return ()
    try:
        content = read_json(index, WEIGHT_INDEX)
    except UnreadableFileError as error:
        raise _wrong_index(index, error.reason) from error
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict):
        raise _wrong_index(index, "it has no weight_map")
    shards = set(map(str, weight_map.values()))
    outside = sorted(shard for shard in shards if not is_bare_name(shard))
    if outside:
        raise _wrong_index(index, f"it names {outside[0][:80]!r}, which is no file of its folder")
    return sorted(shard for shard in shards if not (folder / shard).is_file())


def _wrong_index(index: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{index.name} cannot be used: {why}.", "Download the index of the checkpoint again."
    )


def _pickle_error(name: str, file: str) -> CheckpointError:
    return CheckpointError(
        f"{name} has its weights in a pickle file ({file}), which can run code when loaded.",
        "Use a checkpoint with *.safetensors or .gguf weights; most publishers offer one.",
    )


_LFS_POINTER = b"version https://git-lfs"
"""How a file of Git begins whose content was not fetched."""


def check_safetensors(path: Path) -> None:
    """Raise :class:`CheckpointError` unless the file is as long as its header says."""
    size = path.stat().st_size
    if read_start(path, len(_LFS_POINTER)) == _LFS_POINTER:
        raise CheckpointError(
            f"{path.name} is a Git LFS pointer of {size} bytes, not the weights.",
            "Fetch them with: git lfs pull; or time the shape alone with --weights dummy.",
        )
    try:
        needed = read_tensors(path).end
    except UnreadableFileError as error:
        raise CheckpointError(
            f"{path.name} is no safetensors file: its {size:,} bytes have no readable header "
            f"({error.reason}).",
            error.remedy,
        ) from error
    if needed != size:
        raise CheckpointError(
            f"{path.name} is {size:,} bytes, its header announces {needed:,}.",
            "The file is cut or damaged; download it again.",
        )


def check_gguf(path: Path) -> None:
    """Raise :class:`CheckpointError` unless the file is GGUF and holds all its tensors."""
    require("Reading a GGUF file", "gguf")
    size = path.stat().st_size
    magic = read_start(path, len(MAGIC))
    if magic != MAGIC:
        raise CheckpointError(
            f"{path.name} is no GGUF file: it starts with {magic!r}, expected {MAGIC!r}.",
            "Check the path, or download the file again.",
        )
    try:
        read_gguf_header(path)
    except UnreadableFileError as error:
        raise _cut_gguf(path, f"{size:,} bytes, but {error.reason}") from error
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        needed = max((int(t.data_offset + t.n_bytes) for t in reader.tensors), default=0)
    except _BROKEN_GGUF as error:
        # The reader maps every tensor; one beyond the end of the file cannot take its shape.
        raise _cut_gguf(path, f"{size:,} bytes, which end before its tensor data do") from error
    if needed > size:
        raise _cut_gguf(path, f"{size:,} bytes, its tensors need {needed:,}")


def _cut_gguf(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path.name} is cut or damaged: it has {what}.",
        "Download the file again and compare its size with the publisher's.",
    )
