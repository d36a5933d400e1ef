"""Two vocabularies compared: by tokens where both are at hand, else by family, else by size.

Speculation verifies token ids, so a draft is of use only where an id means the same text to both.
Only the rows of the output layers (``vocab_size`` of the configurations) and the tokenizers'
own entries are ever compared; the attribute ``tokenizer.vocab_size`` leaves added tokens out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from capplan.planning.pairing.tokenizer_lines import USED_IDS, Line, line_of
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import Evidence, PairVerdict, TokenDifference, VocabularyFacts
from capplan.schema.tokenizer import TokenizerFacts

PADDING_SHARE = 0.01
"""Where only sizes are known: a larger difference than this share is not taken for padding.
Padding seen: 128 of 152,064 (Qwen2.5), 64 of 262,208 (Gemma 3), 384 of 50,688 (Pythia)."""

_EXAMPLES = 3
_SPACE_SIGNS = ("\u0120", "\u2581")
"""Leading space as byte-level BPE and as SentencePiece write it."""


@dataclass(frozen=True)
class Comparison:
    """A verdict on two vocabularies, with its numbers and its reason."""

    verdict: PairVerdict
    facts: VocabularyFacts
    reason: str


def compare_vocabularies(
    target: LlmSpec,
    draft: LlmSpec,
    target_tokenizer: TokenizerFacts | None = None,
    draft_tokenizer: TokenizerFacts | None = None,
) -> Comparison:
    """Return how a draft's vocabulary stands to the target's, from the best evidence at hand."""
    if target_tokenizer is not None and draft_tokenizer is not None:
        return _by_tokens(target, draft, target_tokenizer, draft_tokenizer)
    ours, theirs = tokenizer_name(target), tokenizer_name(draft)
    if ours and theirs:
        return _by_family(target, draft, ours, theirs)
    return _by_size(target, draft)


def tokenizer_name(llm: LlmSpec) -> str:
    """Return the tokenizer that models_db names, without the size that some names carry."""
    return re.sub(r"\s*\(\d+\)$", "", llm.tokenizer_family)


def sizes_text(facts: VocabularyFacts) -> str:
    """Return ``152,064 and 151,936 tokens, difference 128``."""
    if not facts.difference:
        return f"both {facts.target_size:,} tokens"
    return (
        f"target {facts.target_size:,}, draft {facts.draft_size:,} tokens, "
        f"difference {facts.difference:,}"
    )


def _sizes(target: LlmSpec, draft: LlmSpec, evidence: Evidence) -> VocabularyFacts:
    used = [USED_IDS.get(tokenizer_name(llm)) for llm in (target, draft)]
    known = max(filter(None, used), default=None)
    return VocabularyFacts(
        target_size=target.vocab_size,
        draft_size=draft.vocab_size,
        difference=abs(target.vocab_size - draft.vocab_size),
        evidence=evidence,
        meaningful_ids=known[0] if known else None,
        meaningful_ids_source=known[1] if known else "",
    )


def _by_family(target: LlmSpec, draft: LlmSpec, ours: str, theirs: str) -> Comparison:
    facts = _sizes(target, draft, Evidence.FAMILY)
    line = line_of(ours, theirs)
    if line is not None:
        return _by_line(facts, line, ours, theirs)
    if ours != theirs:
        return Comparison(
            PairVerdict.REFUSE,
            facts,
            f"{_unlike_sizes(facts)}; models_db names the tokenizers {ours} and {theirs}",
        )
    if facts.difference:
        return Comparison(
            PairVerdict.PADDED,
            facts,
            f"models_db names one tokenizer for both, {ours}; tokens not compared",
        )
    return Comparison(
        PairVerdict.IDENTICAL,
        facts,
        f"sizes agree and models_db names one tokenizer for both, {ours}; tokens not compared",
    )


def _by_line(facts: VocabularyFacts, line: Line, ours: str, theirs: str) -> Comparison:
    """Compare by what is known of two tokenizers that share their trained tokens."""
    differing = line.differences(ours)
    facts = facts.model_copy(
        update={
            "examples": differing,
            "ids_that_differ": sum(e.target is not None and e.draft is not None for e in differing),
            "only_in_target": sum(e.draft is None for e in differing),
            "only_in_draft": sum(e.target is None for e in differing),
        }
    )
    known = "the other tokens were not compared" if line.rest_unread else "all others agree"
    reason = (
        f"{ours} and {theirs} tokenizers: {len(differing)} special tokens differ "
        f"({_shown(facts)}), {known} [{line.source}]"
    )
    verdict = PairVerdict.PADDED if facts.difference else PairVerdict.SPECIAL_TOKENS_DIFFER
    return Comparison(verdict, facts, reason)


def _by_size(target: LlmSpec, draft: LlmSpec) -> Comparison:
    facts = _sizes(target, draft, Evidence.SIZES)
    if not facts.difference:
        unlike = (
            ""
            if same_line(target, draft)
            else f"; families {target.family} and {draft.family}: nothing shows one tokenizer"
        )
        return Comparison(
            PairVerdict.IDENTICAL, facts, f"only sizes agree, tokens not compared{unlike}"
        )
    close = facts.difference <= PADDING_SHARE * max(facts.target_size, facts.draft_size)
    if close and same_line(target, draft):
        return Comparison(
            PairVerdict.PADDED,
            facts,
            f"one family ({draft.family}) and sizes within {PADDING_SHARE:.0%}; "
            "tokens not compared",
        )
    unproven = "; nothing shows that the tokenizer is the same" if close else ""
    return Comparison(PairVerdict.REFUSE, facts, f"{_unlike_sizes(facts)}{unproven}")


def same_line(target: LlmSpec, draft: LlmSpec) -> bool:
    """Whether the family names differ only in version, shape or modality (qwen2, qwen2_moe)."""
    ours, theirs = (_line(llm.family) for llm in (target, draft))
    return bool(ours) and ours == theirs


def _line(family: str) -> str:
    return re.sub(r"v(?=\d)|[^a-z]|moe|text|vl", "", family.lower())


def _by_tokens(
    target: LlmSpec, draft: LlmSpec, ours: TokenizerFacts, theirs: TokenizerFacts
) -> Comparison:
    shared = ours.tokens.keys() & theirs.tokens.keys()
    differing = sorted(i for i in shared if ours.tokens[i] != theirs.tokens[i])
    missing, extra = _one_sided(ours, theirs), _one_sided(theirs, ours)
    examples = (*differing, *sorted(missing), *sorted(extra))[:_EXAMPLES]
    top = max(ours.top_id, theirs.top_id) + 1
    facts = VocabularyFacts(
        target_size=target.vocab_size,
        draft_size=draft.vocab_size,
        difference=abs(target.vocab_size - draft.vocab_size),
        evidence=Evidence.TOKENS,
        target_tokens=ours.size,
        draft_tokens=theirs.size,
        meaningful_ids=top,
        meaningful_ids_source="the tokenizers' largest id",
        ids_that_differ=len(differing),
        share_equal=1 - len(differing) / len(shared) if shared else 0.0,
        only_in_target=len(missing),
        only_in_draft=len(extra),
        examples=tuple(
            TokenDifference(id=i, target=ours.tokens.get(i), draft=theirs.tokens.get(i))
            for i in examples
        ),
        shared_texts=len(_texts(ours, target.vocab_size) & _texts(theirs, draft.vocab_size)),
    )
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
            f"token{'s' if special > 1 else ''} ({_shown(facts)})"
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
        f"{_unlike_sizes(facts)}: {facts.ids_that_differ or 0:,} of {both:,} ids stand for "
        f"other text ({facts.share_equal or 0:.1%} equal){lacking}, first {_shown(facts)}"
    )


def _unlike_sizes(facts: VocabularyFacts) -> str:
    if not facts.difference:
        return f"the same size, different tokens ({sizes_text(facts)})"
    return f"unrelated vocabularies ({sizes_text(facts)})"


def _shown(facts: VocabularyFacts) -> str:
    def text(value: str | None) -> str:
        return "nothing" if value is None else repr(value)

    return "; ".join(f"{e.id}: {text(e.target)} / {text(e.draft)}" for e in facts.examples)
