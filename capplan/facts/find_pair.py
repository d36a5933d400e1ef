"""A target and a draft by what a person types: paths, ids, heads of models_db, lookups."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from capplan.errors import UnknownIdError
from capplan.facts.catalog import Catalog
from capplan.facts.find_llm import FoundLlm, find_llm, is_path
from capplan.facts.hub import cached_snapshot
from capplan.facts.lookup import resolve
from capplan.facts.tokenizers import read_tokenizer
from capplan.schema.tokenizer import TokenizerFacts

_WITHOUT_CHECKPOINT = {
    "ngram": "ngram",
    "n-gram": "ngram",
    "[ngram]": "ngram",
    "suffix": "suffix",
    "mtp": "(built-in)",
    "built-in": "(built-in)",
    "(built-in)": "(built-in)",
}


@dataclass(frozen=True)
class Named:
    """An id, with the LLM's facts where they are known."""

    id: str
    found: FoundLlm | None = None

    @property
    def local(self) -> bool:
        """Whether it was read from a directory, so that its id is a path."""
        return self.found is not None and self.found.origin == "directory"

    def tokenizer(self) -> TokenizerFacts | None:
        """Read the tokenizer beside the configuration, if there is one."""
        folder = self.found.folder if self.found is not None else None
        return read_tokenizer(folder) if folder is not None else None


def find_target(name: str, catalog: Catalog, *, online: bool = False) -> Named:
    """Find a target; one of which models_db knows only pairings has no facts.

    Raises
    ------
    UnknownIdError
        If nothing goes by this name; offers the nearest ids.
    FactsError
        If files are there and cannot be used.
    """
    return _find(name, catalog, [row.target for row in catalog.pairings], online)


def find_draft(name: str, target_id: str, catalog: Catalog, *, online: bool = False) -> Named:
    """Find a draft: a lookup, the target's own layers, an LLM, or a head of models_db.

    Raises
    ------
    UnknownIdError
        If nothing goes by this name; offers the nearest ids.
    FactsError
        If files are there and cannot be used.
    """
    special = _WITHOUT_CHECKPOINT.get(name.strip().lower())
    if special is not None:
        return Named(special)
    if not is_path(name):
        own = [row.draft for row in catalog.pairings_for(target_id)]
        # a short name may be unique among this target's drafts and ambiguous elsewhere
        with suppress(UnknownIdError):
            name = resolve(name, own, "draft")
    return _find(name, catalog, [row.draft for row in catalog.pairings], online)


def _find(name: str, catalog: Catalog, listed: list[str], online: bool) -> Named:
    if is_path(name) or cached_snapshot(name) is not None:
        found = find_llm(name, catalog, online=online)
        return Named(found.spec.id, found)
    known = {llm.id for llm in catalog.llms}
    partial = [llm.id for llm in catalog.incomplete_llms]
    try:
        chosen = resolve(name, (*known, *listed, *partial), "LLM or head")
    except UnknownIdError as error:
        if not online:
            raise UnknownIdError(
                error.message,
                f"{error.remedy} Or give a directory with its config.json, or --online.",
            ) from None
        chosen = name
    if chosen not in known and not online:
        return Named(chosen)
    found = find_llm(chosen, catalog, online=online)
    return Named(found.spec.id, found)
