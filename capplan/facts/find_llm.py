"""An LLM's facts by path or id: directory, Hugging Face cache, models_db, the hub."""

from __future__ import annotations

import re
from pathlib import Path

from capplan.errors import FactsError, UnknownIdError
from capplan.facts.catalog import Catalog
from capplan.facts.hf_config.json_file import read_object
from capplan.facts.hf_config.spec import FoundLlm, llm_from_config
from capplan.facts.hf_config.weights.files import files_elsewhere
from capplan.facts.hub import cached_snapshot, fetch, looks_like_id
from capplan.facts.lookup import resolve
from capplan.schema.llm import LlmSpec

CONFIG = "config.json"
_CACHED = re.compile(r"(?:^|/)models--(?P<owner>[^/]+?)--(?P<name>[^/]+)")
"""How the Hugging Face cache calls the folder of a repository."""

__all__ = ["FoundLlm", "find_llm", "find_path", "id_of_path", "is_path"]


def as_name(name: Path | str) -> str:
    """Return what a caller gave as text; a ``Path`` stays a path, never an id."""
    text = str(name)
    return text if isinstance(name, str) or text.startswith(("/", ".", "~")) else f"./{text}"


def is_path(name: str) -> bool:
    """Return whether a name means files on this machine rather than an id.

    An explicit path (``./x``, ``/x``, ``~/x``, ``x/config.json``) always does; so does a
    directory of that name that holds a configuration.
    """
    if name.startswith((".", "/", "~", "\\")) or name.endswith(".json") or name.count("/") > 1:
        return True
    try:
        return (Path(name) / CONFIG).is_file()
    except (OSError, ValueError):
        return False


def id_of_path(path: str) -> str:
    """Return the id that a path on another machine stands for: of a cache, else its last folder.

    Parameters
    ----------
    path
        ``/models/Qwen3-8B`` or ``.../models--Qwen--Qwen3-8B/snapshots/0123``.
    """
    cached = _CACHED.search(path)
    if cached is not None:
        return f"{cached['owner']}/{cached['name']}"
    return path.rstrip("/").rpartition("/")[2]


def find_llm(name: str, catalog: Catalog, *, online: bool = False) -> FoundLlm:
    """Find an LLM's facts: in a directory, the Hugging Face cache, models_db, or on the hub.

    The first that has it answers. In a plan models_db comes before the cache, so that the plan
    does not depend on what happens to lie on a machine: see :mod:`capplan.facts.on_disk`.

    Parameters
    ----------
    name
        A directory with a ``config.json``, that file itself, or an id.
    catalog
        The facts of models_db.
    online
        Ask the hub for ids that are not on this machine; only configuration and sizes.

    Returns
    -------
    FoundLlm
        The spec, its derivation, and where it was found.

    Raises
    ------
    UnknownIdError
        If nothing goes by this name; offers the nearest ids.
    FactsError
        If files are there and cannot be used.
    """
    if is_path(name):
        return find_path(name)
    snapshot = cached_snapshot(name)
    if snapshot is not None:
        config = read_object(snapshot / CONFIG)
        return llm_from_config(config, name=name, folder=snapshot, origin="cache")
    try:
        return FoundLlm(_from_catalog(name, catalog), origin="models_db")
    except UnknownIdError as error:
        if online and looks_like_id(name):
            return _from_hub(name)
        raise UnknownIdError(error.message, f"{error.remedy} {_elsewhere()}".strip()) from None


def _elsewhere() -> str:
    return "Or give a directory with its config.json, or --online to ask the hub."


def _from_catalog(name: str, catalog: Catalog) -> LlmSpec:
    incomplete = {llm.id: llm for llm in catalog.incomplete_llms}
    ids = (*(llm.id for llm in catalog.llms), *incomplete)
    found = resolve(name, ids, "LLM")
    if found in incomplete:
        missing = ", ".join(incomplete[found].missing)
        raise UnknownIdError(f"models_db knows {found} only by name: no {missing}.", "")
    return catalog.llm(found)


def find_path(name: str) -> FoundLlm:
    """Read the checkpoint in a directory, or the configuration in a file.

    Raises
    ------
    UnknownIdError
        If the path leads nowhere.
    FactsError
        If its files cannot be used.
    """
    try:
        path = Path(name).expanduser()
        exists, is_dir = path.exists(), path.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        raise FactsError(f"{name!r} is no usable path: {error}.", "Give a directory.") from error
    if not exists:
        raise UnknownIdError(
            f"There is no file or directory {name!r}.",
            "Give a directory with a config.json, or a Hugging Face id such as Qwen/Qwen3-8B.",
        )
    if is_dir:
        return _from_directory(path, name)
    if path.suffix != ".json":
        raise FactsError(
            f"{name} is a file and no config.json.",
            "Give the directory of the checkpoint, or its config.json.",
        )
    return llm_from_config(read_object(path), name=name, folder=path.parent)


def _from_directory(path: Path, name: str) -> FoundLlm:
    config = path / CONFIG
    if config.is_file():
        return llm_from_config(read_object(config), name=name, folder=path)
    raise FactsError(f"{name}: holds no {CONFIG}{_what_else(path)}.", _remedy(path))


def _what_else(path: Path) -> str:
    if any(path.glob("*.gguf")):
        return ", only GGUF files"
    if (path / "adapter_config.json").is_file():
        return ", only an adapter"
    if (path / "params.json").is_file():
        return ", only a params.json in the vendor's own format"
    if any(path.glob("tokenizer*")):
        return ", only a tokenizer"
    return ""


def _remedy(path: Path) -> str:
    if any(path.glob("*.gguf")):
        return "Put the config.json of the LLM that the GGUF was made from beside it."
    if (path / "adapter_config.json").is_file():
        return "Give the base model's directory: an adapter alone states no architecture."
    return "Give the directory that holds it: a checkpoint in Hugging Face format."


def _from_hub(name: str) -> FoundLlm:
    found = fetch(name)
    return llm_from_config(
        read_object(found.folder / CONFIG),
        name=name,
        folder=found.folder,
        origin="hub",
        files=files_elsewhere(found.sizes),
    )
