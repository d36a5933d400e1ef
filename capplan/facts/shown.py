"""What ``capplan facts show`` says of one id or path, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from capplan.errors import UnknownIdError
from capplan.facts import listing
from capplan.facts.catalog import Catalog
from capplan.facts.derivation import Line, whole, window_bytes_per_request
from capplan.facts.find_llm import find_llm, find_path, is_path
from capplan.facts.hf_config.spec import FoundLlm
from capplan.facts.hub import cached_snapshot, looks_like_id
from capplan.facts.listing import Listing, Record
from capplan.schema.llm import LlmSpec


@dataclass(frozen=True)
class Shown:
    """Everything known of one thing."""

    record: Record | None
    """The fact itself; None for things that are only referred to (a provider, a head)."""
    listings: tuple[Listing, ...] = ()
    """Facts that refer to it."""
    llm: FoundLlm | None = None
    """Set for LLMs, of models_db or derived from files."""

    @property
    def lines(self) -> tuple[Line, ...]:
        """The derivation; empty for facts of models_db."""
        return self.llm.lines if self.llm is not None else ()

    def words(self) -> Record | None:
        """Return the fact for people: layers of the cache as models_db writes them."""
        if self.record is None or self.llm is None:
            return self.record
        return {**self.record, "cache": [str(group) for group in self.llm.spec.cache]}

    def content(self) -> dict[str, Any]:
        """Return all of it as JSON types; LLMs have their main figures at the top."""
        parts = {part.name: part.records for part in self.listings}
        top = figures(self.llm) if self.llm is not None else {}
        return {**top, "fact": self.record, **parts}


def show(catalog: Callable[[], Catalog], name: str, *, online: bool = False) -> Shown:
    """Return what is known of a directory, an LLM, a GPU, a head, a provider or a claim.

    Parameters
    ----------
    catalog
        Loads the facts of models_db; not called for a directory, which needs none of them.
    name
        Path or id.
    online
        Ask the hub for ids that are not on this machine.

    Raises
    ------
    UnknownIdError
        If nothing goes by this name.
    FactsError
        If files are there and cannot be used.
    """
    if is_path(name):
        found = find_path(name)
        return Shown(found.spec.model_dump(mode="json"), (), found)
    known = catalog()
    if cached_snapshot(name) is not None:
        return _derived(find_llm(name, known), known)
    try:
        record, listings = listing.show(known, name)
    except UnknownIdError as error:
        if online and looks_like_id(name):
            return _derived(find_llm(name, known, online=True), known)
        if "ambiguous" in error.message:
            raise
        remedy = f"{error.remedy} Or give a directory with its config.json, or --online."
        raise UnknownIdError(error.message, remedy) from None
    spec = next((llm for llm in known.llms if record and llm.id == record.get("id")), None)
    in_models_db = FoundLlm(spec, origin="models_db") if spec is not None else None
    if in_models_db is None and online and _is_only_a_name(record):
        return _derived(find_llm(name, known, online=True), known)
    return Shown(record, listings, in_models_db)


def _is_only_a_name(record: Record | None) -> bool:
    return record is None or "missing" in record


def _derived(found: FoundLlm, catalog: Catalog) -> Shown:
    """Add what models_db says of the same id: pairings and acceptance."""
    try:
        _, listings = listing.show(catalog, found.spec.id)
    except UnknownIdError:
        listings = ()
    return Shown(found.spec.model_dump(mode="json"), listings, found)


def figures(found: FoundLlm) -> dict[str, Any]:
    """Return an LLM's main figures as JSON types, whole numbers as integers."""
    spec = found.spec
    return {
        "id": spec.id,
        "origin": found.origin,
        "family": spec.family,
        "params_total": whole(spec.params_total),
        "params_active": whole(spec.params_active),
        # all that the files hold; an engine may load less: no MTP layers, no copies, no masks
        "weight_bytes": whole(found.checkpoint_bytes or spec.weight_bytes),
        "loaded_weight_bytes": whole(spec.weight_bytes),
        "weight_bytes_active": whole(spec.weight_bytes_active),
        "kv_bytes_per_token": _whole(spec.kv_bytes_per_token),
        "state_bytes_per_request": whole(spec.state_bytes_per_request),
        "window_bytes_per_request": whole(window_bytes_per_request(spec.cache)),
        "vocab_size": spec.vocab_size,
        "max_context": spec.max_context,
        "layers": spec.layers,
        "mtp_params": _whole(spec.mtp_params),
        "quantisation": spec.quantisation,
        "dtype": spec.dtype,
        "head": _head(spec),
        "derivation": [line.as_record() for line in found.lines if line.section != "warning"],
        "warnings": [line.how for line in found.lines if line.section == "warning"],
    }


def _whole(value: float | None) -> int | float | None:
    return None if value is None else whole(value)


def _head(spec: LlmSpec) -> dict[str, Any] | None:
    return None if spec.head is None else spec.head.model_dump(mode="json")
