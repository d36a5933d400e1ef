"""The Hugging Face cache on this machine and, on request, the hub itself. Never weights."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from capplan.errors import FactsError, MissingPackageError, UnknownIdError, UnreadableFileError
from capplan.inputs.limits import SMALL_TEXT
from capplan.inputs.names import is_bare_name
from capplan.inputs.reading import read_bytes

_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SMALL_FILES = (
    *("model.safetensors.index.json", "pytorch_model.bin.index.json", "README.md"),
    *("hf_quant_config.json", "quantize_config.json", "quant_config.json"),
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "tekken.json"),
)
"""Fetched with ``config.json`` where they exist: tokenizers so that vocabularies can be compared,
the largest of all (up to some 30 MB)."""
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TRUE = ("1", "true", "yes", "on")


def looks_like_id(name: str) -> bool:
    """Return whether a name may be a hub id: ``org/name`` or ``name``."""
    return _ID.fullmatch(name) is not None and ".." not in name


def cache_dir() -> Path:
    """Return the folder where Hugging Face libraries keep what they download."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser()
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"]).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "huggingface" / "hub"


def cached_snapshot(name: str) -> Path | None:
    """Return the folder of a checkpoint in the cache, None if its configuration is not there."""
    if not looks_like_id(name):
        return None
    root = cache_dir() / f"models--{name.replace('/', '--')}"
    try:
        return next(
            (found for found in _snapshots(root) if (found / "config.json").is_file()), None
        )
    except OSError:  # a name too long for a file, a cache that may not be read
        return None


def _snapshots(root: Path) -> list[Path]:
    """Return the snapshot that ``main`` names, else the only one there is."""
    main, snapshots = root / "refs" / "main", root / "snapshots"
    if main.is_file():
        named = _first_word(main)
        return [snapshots / named] if is_bare_name(named) else []
    found = sorted(snapshots.iterdir()) if snapshots.is_dir() else []
    return found if len(found) == 1 else []


def _first_word(file: Path) -> str:
    try:
        return read_bytes(file, SMALL_TEXT).decode("utf-8", errors="replace").strip()
    except UnreadableFileError:
        return ""


@dataclass(frozen=True)
class OnHub:
    """What the hub says of a checkpoint."""

    folder: Path
    """Its configuration, index, tokenizer and model card, in the cache."""
    sizes: Mapping[str, int]
    """Bytes of each file in its repository."""


def fetch(name: str) -> OnHub:
    """Fetch a checkpoint's configuration, tokenizer and sizes of its files, never its weights.

    Raises
    ------
    MissingPackageError
        If huggingface_hub is not installed.
    UnknownIdError
        If the hub has no such checkpoint, or access to it is restricted.
    FactsError
        If the hub cannot be reached, or the environment asks to stay offline.
    """
    blocked = next((v for v in _OFFLINE if os.environ.get(v, "").lower() in _TRUE), None)
    if blocked is not None:
        raise FactsError(
            f"{name} is not on this machine, and {blocked} is set.",
            f"Unset {blocked}, or give a directory with its config.json.",
        )
    return _fetch(_library(), name)


def _library() -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise MissingPackageError("--online", "huggingface_hub", "hub") from None
    return huggingface_hub


def _fetch(library: ModuleType, name: str) -> OnHub:
    errors = library.errors
    try:
        info = library.HfApi().model_info(name, files_metadata=True, timeout=20)
        sizes = {file.rfilename: file.size for file in info.siblings or () if file.size}
        wanted = ("config.json", *(file for file in _SMALL_FILES if file in sizes))
        paths = [library.hf_hub_download(name, file) for file in wanted]
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise UnknownIdError(
            f"The hub has no checkpoint {name!r}, or it is private or gated.",
            "Check the id; for a gated one accept its licence and set HF_TOKEN.",
        ) from error
    except errors.RemoteEntryNotFoundError as error:
        raise FactsError(
            f"{name} has no config.json on the hub.", "Give a checkpoint with a config.json."
        ) from error
    except Exception as error:  # transport errors differ by the library's version
        raise FactsError(
            f"The hub cannot be reached for {name}: {_first_line(error)}.",
            "Check the network and proxy, or copy the checkpoint's config.json and tokenizer.json "
            "into a directory and give that.",
        ) from error
    return OnHub(Path(paths[0]).parent, sizes)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
