"""Two vocabularies compared: by tokens where both are at hand, else by family, else by size.

Speculation verifies token ids, so a draft is of use only where an id means the same text to both.
Only the rows of the output layers (``vocab_size`` of the configurations) and the tokenizers'
own entries are ever compared; the attribute ``tokenizer.vocab_size`` leaves added tokens out.
"""

from __future__ import annotations

import re

from capplan.planning.pairing.comparison import (
    Comparison,
    shown,
    unlike_sizes,
    with_differences,
)
from capplan.planning.pairing.token_comparison import by_tokens
from capplan.planning.pairing.tokenizer_lines import USED_IDS, Line, line_of
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import Evidence, PairVerdict, VocabularyFacts
from capplan.schema.tokenizer import TokenizerFacts

PADDING_SHARE = 0.01
"""Where only sizes are known: a larger difference than this share is not taken for padding.
Padding seen: 128 of 152,064 (Qwen2.5), 64 of 262,208 (Gemma 3), 384 of 50,688 (Pythia)."""


def compare_vocabularies(
    target: LlmSpec,
    draft: LlmSpec,
    target_tokenizer: TokenizerFacts | None = None,
    draft_tokenizer: TokenizerFacts | None = None,
) -> Comparison:
    """Return how a draft's vocabulary stands to the target's, from the best evidence at hand."""
    if target_tokenizer is None or draft_tokenizer is None:
        return _without_tokens(target, draft)
    if target_tokenizer.trained_known and draft_tokenizer.trained_known:
        return by_tokens(target, draft, target_tokenizer, draft_tokenizer)
    return _with_specials(_without_tokens(target, draft), target_tokenizer, draft_tokenizer)


def _without_tokens(target: LlmSpec, draft: LlmSpec) -> Comparison:
    ours, theirs = tokenizer_name(target), tokenizer_name(draft)
    if ours and theirs:
        return _by_family(target, draft, ours, theirs)
    return _by_size(target, draft)


def _with_specials(found: Comparison, ours: TokenizerFacts, theirs: TokenizerFacts) -> Comparison:
    """Add what special tokens tell, where a folder ships nothing of its tokenizer beside them."""
    ids = sorted(ours.added | theirs.added)
    unequal = [i for i in ids if ours.tokens.get(i) != theirs.tokens.get(i)]
    if found.verdict is PairVerdict.REFUSE or not unequal:
        agree = "" if unequal else f"; {len(ids):,} special tokens agree"
        return Comparison(found.verdict, found.facts, f"{found.reason}{agree}")
    facts = with_differences(found.facts, unequal, ours.tokens, theirs.tokens)
    verdict = PairVerdict.PADDED if facts.difference else PairVerdict.SPECIAL_TOKENS_DIFFER
    return Comparison(
        verdict, facts, f"{found.reason}; {len(unequal):,} special tokens differ ({shown(facts)})"
    )


def tokenizer_name(llm: LlmSpec) -> str:
    """Return the tokenizer that models_db names, without the size that some names carry."""
    return re.sub(r"\s*\(\d+\)$", "", llm.tokenizer_family)


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
            f"{unlike_sizes(facts)}; models_db names the tokenizers {ours} and {theirs}",
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
    old, new = (line.before, line.named) if ours == line.older else (line.named, line.before)
    facts = with_differences(facts, sorted(line.named), old, new)
    known = "the other tokens were not compared" if line.rest_unread else "all others agree"
    reason = (
        f"{ours} and {theirs} tokenizers: {len(line.named)} special tokens differ "
        f"({shown(facts)}), {known} [{line.source}]"
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
    return Comparison(PairVerdict.REFUSE, facts, f"{unlike_sizes(facts)}{unproven}")


def same_line(target: LlmSpec, draft: LlmSpec) -> bool:
    """Whether the family names differ only in version, shape or modality (qwen2, qwen2_moe)."""
    ours, theirs = (_line(llm.family) for llm in (target, draft))
    return bool(ours) and ours == theirs


def _line(family: str) -> str:
    return re.sub(r"v(?=\d)|[^a-z]|moe|text|vl", "", family.lower())
