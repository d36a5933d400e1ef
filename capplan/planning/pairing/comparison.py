"""A comparison of two vocabularies: verdict, numbers, reason, and how they are worded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capplan.schema.pair import PairVerdict, TokenDifference, VocabularyFacts

_EXAMPLES = 4


@dataclass(frozen=True)
class Comparison:
    """A verdict on two vocabularies, with its numbers and its reason."""

    verdict: PairVerdict
    facts: VocabularyFacts
    reason: str


def sizes_text(facts: VocabularyFacts) -> str:
    """Return ``152,064 and 151,936 tokens, difference 128``."""
    if not facts.difference:
        return f"both {facts.target_size:,} tokens"
    return (
        f"target {facts.target_size:,}, draft {facts.draft_size:,} tokens, "
        f"difference {facts.difference:,}"
    )


def with_differences(
    facts: VocabularyFacts,
    unequal: Sequence[int],
    ours: Mapping[int, str],
    theirs: Mapping[int, str],
) -> VocabularyFacts:
    """Add the ids that are not the same text to both, smallest first."""
    rows = min(facts.target_size, facts.draft_size)
    return facts.model_copy(
        update={
            "examples": tuple(
                TokenDifference(id=i, target=ours.get(i), draft=theirs.get(i))
                for i in unequal[:_EXAMPLES]
            ),
            "ids_that_differ": sum(i in ours and i in theirs for i in unequal),
            "only_in_target": sum(i not in theirs for i in unequal),
            "only_in_draft": sum(i not in ours for i in unequal),
            "last_unequal_id": max((i for i in unequal if i < rows), default=None),
        }
    )


def unlike_sizes(facts: VocabularyFacts) -> str:
    """Return how vocabularies that must not be paired stand to each other, with both sizes."""
    if not facts.difference:
        return f"the same size, different tokens ({sizes_text(facts)})"
    return f"unrelated vocabularies ({sizes_text(facts)})"


def shown(facts: VocabularyFacts) -> str:
    """Return the examples: id, the target's text, the draft's."""

    def text(value: str | None) -> str:
        return "nothing" if value is None else repr(value)

    return "; ".join(f"{e.id}: {text(e.target)} / {text(e.draft)}" for e in facts.examples)
