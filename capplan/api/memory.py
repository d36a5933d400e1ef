"""Memory: what an engine would allot on one GPU."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.errors import RequestError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.engines import load_engine
from capplan.facts.find_llm import FoundLlm, find_llm
from capplan.planning.heads import built_in_spec, head_spec
from capplan.planning.memory_use import Subject, memory_use
from capplan.planning.pairing.inputs import HEADS
from capplan.schema.cache import FP8_BYTES, kv_bytes_per_token
from capplan.schema.llm import LlmSpec
from capplan.schema.memory import KvDtype, MemoryRequest, MemoryUse
from capplan.schema.pairing import Method
from capplan.units import BYTES_PER_GIB

_HEADS = HEADS - {Method.MTP}
"""Methods that load a head; MTP layers may lie in a checkpoint that looks like an LLM."""


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
    found = find_llm(request.target, catalog)
    target = _cached_as(found, request.kv_dtype)
    draft = _draft_in_memory(request, target, catalog)
    engine = load_engine(request.engine)
    subject = Subject(target, draft, catalog.gpu(request.gpu), engine)
    follows = request.kv_dtype == "auto" and found.kv_element_bytes == FP8_BYTES
    # one dtype for the whole pool: the draft's KV follows what the target's checkpoint asks for
    use = memory_use(
        request.model_copy(update={"kv_dtype": "fp8"}) if follows else request, subject
    )
    notes = (*use.notes, *_checkpoint_notes(found, request), *_head_notes(draft, target))
    return use.model_copy(update={"notes": notes})


def _cached_as(found: FoundLlm, kv_dtype: KvDtype) -> LlmSpec:
    """Return the target with KV in the dtype asked for; ``auto`` is what its checkpoint asks."""
    if kv_dtype == "auto" or found.open_cache is None:
        return found.loaded
    per_token = kv_bytes_per_token(found.open_cache)
    return found.loaded.model_copy(
        update={"cache": found.open_cache, "kv_bytes_per_token": per_token}
    )


def _checkpoint_notes(found: FoundLlm, request: MemoryRequest) -> Iterator[str]:
    """Yield what the checkpoint's own files say beside the figures."""
    element_bytes = found.kv_element_bytes
    if request.kv_dtype == "auto" and element_bytes is not None:
        yield (
            f"The checkpoint's quantisation settings ask for KV of {8 * element_bytes:g} bits, "
            "which vLLM takes where no KV dtype is given; --kv-dtype bfloat16 keeps 16 bit."
        )
    if found.is_cast and request.weight_bytes is None:
        yield (
            "The checkpoint is in float32, which vLLM loads in 16 bit: half of the "
            f"{_gib(found.spec.weight_bytes)} GiB that its weights take. --dtype float32 would "
            "keep all of it."
        )
    measured = request.activation_bytes or request.kv_pool_bytes or request.kv_cache_memory_bytes
    if found.has_tower and measured is None:
        yield (
            "The trial run of the vision tower (or the like) is not counted: a start-up of "
            "Qwen3.8-27B on 96 GB had 3.9 GiB less, its weights included "
            "(vllm-project/recipes#831). Give --activation-gib as the engine prints it."
        )


def _head_notes(draft: LlmSpec | None, target: LlmSpec) -> Iterator[str]:
    """Yield where a head was made for a target of another width."""
    wants = draft.head.target_hidden if draft is not None and draft.head is not None else None
    if draft is not None and wants not in (None, target.hidden):
        yield (
            f"{draft.id} reads hidden states of {wants:,}, and {target.id} has {target.hidden:,}: "
            "it is another LLM's head, and no engine runs the pair (capplan pair)."
        )


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / BYTES_PER_GIB:.2f}"


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
        return _named_draft(request.draft, request.method, catalog)
    if request.method is Method.MTP and not target.mtp_layers:
        raise RequestError(
            f"{target.id} has no MTP layers in its configuration, so it cannot draft for itself.",
            "Name a draft or a head: --draft ID or DIRECTORY.",
        )
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


def _named_draft(name: str, method: Method, catalog: Catalog) -> LlmSpec:
    """Return a draft of the kind that the method loads: an LLM of its own, or a head."""
    spec = find_llm(name, catalog).loaded
    if method in _HEADS and spec.head is None:
        raise RequestError(
            f"{spec.id} is an LLM of its own, which {method.value} cannot load as its head.",
            "Leave --method out, or name a head.",
        )
    if method is Method.DRAFT_MODEL and spec.head is not None:
        raise RequestError(
            f"{spec.id} is a head ({spec.head.method.value}), no LLM that drafts alone.",
            f"Leave --method out, or give --method {spec.head.method.value}.",
        )
    return spec
