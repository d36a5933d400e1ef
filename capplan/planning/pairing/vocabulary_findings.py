"""The vocabulary of a pair by its method, and what to say of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from capplan.planning.pairing.comparison import Comparison
from capplan.planning.pairing.inputs import (
    BUILT_IN,
    HEADS,
    LOOKUPS,
    Known,
    Side,
    same_weights,
)
from capplan.planning.pairing.vocabulary import (
    PADDING_SHARE,
    compare_vocabularies,
)
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import Evidence, Finding, PairVerdict, Severity, VocabularyFacts
from capplan.schema.pairing import Method


def vocabularies(
    target: Side, draft: Side, spec: LlmSpec, method: Method, known: Known
) -> Comparison:
    """Return how the draft's vocabulary stands to the target's, by the kind of draft."""
    if method in LOOKUPS or draft.id == BUILT_IN:
        return _own(spec, "drafts are the target's own tokens")
    if method in HEADS:
        return _head_vocabulary(draft, spec, known)
    if draft.spec is None:
        return _as_listed(spec, known)
    return compare_vocabularies(spec, draft.spec, target.tokenizer, draft.tokenizer)


def _as_listed(spec: LlmSpec, known: Known) -> Comparison:
    """Take models_db's own comparison for a draft whose figures are not all known."""
    checked = known.pairing.vocab_check if known.pairing is not None else ""
    same = checked.startswith("ok")
    sizes = [int(number) for number in re.findall(r"\d+", checked)]
    size = sizes[0] if sizes else spec.vocab_size
    facts = VocabularyFacts(
        target_size=spec.vocab_size,
        draft_size=size,
        difference=abs(spec.vocab_size - size),
        evidence=Evidence.FAMILY if same else Evidence.SIZES,
    )
    verdict = PairVerdict.REFUSE if facts.difference else PairVerdict.IDENTICAL
    return Comparison(verdict, facts, f"models_db: vocabulary {checked or 'not compared'}")


def _own(spec: LlmSpec, reason: str, head: int | None = None) -> Comparison:
    reduced = head is not None and head < spec.vocab_size
    facts = VocabularyFacts(
        target_size=spec.vocab_size,
        draft_size=spec.vocab_size,
        difference=0,
        evidence=Evidence.OWN,
        head_vocabulary=head if reduced else None,
    )
    verdict = PairVerdict.REDUCED_HEAD if reduced else PairVerdict.IDENTICAL
    return Comparison(verdict, facts, reason)


def _head_vocabulary(draft: Side, spec: LlmSpec, known: Known) -> Comparison:
    """Take a head for a speaker of its target's vocabulary, or of a subset that it maps."""
    if draft.spec is None or draft.spec.head is None:
        source = known.pairing.source.reference if known.pairing is not None else "its method"
        return _own(spec, f"a head drafts in its target's vocabulary ({source})")
    size = draft.spec.head.draft_vocab_size or draft.spec.vocab_size
    if _of_another_vocabulary(draft.spec, spec):
        sized = compare_vocabularies(spec, draft.spec)
        return Comparison(
            PairVerdict.REFUSE,
            sized.facts,
            f"another LLM's head: it maps to ids of {draft.spec.vocab_size:,} tokens",
        )
    if size < spec.vocab_size and draft.spec.head.draft_vocab_size is not None:
        return _own(
            spec, f"the head drafts {size:,} of the target's {spec.vocab_size:,} tokens", size
        )
    if abs(size - spec.vocab_size) <= PADDING_SHARE * spec.vocab_size:
        padded = "" if size == spec.vocab_size else f" ({size:,} rows, padded)"
        return _own(spec, f"the head drafts in the target's {spec.vocab_size:,} tokens{padded}")
    # a head has no tokenizer of its own: a size that is not the target's is another LLM's
    sized = compare_vocabularies(spec, draft.spec)
    return Comparison(PairVerdict.REFUSE, sized.facts, f"another LLM's head: {sized.reason}")


def _of_another_vocabulary(head: LlmSpec, target: LlmSpec) -> bool:
    """Whether a head with a reduced output was made for a target of another size.

    ``vocab_size`` beside ``draft_vocab_size`` is the target's; where both are alike it says
    nothing of the target.
    """
    reduced = head.head.draft_vocab_size if head.head is not None else None
    if reduced is None or head.vocab_size <= reduced:
        return False
    return abs(head.vocab_size - target.vocab_size) > PADDING_SHARE * target.vocab_size


def vocabulary_findings(
    target: Side, draft: Side, method: Method, compared: Comparison, known: Known
) -> Iterator[Finding]:
    """Yield what the comparison means to somebody who serves the pair."""
    facts, verdict = compared.facts, compared.verdict
    if verdict is PairVerdict.REFUSE:
        yield from _unrelated(facts)
    elif verdict is PairVerdict.PADDED:
        yield _padding(facts)
    elif verdict is PairVerdict.REDUCED_HEAD:
        yield _reduced(facts)
    if facts.evidence is Evidence.SIZES and verdict is not PairVerdict.REFUSE:
        yield _only_sizes(target, draft)
    if verdict is not PairVerdict.REFUSE:
        yield from _specials(facts)
    yield from _mappable(facts)
    yield from _beyond_rows(target, draft)
    judged = verdict is PairVerdict.REFUSE
    if method in HEADS and draft.id != BUILT_IN and known.pairing is None and not judged:
        yield from _unproven_head(target, draft, known)


def _about(severity: Severity, text: str, remedy: str = "", source: str = "") -> Finding:
    return Finding(topic="vocabulary", severity=severity, text=text, remedy=remedy, source=source)


def _unrelated(facts: VocabularyFacts) -> Iterator[Finding]:
    if not facts.difference:
        yield _about(
            Severity.MUST,
            "No check of sizes catches this: vLLM and MLC start, and nearly every draft is "
            "rejected, because its ids mean other text to the target. The answers stay right; "
            "they come slower than without a draft.",
            "Choose a draft of the target's own family.",
        )


def _mappable(facts: VocabularyFacts) -> Iterator[Finding]:
    """Say how much a mapping of vocabularies would keep, as vLLM logs it when it starts."""
    shared = facts.shared_texts
    if shared is None or not facts.difference:
        return
    yield _about(
        Severity.KNOW,
        f"vLLM's mapping (use_heterogeneous_vocab) would share {shared:,} tokens: "
        f"{shared / facts.draft_size:.1%} of the draft's rows, {shared / facts.target_size:.1%} "
        "of the target's. Tokens outside are never drafted.",
        source="vLLM 0.33.0, v1/spec_decode/vocab_mapping.py",
    )


def _padding(facts: VocabularyFacts) -> Finding:
    unused = (
        f" Ids from {facts.meaningful_ids:,} on stand for nothing."
        if facts.meaningful_ids is not None
        else ""
    )
    one_sided = (facts.only_in_target or 0) + (facts.only_in_draft or 0)
    if facts.evidence is Evidence.TOKENS and one_sided >= facts.difference:
        return _about(
            Severity.KNOW,
            "Not another tokenizer: the trained tokens agree, and one side has added special "
            "tokens and the rows for them.",
        )
    sources = ("vllm-project/vllm#13849, 2025-02", facts.meaningful_ids_source)
    return _about(
        Severity.KNOW,
        "Padding, not another tokenizer: rows of an embedding are rounded up, unequally in one "
        f"family.{unused} Where an engine allowed it, such a pair ran 1.72x as fast at one "
        "request (15.73 to 9.15 ms a token: Qwen2.5-Coder 7B with 0.5B, N = 4, RTX 4090).",
        source="; ".join(filter(None, sources)),
    )


def _reduced(facts: VocabularyFacts) -> Finding:
    reduced = facts.head_vocabulary or 0
    return _about(
        Severity.KNOW,
        f"The head drafts {reduced:,} of the target's {facts.target_size:,} tokens "
        f"({reduced / facts.target_size:.0%}) and maps them back itself. That is by design: its "
        "output layer is smaller and faster. The other tokens are never drafted, and end a round "
        "where they come.",
        "Measure acceptance on the languages and domains you serve.",
    )


def _only_sizes(target: Side, draft: Side) -> Finding:
    lacking = [
        side.id
        for side in (target, draft)
        if side.local and (side.tokenizer is None or not side.tokenizer.trained_known)
    ]
    unread = f" No vocabulary was found in {' or '.join(lacking)}." if lacking else ""
    return _about(
        Severity.MUST,
        "Two tokenizers of one size can number their tokens differently, and vLLM does not "
        f"notice: only sizes were compared here.{unread}",
        "Give two folders that hold tokenizer.json (or vocab.json, tokenizer.model, tekken.json) "
        "beside config.json.",
    )


def _specials(facts: VocabularyFacts) -> Iterator[Finding]:
    """Say what special tokens that differ do to a pair whose trained tokens agree."""
    count = sum(
        number or 0
        for number in (facts.ids_that_differ, facts.only_in_target, facts.only_in_draft)
    )
    if count:
        yield _about(
            Severity.MUST,
            f"{count:,} special token{'s differ' if count > 1 else ' differs'}: the draft cannot "
            "propose what only the target knows, and what it puts in its place is rejected "
            "(chat template, thinking, tool calls).",
            "Measure acceptance on prompts in the target's own chat template.",
        )


def _beyond_rows(target: Side, draft: Side) -> Iterator[Finding]:
    """Say where a tokenizer has ids that its LLM's output layer has no row for."""
    for side in (target, draft):
        if side.tokenizer is None or side.spec is None:
            continue
        top, rows = side.tokenizer.top_id, side.spec.vocab_size
        if top >= rows:
            yield _about(
                Severity.KNOW,
                f"The tokenizer of {side.id} has ids up to {top:,}, its layers {rows:,} rows: "
                "ids above are never produced, and a prompt that holds one fails or is misread.",
                "Keep to the shipped chat template, or resize the embedding with its tokenizer.",
            )


def _unproven_head(target: Side, draft: Side, known: Known) -> Iterator[Finding]:
    if known.trained_on:
        yield Finding(
            topic="head",
            severity=Severity.MUST,
            text=f"The head was trained on {', '.join(llm.id for llm in known.trained_on)}. "
            f"{target.id} has that shape, so the engine starts; on other weights, a fine-tune's "
            "too, it guesses worse.",
            remedy="Take a head trained for this target, or measure acceptance first.",
        )
        return
    head = draft.spec.head if draft.spec is not None else None
    if head is not None and head.target_id and same_weights(head.target_id, target.id):
        return
    named = f" It names {head.target_id}." if head is not None and head.target_id else ""
    yield Finding(
        topic="head",
        severity=Severity.MUST,
        text=f"A head guesses from the hidden states of the weights it was trained on; shapes "
        f"agree, nothing shows that {target.id} has those weights (a fine-tune has others)."
        f"{named}",
        remedy="Check the head's model card, and measure: near zero means another target.",
    )
