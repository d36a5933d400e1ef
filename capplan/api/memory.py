"""Memory: what an engine would allot on one GPU."""

from __future__ import annotations

from capplan.errors import RequestError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.engines import load_engine
from capplan.facts.find_llm import find_llm
from capplan.planning.heads import built_in_spec, head_spec
from capplan.planning.memory_use import Subject, memory_use
from capplan.schema.llm import LlmSpec
from capplan.schema.memory import MemoryRequest, MemoryUse
from capplan.schema.pairing import Method


def plan_memory(request: MemoryRequest, catalog: Catalog | None = None) -> MemoryUse:
    """Return how an engine would allot one GPU: what fits, and by how much it does not.

    Parameters
    ----------
    request
        Target and draft by id, path or directory; GPU by id.
    catalog
        Facts; the shipped ones by default.

    Raises
    ------
    UnknownIdError
        If target, draft or GPU are not known.
    RequestError
        If heads cannot be split, or a length or a layout is not known.
    """
    catalog = catalog if catalog is not None else load_catalog()
    target = find_llm(request.target, catalog).spec
    draft = _draft_in_memory(request, target, catalog)
    engine = load_engine(request.engine)
    return memory_use(request, Subject(target, draft, catalog.gpu(request.gpu), engine))


def _draft_in_memory(request: MemoryRequest, target: LlmSpec, catalog: Catalog) -> LlmSpec | None:
    """Return what is loaded to draft: a draft LLM, a head, MTP layers, or nothing (lookup)."""
    loads_nothing = request.method in (Method.NGRAM, Method.SUFFIX)
    if loads_nothing or (request.draft is None and request.method is Method.NONE):
        return None
    for pairing in catalog.pairings_for(target.id):
        named = request.draft in (None, pairing.draft)
        # a draft that is an LLM of its own has its own layers, all of them
        is_head = pairing.method is not Method.DRAFT_MODEL
        if named and is_head and request.method in (Method.NONE, pairing.method):
            head = head_spec(target, pairing)
            if head is not None:
                return head
    if request.draft is not None:
        return find_llm(request.draft, catalog).spec
    built_in = built_in_spec(target) if request.method is Method.MTP else None
    if built_in is None:
        remedy = (
            "Give the target's directory: its MTP layers are counted from config.json."
            if request.method is Method.MTP
            else "Name the draft: --draft ID or DIRECTORY."
        )
        what = f"What {request.method.value} would load for {target.id} is not known."
        raise RequestError(what, remedy)
    return built_in
