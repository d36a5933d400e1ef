"""Two vocabularies compared id by id, where both tokenizers are at hand."""

from __future__ import annotations

from capplan.planning.pairing.comparison import (
    Comparison,
    shown,
    unlike_sizes,
    with_differences,
)
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import Evidence, PairVerdict, VocabularyFacts
from capplan.schema.tokenizer import TokenizerFacts

_SPACE_SIGNS = ("\u0120", "\u2581")
"""Leading space as byte-level BPE and as SentencePiece write it."""


def by_tokens(
    target: LlmSpec, draft: LlmSpec, ours: TokenizerFacts, theirs: TokenizerFacts
) -> Comparison:
    """Return a verdict on tokens: ordinary ones must agree, special ones may differ."""
    shared = ours.tokens.keys() & theirs.tokens.keys()
    differing = sorted(i for i in shared if ours.tokens[i] != theirs.tokens[i])
    missing, extra = _one_sided(ours, theirs), _one_sided(theirs, ours)
    facts = VocabularyFacts(
        target_size=target.vocab_size,
        draft_size=draft.vocab_size,
        difference=abs(target.vocab_size - draft.vocab_size),
        evidence=Evidence.TOKENS,
        target_tokens=ours.size,
        draft_tokens=theirs.size,
        meaningful_ids=max(ours.top_id, theirs.top_id) + 1,
        meaningful_ids_source="the tokenizers' largest id",
        share_equal=1 - len(differing) / len(shared) if shared else 0.0,
        shared_texts=len(_texts(ours, target.vocab_size) & _texts(theirs, draft.vocab_size)),
    )
    unequal = sorted({*differing, *missing, *extra})
    facts = with_differences(facts, unequal, ours.tokens, theirs.tokens)
    ordinary = [i for i in differing if i not in ours.added or i not in theirs.added]
    untrained = (missing - ours.added) | (extra - theirs.added)
    if ordinary or untrained:
        return Comparison(PairVerdict.REFUSE, facts, _unlike(facts))
    return _alike(facts)


def _texts(tokenizer: TokenizerFacts, rows: int) -> set[str]:
    """Return what vLLM's vocabulary mapping matches by: texts, with one sign for a space."""
    return {
        " " + text[1:] if text[:1] in _SPACE_SIGNS else text
        for number, text in tokenizer.tokens.items()
        if number < rows
    }


def _one_sided(ours: TokenizerFacts, theirs: TokenizerFacts) -> set[int]:
    """Return ids of ours that theirs lacks; a file without its added tokens proves nothing."""
    missing = ours.tokens.keys() - theirs.tokens.keys()
    return missing if theirs.added_known else missing - ours.added


def _alike(facts: VocabularyFacts) -> Comparison:
    special = (
        (facts.ids_that_differ or 0) + (facts.only_in_target or 0) + (facts.only_in_draft or 0)
    )
    count = min(facts.target_tokens or 0, facts.draft_tokens or 0)
    agree = f"both tokenizers were read: {count:,} tokens at the same ids"
    if special:
        agree = (
            f"both tokenizers were read: every ordinary token agrees, {special:,} special "
            f"token{'s' if special > 1 else ''} ({shown(facts)})"
            f"{' do' if special > 1 else ' does'} not"
        )
    if facts.difference:
        return Comparison(PairVerdict.PADDED, facts, agree)
    verdict = PairVerdict.SPECIAL_TOKENS_DIFFER if special else PairVerdict.IDENTICAL
    return Comparison(verdict, facts, agree)


def _unlike(facts: VocabularyFacts) -> str:
    """Return the trap in numbers: how many ids differ, and the first of them."""
    both = min(facts.target_tokens or 0, facts.draft_tokens or 0)
    lacking = ""
    if facts.only_in_target or facts.only_in_draft:
        lacking = (
            f", {facts.only_in_target or 0:,} ids only in the target and "
            f"{facts.only_in_draft or 0:,} only in the draft"
        )
    return (
        f"{unlike_sizes(facts)}: {facts.ids_that_differ or 0:,} of {both:,} ids stand for "
        f"other text ({facts.share_equal or 0:.1%} equal){lacking}, first {shown(facts)}"
    )
