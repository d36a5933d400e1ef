"""The guide's three levels of drafts held to the law that composes them."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.advice.guide.sheet import Found, Sheet, contradicted, inconsistent, published
from capplan.estimate.multilevel import (
    acceptance_needed,
    best_pair,
    falling_rates,
    least_token_s,
)

_POSITIONS = 32
"""Longest N tried; with the guide's sizes the best are shorter."""
_SMALL_ACCEPTED = (0.5, 0.7, 0.8)
"""Acceptances a token that are asked about; the guide gives none for this chain."""
_METHOD = published("docs/method/three-tiers.md")


def levels(sheet: Sheet) -> Iterator[Found]:
    """Ask what the lengths of the two levels leave unused, and when a middle LLM pays."""
    outer, inner = sheet["multilevel-n"], sheet["multilevel-inner-n"]
    if inner > outer - 1:
        reason = (
            f"The target takes {outer:g} tokens a round and a round of the pair writes one beyond "
            f"its drafts: of the {inner:g} that the smallest LLM drafts at most {outer - 1:g} can "
            "be of use."
        )
        yield "multilevel-inner-n", inconsistent(reason, ("multilevel-n",))
    yield _size_does_not_decide(sheet)


def _size_does_not_decide(sheet: Sheet) -> Found:
    """Return the acceptance that the middle LLM needs, were costs as small as its size."""
    target = sheet["multilevel-target-size"]
    small, middle = (sheet[f"multilevel-{name}-size"] / target for name in ("draft", "medium"))
    needed = [_needed(accepted, small, middle) for accepted in _SMALL_ACCEPTED]
    told = ", ".join(
        f"{'never' if need is None else f'{need:.2f}'} ({accepted:g})"
        for need, accepted in zip(needed, _SMALL_ACCEPTED, strict=True)
    )
    reason = (
        "Size is not what decides: a middle LLM pays only if its pair writes faster than the "
        "target with the small draft already does. Were passes as cheap as its three sizes, the "
        f"middle one would have to be accepted at {told} a token, in brackets the small draft's "
        "acceptance by both; dearer passes ask for more."
    )
    return "rule-multilevel-size", contradicted(reason, _METHOD)


def _needed(accepted: float, small: float, middle: float) -> float | None:
    rates = falling_rates(accepted, _POSITIONS)
    two_levels, _ = least_token_s(rates, small, 1.0, 1.0)
    pair, _ = best_pair(rates, small, middle)
    return acceptance_needed(pair.token_s, 1.0, two_levels, _POSITIONS)
