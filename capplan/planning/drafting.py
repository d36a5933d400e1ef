"""Every way to draft for a target that facts and profiles know, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capplan.estimate.acceptance_mix import curve_of_mix
from capplan.estimate.curves import AcceptanceCurve, curve_from_alpha, curve_from_facts
from capplan.planning.heads import head_spec, shared_output_bytes
from capplan.planning.pairing.comparison import sizes_text
from capplan.planning.pairing.engine_rules import ENGINES, Asked
from capplan.planning.pairing.inputs import LOOKUPS, Known, Side
from capplan.planning.pairing.refusals import refusal
from capplan.planning.pairing.vocabulary import compare_vocabularies
from capplan.planning.pairing.vocabulary_findings import vocabularies
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import PairVerdict
from capplan.schema.pairing import AcceptanceFact, Method, Pairing
from capplan.schema.plan import PlanRequest
from capplan.schema.provenance import Kind, Source

if TYPE_CHECKING:
    from capplan.estimate.evidence import ProfileEvidence

ONE_PASS_METHODS = frozenset({Method.DFLASH, Method.DSPARK, Method.PEAGLE, Method.MEDUSA})
"""Methods that draft all N tokens in one pass."""


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


def draftings_for(
    target: LlmSpec,
    request: PlanRequest,
    pairings: Sequence[Pairing],
    acceptance: Sequence[AcceptanceFact],
    llms: Mapping[str, LlmSpec],
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
    found.extend(
        _lookup_unprofiled(target, method, request, acceptance)
        for method in _lookups(request)
        if not any(drafting.method is method for drafting in found)
    )
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
    assume = f"--method {method.value} " if method in LOOKUPS else ""
    return Blocked(
        "acceptance_unknown",
        f"{target} + {draft} ({method.value}): no acceptance is measured or published",
        f"Measure it ({how}), or state one with {assume}--assume-acceptance.",
    )


def _lookups(request: PlanRequest) -> list[Method]:
    """Return the lookups to list: n-grams always, others where they were asked for."""
    return [m for m in sorted(LOOKUPS) if m is Method.NGRAM or _asks_for(request, m)]


def _asks_for(request: PlanRequest, lookup: Method) -> bool:
    return lookup in request.methods or lookup.value in request.drafts


def _lookup_unprofiled(
    target: LlmSpec, lookup: Method, request: PlanRequest, acceptance: Sequence[AcceptanceFact]
) -> Drafting:
    """Lookup needs no draft, so it is always open; what it yields depends on the text.

    An assumed acceptance is meant for drafts: lookup takes it only where it was asked for, or
    its free drafts would win every plan on somebody else's figure.
    """
    curve = _published([fact for fact in acceptance if fact.method is lookup], request)
    if curve is None and _asks_for(request, lookup):
        curve = _assumed(request)
    blocked = None if curve else _unknown_acceptance(target.id, lookup.value, lookup)
    return Drafting(lookup, lookup.value, None, curve, blocked)


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
    facts = [f for f in acceptance if f.draft == item.draft_id and f.method is item.method]
    traced = curve_of_mix(
        request.workload,
        lambda part: item.curve(part.temperature, part.task, thinking=part.thinking),
    )
    curve = traced or _curve(facts, request)
    target = item.target.id
    blocked = None if curve else _unknown_acceptance(target, item.draft_id, item.method)
    return Drafting(item.method, item.draft_id, item.draft, curve, blocked)


def _from_pairing(
    target: LlmSpec,
    pairing: Pairing,
    request: PlanRequest,
    acceptance: Sequence[AcceptanceFact],
    llms: Mapping[str, LlmSpec],
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
    return _published(facts, request) or _assumed(request)


def _published(facts: Sequence[AcceptanceFact], request: PlanRequest) -> AcceptanceCurve | None:
    """Return the acceptance of the workload's mix; published figures know no thinking."""
    return curve_of_mix(
        request.workload, lambda part: curve_from_facts(facts, part.temperature, part.task)
    )


def _from_named(target: LlmSpec, draft: LlmSpec, request: PlanRequest) -> Drafting:
    if draft.head is None:
        return _model_drafting(target, draft, request, ())
    return _head_drafting(target, draft, draft.head.method, request)


def _head_drafting(
    target: LlmSpec, draft: LlmSpec, method: Method, request: PlanRequest
) -> Drafting:
    """Plan a head by the method that its configuration states."""
    read_bytes = draft.weight_bytes_active + shared_output_bytes(target, method)
    llm = draft.model_copy(update={"weight_bytes_active": read_bytes})
    ours, theirs = Side(target.id, target), Side(draft.id, draft)
    reason = refusal(ours, theirs, target, method, Known())
    if not reason:
        compared = vocabularies(ours, theirs, target, method, Known())
        reason = compared.reason if compared.verdict is PairVerdict.REFUSE else ""
    curve = _curve((), request)
    blocked: Blocked | None = None
    if reason:
        blocked = Blocked(
            "head_mismatch",
            f"{target.id} + {draft.id} ({method.value}): {reason}",
            f"capplan pair {target.id} lists what could draft for it.",
        )
    elif curve is None:
        blocked = _unknown_acceptance(target.id, draft.id, method)
    return Drafting(method, draft.id, llm, curve, blocked)


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
    lists = f"capplan pair {target.id} lists what the engine runs."
    if compared.verdict is PairVerdict.REFUSE:
        return Blocked("vocabulary", f"{target.id} + {draft.id}: {compared.reason}", lists)
    engine = ENGINES.get(request.engine)
    if engine is None:
        return None
    answer = engine.answer(Asked(Method.DRAFT_MODEL, compared.facts))
    if answer.accepts is not False:
        return None
    if not compared.facts.difference:
        text = f"{target.id} + {draft.id}: {answer.engine}: {answer.text} {compared.reason}"
        return Blocked("vocabulary", text, lists)
    return Blocked(
        "vocabulary_padded",
        f"{target.id} + {draft.id}: compatible tokenizer, padded embedding "
        f"({sizes_text(compared.facts)}), refused by {answer.engine}",
        f"{lists} vLLM's use_heterogeneous_vocab would run the pair; what that costs was not "
        "measured, so it is not planned.",
    )
