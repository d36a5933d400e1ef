"""Checkpoints on this machine beside the LLMs of models_db."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from capplan.facts.catalog import Catalog


def with_checkpoints(catalog: Catalog, names: Iterable[str]) -> Catalog:
    """Return the catalogue with the LLMs that these names mean on this machine.

    Parameters
    ----------
    catalog
        Its LLMs stay as they are: a row of models_db wins over a checkpoint of the same id, so
        that a plan does not depend on what happens to lie in a cache.
    names
        Paths and ids; ids that models_db has, or that are nowhere, are left to it.

    Raises
    ------
    FactsError
        If files are there and cannot be used.
    UnknownIdError
        If a path leads nowhere.
    """
    known = {llm.id for llm in catalog.llms}
    unknown = [name for name in dict.fromkeys(names) if name not in known]
    if not unknown:
        return catalog
    # the readers of checkpoints are loaded for those that need one
    from capplan.facts.find_llm import find_llm, is_path
    from capplan.facts.hub import cached_snapshot

    found = [
        find_llm(name, catalog).loaded
        for name in unknown
        if is_path(name) or cached_snapshot(name) is not None
    ]
    return replace(catalog, llms=(*catalog.llms, *found)) if found else catalog
