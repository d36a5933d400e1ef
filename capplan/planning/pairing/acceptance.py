"""Published acceptance of a pair, and how to measure where there is none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from capplan.schema.pair import PublishedAcceptance
from capplan.schema.pairing import AcceptanceFact, Method


def summarise(facts: Sequence[AcceptanceFact]) -> tuple[PublishedAcceptance, ...]:
    """Return published acceptance by length, each as its range over the tasks."""
    by_length: defaultdict[int, list[AcceptanceFact]] = defaultdict(list)
    for fact in facts:
        by_length[fact.num_speculative_tokens].append(fact)
    return tuple(_range(length, by_length[length]) for length in sorted(by_length))


def _range(length: int, facts: Sequence[AcceptanceFact]) -> PublishedAcceptance:
    ordered = sorted(facts, key=lambda fact: fact.tokens_per_round)
    temperatures = {fact.temperature for fact in facts if fact.temperature is not None}
    return PublishedAcceptance(
        num_speculative_tokens=length,
        lowest=ordered[0].tokens_per_round,
        highest=ordered[-1].tokens_per_round,
        lowest_task=ordered[0].task,
        highest_task=ordered[-1].task,
        tasks=len({fact.task for fact in facts}),
        temperatures=tuple(sorted(temperatures)),
        sources=tuple(sorted({_publication(fact.source.reference) for fact in facts})),
        dates=tuple(sorted({fact.source.date for fact in facts if fact.source.date})),
    )


def _publication(reference: str) -> str:
    """Return a reference without the row of a table that ends it."""
    head, comma, row = reference.rpartition(", ")
    return head if comma and "/" in row else reference


def how_to_measure(target: str, draft: str, method: Method) -> str:
    """Return the way to an acceptance figure where none is published."""
    if method is Method.DRAFT_MODEL:
        return f"capplan profile {target} --draft {draft} -o profile.json"
    if method is Method.NGRAM:
        return f"capplan profile {target} --method ngram -o profile.json"
    return "serve the pair and read the engine's spec_decode counters on your own traffic"
