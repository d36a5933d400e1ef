"""LLMs: facts of one checkpoint, wherever they are."""

from __future__ import annotations

from pathlib import Path

from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.find_llm import as_name, find_llm
from capplan.schema.llm import LlmSpec


def load_llm(name: Path | str, *, online: bool = False, catalog: Catalog | None = None) -> LlmSpec:
    """Return an LLM's facts: from a directory, the Hugging Face cache, models_db or the hub.

    Parameters
    ----------
    name
        A directory with a ``config.json``, that file, or an id such as ``Qwen/Qwen3-32B``.
    online
        Ask the hub for ids that are not on this machine; configuration and sizes, never weights.
    catalog
        Facts; the shipped ones by default.

    Raises
    ------
    UnknownIdError
        If nothing goes by this name; offers the nearest ids.
    FactsError
        If files are there and cannot be used: an unknown architecture is refused by name.
    """
    return find_llm(as_name(name), catalog or load_catalog(), online=online).spec
