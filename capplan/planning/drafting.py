"""Every way to draft for a target that facts and profiles know, and what stands in the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.estimate.curves import AcceptanceCurve, curve_from_alpha, curve_from_facts
from capplan.estimate.evidence import ProfileEvidence
from capplan.planning.pairing.engine_rules import ENGINES, Asked
from capplan.planning.pairing.vocabulary import compare_vocabularies, sizes_text
from capplan.schema.cache import CacheLayers, kv_bytes_per_token
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import PairVerdict
from capplan.schema.pairing import AcceptanceFact, Method, Pairing
from capplan.schema.plan import PlanRequest
from capplan.schema.provenance import Kind, Source

ONE_PASS_METHODS = frozenset({Method.DFLASH, Method.DSPARK, Method.PEAGLE, Method.MEDUSA})
"""Methods that draft all N tokens in one pass."""

_SHARES_OUTPUT_LAYER = frozenset({Method.EAGLE, Method.MTP})
"""Heads that read the target's own output layer in every pass: bytes read, not bytes held."""

_BYTES_PER_HEAD_PARAM = 2.0


@dataclass(frozen=True)
class Blocked:
    """Why a way to draft cannot be planned."""

    reason: str
    text: str
    remedy: str


@dataclass(frozen=True)
class Drafting:
    """One way to draft for one target."""

    method: Method
    draft_id: str | None
    llm: LlmSpec | None
    """Architecture of the draft or head; None for lookup and for no drafts."""
    acceptance: AcceptanceCurve | None
    blocked: Blocked | None = None

    @property
    def passes_scale_with_n(self) -> bool:
        """Whether N tokens take N draft passes."""
        return self.llm is not None and self.method not in ONE_PASS_METHODS


NO_DRAFTING = Drafting(Method.NONE, None, None, None)


def head_spec(target: LlmSpec, pairing: Pairing) -> LlmSpec | None:
    """Return a one-layer head (EAGLE, DFlash ...) as a spec; None if its size is unknown.

    Its KV is one layer of the target's shape; its bytes are its parameters in bf16.
    """
    if pairing.draft_params is None:
        return None
    cache = _one_layer(target)
    kv = kv_bytes_per_token(cache) if cache else None
    if not cache and target.kv_bytes_per_token is not None:
        kv = target.kv_bytes_per_token / target.layers
    weight_bytes = pairing.draft_params * _BYTES_PER_HEAD_PARAM
    read_bytes = weight_bytes
    if pairing.method in _SHARES_OUTPUT_LAYER:
        read_bytes += target.vocab_size * target.hidden * _BYTES_PER_HEAD_PARAM
    return LlmSpec(
        id=pairing.draft,
        family=target.family,
        params_total=pairing.draft_params,
        params_active=pairing.draft_params,
        weight_bytes=weight_bytes,
        weight_bytes_active=read_bytes,
        layers=1,
        hidden=target.hidden,
        vocab_size=target.vocab_size,
        kv_bytes_per_token=kv,
        kv_heads=target.kv_heads,
        cache=cache,
        dtype="bfloat16",
        licence=pairing.licence,
        source=Source(
            kind=Kind.DERIVED,
            reference=f"head parameters from {pairing.source.reference}; one layer, bf16",
            date=pairing.source.date,
        ),
    )


def built_in_spec(target: LlmSpec) -> LlmSpec | None:
    """Return the MTP layers that a checkpoint carries as a draft; None if it has none known."""
    if not target.mtp_layers or target.mtp_params is None:
        return None
    one = _one_layer(target)
    cache = tuple(group.model_copy(update={"layers": target.mtp_layers}) for group in one)
    size = target.mtp_params * target.weight_bytes / target.params_total
    return LlmSpec(
        id=f"{target.id} (MTP layers)",
        family=target.family,
        params_total=target.mtp_params,
        params_active=target.mtp_params,
        weight_bytes=size,
        weight_bytes_active=size,
        layers=target.mtp_layers,
        hidden=target.hidden,
        vocab_size=target.vocab_size,
        kv_bytes_per_token=kv_bytes_per_token(cache) if cache else None,
        kv_heads=target.kv_heads,
        heads=target.heads,
        cache=cache,
        dtype=target.dtype,
        source=target.source,
    )


def _one_layer(target: LlmSpec) -> tuple[CacheLayers, ...]:
    """Return a layer that keeps every token in the shape of the target's own; none if unknown."""
    kept = next((group for group in target.cache if group.grows), None)
    return () if kept is None else (kept.model_copy(update={"layers": 1}),)


def draftings_for(
    target: LlmSpec,
    request: PlanRequest,
    pairings: Sequence[Pairing],
    acceptance: Sequence[AcceptanceFact],
    llms: dict[str, LlmSpec],
    evidence: Sequence[ProfileEvidence],
) -> list[Drafting]:
    """List every way to draft, blocked ones with their reason; plain decoding comes first."""
    found = [NO_DRAFTING, *_from_profiles(_speculative(evidence), request, acceptance)]
    known = {(d.method, d.draft_id) for d in found}
    for pairing in pairings:
        if (pairing.method, pairing.draft) not in known:
            found.append(_from_pairing(target, pairing, request, acceptance, llms))
            known.add((pairing.method, pairing.draft))
    named = {draft for _, draft in known}
    found.extend(
        _from_named(target, llms[draft], request)
        for draft in request.drafts
        if draft in llms and draft not in named
    )
    if not any(drafting.method is Method.NGRAM for drafting in found):
        found.append(_lookup_unmeasured(target, request))
    return [drafting for drafting in found if _wanted(drafting, request)]


def _speculative(evidence: Sequence[ProfileEvidence]) -> list[ProfileEvidence]:
    return [item for item in evidence if item.method is not Method.NONE]


def _wanted(drafting: Drafting, request: PlanRequest) -> bool:
    if drafting.method is Method.NONE:
        return True
    if request.methods and drafting.method not in request.methods:
        return False
    return not request.drafts or drafting.draft_id in request.drafts


def _assumed(request: PlanRequest) -> AcceptanceCurve | None:
    if request.assumed_acceptance is None:
        return None
    source = Source(kind=Kind.ASSUMED, reference="stated with the request (--assume-acceptance)")
    return curve_from_alpha(request.assumed_acceptance, source)


def _unknown_acceptance(target: str, draft: str, method: Method) -> Blocked:
    flags = {Method.DRAFT_MODEL: f"--draft {draft}", Method.NGRAM: "--method ngram"}
    if method in flags:
        how = f"capplan profile {target} {flags[method]} -o p.json, then --profile p.json"
    else:
        how = "read the engine's own counters on your traffic"
    assume = "--method ngram " if method is Method.NGRAM else ""
    return Blocked(
        "acceptance_unknown",
        f"{target} + {draft} ({method.value}): no acceptance is measured or published",
        f"Measure it ({how}), or state one with {assume}--assume-acceptance.",
    )


def _lookup_unmeasured(target: LlmSpec, request: PlanRequest) -> Drafting:
    """Prompt lookup needs no draft, so it is always open; what it yields depends on the text.

    An assumed acceptance is meant for drafts: lookup takes it only where it was asked for, or
    its free drafts would win every plan on somebody else's figure.
    """
    asked_for = Method.NGRAM in request.methods or "ngram" in request.drafts
    curve = _assumed(request) if asked_for else None
    blocked = None if curve else _unknown_acceptance(target.id, "ngram", Method.NGRAM)
    return Drafting(Method.NGRAM, "ngram", None, curve, blocked)


def _from_profiles(
    evidence: Sequence[ProfileEvidence],
    request: PlanRequest,
    acceptance: Sequence[AcceptanceFact],
) -> list[Drafting]:
    """Return one entry a way to draft; of several profiles of it, the first with acceptance."""
    found: dict[tuple[Method, str | None], Drafting] = {}
    for item in evidence:
        drafting = _from_profile(item, request, acceptance)
        key = (drafting.method, drafting.draft_id)
        if key not in found or found[key].blocked is not None:
            found[key] = drafting
    return list(found.values())


def _from_profile(
    item: ProfileEvidence, request: PlanRequest, acceptance: Sequence[AcceptanceFact]
) -> Drafting:
    """Take acceptance from the trace; where none was taken (dummy weights), what is published."""
    workload = request.workload
    facts = [f for f in acceptance if f.draft == item.draft_id and f.method is item.method]
    curve = item.curve(workload.temperature, workload.task) or _curve(facts, request)
    target = item.target.id
    blocked = None if curve else _unknown_acceptance(target, item.draft_id, item.method)
    return Drafting(item.method, item.draft_id, item.draft, curve, blocked)


def _from_pairing(
    target: LlmSpec,
    pairing: Pairing,
    request: PlanRequest,
    acceptance: Sequence[AcceptanceFact],
    llms: dict[str, LlmSpec],
) -> Drafting:
    method, draft = pairing.method, pairing.draft
    if method is Method.DRAFT_MODEL and draft in llms:
        return _model_drafting(target, llms[draft], request, acceptance)
    llm = head_spec(target, pairing)
    facts = [f for f in acceptance if f.draft == draft and f.method is method]
    curve = _curve(facts, request)
    blocked: Blocked | None = None
    if not pairing.exists:
        blocked = Blocked(
            "draft_unknown", f"{draft} was never published", "Choose a draft that exists."
        )
    elif curve is None:
        blocked = _unknown_acceptance(target.id, draft, method)
    elif llm is None:
        blocked = Blocked(
            "draft_unknown",
            f"{target.id} + {draft} ({method.value}): the head's size is not published",
            "Add its parameters to models_db/pairings, or profile it on the engine.",
        )
    return Drafting(method, draft, llm, curve, blocked)


def _curve(facts: Sequence[AcceptanceFact], request: PlanRequest) -> AcceptanceCurve | None:
    workload = request.workload
    return curve_from_facts(facts, workload.temperature, workload.task) or _assumed(request)


def _from_named(target: LlmSpec, draft: LlmSpec, request: PlanRequest) -> Drafting:
    return _model_drafting(target, draft, request, ())


def _model_drafting(
    target: LlmSpec,
    draft: LlmSpec,
    request: PlanRequest,
    acceptance: Sequence[AcceptanceFact],
) -> Drafting:
    facts = [f for f in acceptance if f.draft == draft.id and f.method is Method.DRAFT_MODEL]
    curve = _curve(facts, request)
    blocked = _vocabulary_blocked(target, draft, request)
    if blocked is None and curve is None:
        blocked = _unknown_acceptance(target.id, draft.id, Method.DRAFT_MODEL)
    return Drafting(Method.DRAFT_MODEL, draft.id, draft, curve, blocked)


def _vocabulary_blocked(target: LlmSpec, draft: LlmSpec, request: PlanRequest) -> Blocked | None:
    """Return what stands between two vocabularies, as ``capplan pair`` judges them."""
    compared = compare_vocabularies(target, draft)
    if compared.verdict is PairVerdict.REFUSE:
        return Blocked(
            "vocabulary",
            f"{target.id} + {draft.id}: {compared.reason}",
            "Choose a draft of the target's own family; capplan pair TARGET lists them.",
        )
    engine = ENGINES.get(request.engine)
    if engine is None:
        return None
    answer = engine.answer(Asked(Method.DRAFT_MODEL, compared.facts))
    if answer.accepts is not False:
        return None
    return Blocked(
        "vocabulary_padded",
        f"{target.id} + {draft.id}: the same tokenizer, but the engine wants equal vocab_size "
        f"and the embeddings are padded unequally ({sizes_text(compared.facts)})",
        "Choose a draft of the target's vocab_size. vLLM's use_heterogeneous_vocab would run the "
        "pair; what it costs was not measured, so it is not planned (capplan pair says more).",
    )
