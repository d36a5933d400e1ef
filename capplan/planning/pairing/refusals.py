"""Pairs that cannot be, whatever their vocabularies."""

from __future__ import annotations

from capplan.planning.pairing.inputs import BUILT_IN, HEADS, LOOKUPS, Known, Side, same_weights
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import Method


def refusal(target: Side, draft: Side, spec: LlmSpec, method: Method, known: Known) -> str:
    """Return why the pair cannot be, whatever the vocabularies; empty if nothing stands in it."""
    if spec.head is not None:
        return (
            f"{target.id} is a drafting head ({spec.head.method.value}), not an LLM that can be "
            "served: give the LLM that it was trained for as the target"
        )
    if known.pairing is not None and not known.pairing.exists:
        return f"{draft.id} was never published: a guide names it and nobody has it"
    if method in LOOKUPS:
        return ""
    if draft.id == BUILT_IN:
        return _no_mtp(target, spec, known)
    if draft.id == target.id:
        return "the draft is the target itself, so a draft pass costs as much as what it saves"
    wrong_kind = _wrong_kind(draft, method, known)
    if wrong_kind:
        return wrong_kind
    if method in HEADS:
        return _wrong_target(target, draft, spec, known)
    return _too_large(draft, spec)


def _no_mtp(target: Side, spec: LlmSpec, known: Known) -> str:
    if spec.mtp_layers or known.pairing is not None:
        return ""
    return f"{target.id} has no MTP layers in its configuration, so it cannot draft for itself"


def _wrong_kind(draft: Side, method: Method, known: Known) -> str:
    """Return why the draft is not what the method needs: a head, or an LLM of its own."""
    if draft.spec is None:
        rows = (known.pairing,) if known.pairing is not None else known.elsewhere
        listed = rows[0].method if rows else method
        return (
            ""
            if listed is method
            else f"{draft.id} is made for method {listed.value}, not {method.value}"
        )
    head = draft.spec.head
    if head is None:
        listed_head = known.pairing is not None and known.pairing.method is method
        if method in HEADS and not listed_head:
            return f"{draft.id} is an LLM of its own, not a head for method {method.value}"
        return ""
    if method is Method.DRAFT_MODEL:
        return (
            f"{draft.id} is a head ({head.method.value}) that needs the target's hidden states; "
            "it cannot run as a draft model"
        )
    if method is not head.method and {method, head.method} != {Method.EAGLE3, Method.PEAGLE}:
        return f"{draft.id} is made for method {head.method.value}, not {method.value}"
    return ""


def _listed_targets(known: Known) -> tuple[str, ...]:
    """Return the targets of models_db's rows, unless one of them is this very pair."""
    return () if known.pairing is not None else tuple(row.target for row in known.elsewhere)


def _wrong_target(target: Side, draft: Side, spec: LlmSpec, known: Known) -> str:
    head = draft.spec.head if draft.spec is not None else None
    if head is not None and head.target_hidden not in (None, spec.hidden):
        return (
            f"{draft.id} was trained for hidden states of {head.target_hidden}, the target's have "
            f"{spec.hidden}: it is a head for another LLM"
        )
    named = tuple(filter(None, (head.target_id if head is not None else "",)))
    others = named or (_listed_targets(known))
    related = any(same_weights(target.id, name) for name in others) or known.trained_on
    if target.local or not others or related:
        return ""
    return (
        f"{draft.id} was trained for {', '.join(others)}, not for {target.id}: on the hidden "
        "states of another LLM it guesses at random"
    )


def _too_large(draft: Side, spec: LlmSpec) -> str:
    # of equal size the vocabularies still are the question: findings say that it is no cheaper
    if draft.spec is None or draft.spec.params_total <= spec.params_total:
        return ""
    return (
        f"the draft has {draft.spec.params_total / 1e9:.2f} billion parameters, the target "
        f"{spec.params_total / 1e9:.2f}: a draft must be the smaller of the two "
        "(are they swapped?)"
    )
