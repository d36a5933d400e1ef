"""Rules for a running server: whether its drafts are accepted, and whether that pays."""

from __future__ import annotations

from capplan.advice.notices import GUIDE_CHECKLIST, GUIDE_TABLE, advice, alarm
from capplan.schema.watching import Notice, ServedFigures

GUIDE_ACCEPTANCE = 0.6
"""The guide's checklist: below it, think of another draft."""
GUIDE_SPEEDUP = 1.5
"""The guide's troubleshooting table: below it, look at the draft."""
BROKEN_ACCEPTANCE = 0.05
"""vllm#41789 saw 0.2 %; a build that corrupts its text 4 %, the target being its own draft."""
FEW_DRAFTS = 200
"""Fewer rounds say nothing: +-7 points of acceptance even if they were independent."""
_GREEDY_FIRST_POSITION = 0.3
"""vLLM PR 41044 at temperature 1: 15 % of first positions with greedy drafts, 70 % sampled."""
_LAST_POSITION = 0.1
_FEW_DRAFTED_ROUNDS = 0.5
_LOADED_BATCH = 32
"""vllm#17984 saw the gain turn at 32 requests, vllm#19254 n-gram lose at hundreds."""
_DRIFT = 0.1
"""Share of the accepted tokens a round by which they may fall."""


def low_acceptance(figures: ServedFigures) -> Notice | None:
    """Alarm below the guide's 60 %, saying that the rate depends on N."""
    rate, length = figures.acceptance_rate, figures.num_speculative_tokens
    if not _enough(figures) or rate is None or not _between(rate, BROKEN_ACCEPTANCE):
        return None
    at = f" at N = {length}" if length else ""
    emitted = figures.tokens_per_round
    counted = f" ({emitted:.2f} tokens a round)" if emitted else ""
    return alarm(
        "low_acceptance",
        f"Acceptance {rate:.0%}{at} is below {GUIDE_ACCEPTANCE:.0%}{counted}. The rate falls with "
        "N whatever the draft: what counts is tokens a round against what a round costs.",
        "Compare with a shorter N; if the first position is low too, try another draft "
        "(capplan pair TARGET).",
        GUIDE_CHECKLIST,
    )


def _between(rate: float, floor: float) -> bool:
    return floor <= rate < GUIDE_ACCEPTANCE


def broken_acceptance(figures: ServedFigures) -> Notice | None:
    """Alarm where acceptance is so low that the set-up must be wrong."""
    rate = figures.acceptance_rate
    if not _enough(figures) or rate is None or rate >= BROKEN_ACCEPTANCE:
        return None
    if figures.draft_share is not None and figures.draft_share < _FEW_DRAFTED_ROUNDS:
        return None  # a lookup that finds little is weak, not broken
    return alarm(
        "broken_acceptance",
        f"Acceptance {rate:.1%} is no weak draft but a wrong set-up: a head trained for other "
        "weights, another tokenizer, a quantised or fp8-KV path that breaks it, or verification "
        "that corrupts the text.",
        "Check the pairing (capplan pair TARGET DRAFT) and that the text is still the target's "
        "(capplan profile --server URL compares log-probabilities).",
        "vllm#41789; vllm-ascend#5974; the guide's row on quality, whose option (the v2 block "
        "manager) no longer exists",
    )


def slower_than_plain(figures: ServedFigures) -> Notice | None:
    """Alarm where speculation loses against plain decoding at the same batch."""
    speedup, expected = figures.actual_speedup, figures.expected
    if speedup is None or expected is None or speedup >= 1 or not _enough(figures):
        return None
    batch = f" at {figures.batch:.0f} requests at a time" if figures.batch else ""
    return alarm(
        "slower_than_plain",
        f"{speedup:.2f}x: slower than plain decoding{batch} ({expected.source}).",
        "Shorten N or switch speculation off at this load "
        "(num_speculative_tokens_per_batch_size in vLLM), or serve fewer requests a replica.",
        "vllm#17984, #8439, #21278",
    )


def below_break_even(figures: ServedFigures) -> Notice | None:
    """Alarm where a round emits fewer tokens than it costs plain steps."""
    expected, emitted = figures.expected, figures.tokens_per_round
    if expected is None or expected.round_ratio is None or emitted is None:
        return None
    if not _enough(figures) or emitted >= expected.round_ratio:
        return None
    return alarm(
        "below_break_even",
        f"{emitted:.2f} tokens a round, but a round costs {expected.round_ratio:.2f} plain steps "
        f"at this batch ({expected.source}).",
        "Shorten N, or switch speculation off at this load.",
        "speedup = tokens per round / round ratio",
    )


def small_speedup(figures: ServedFigures) -> Notice | None:
    """Repeat the guide's first row: below 1.5x look at the draft, if acceptance is the cause."""
    speedup = figures.actual_speedup
    if speedup is None or not 1 <= speedup < GUIDE_SPEEDUP or not _enough(figures):
        return None
    low = figures.acceptance_rate is not None and figures.acceptance_rate < GUIDE_ACCEPTANCE
    cause = (
        "acceptance is low: check that the draft is of the same family and tokenizer"
        if low
        else "acceptance is fine: the round is dear at this batch, another draft will not help"
    )
    return advice(
        "small_speedup",
        f"{speedup:.2f}x is below {GUIDE_SPEEDUP:g}x; {cause}.",
        "capplan pair TARGET DRAFT" if low else "Compare lengths: capplan recommend --profile.",
        GUIDE_TABLE,
    )


def later_positions_idle(figures: ServedFigures) -> Notice | None:
    """Say where the last draft positions are hardly ever accepted."""
    rates = figures.position_rates
    if not _enough(figures) or len(rates) < 2 or rates[-1] >= _LAST_POSITION:
        return None
    useful = max(sum(rate >= _LAST_POSITION for rate in rates), 1)
    return advice(
        "later_positions_idle",
        f"Position {len(rates)} is accepted in {rates[-1]:.0%} of the rounds: it is drafted and "
        "verified in all of them.",
        f"Try N = {useful}.",
        "tokens per round = 1 + sum of the position rates",
    )


def few_rounds_drafted(figures: ServedFigures) -> Notice | None:
    """Warn of lookups that find little, and of the engine's mean over draft rounds alone."""
    share, mean, emitted = (
        figures.draft_share,
        figures.tokens_per_draft_round,
        figures.tokens_per_round,
    )
    if share is None or mean is None or emitted is None or share >= _FEW_DRAFTED_ROUNDS:
        return None
    loaded = (figures.running or 0) >= _LOADED_BATCH
    cost = " At this load the misses cost more than they bring." if loaded else ""
    return advice(
        "few_rounds_drafted",
        f"Only {share:.0%} of the rounds had a draft: {emitted:.2f} tokens a round, not the "
        f"{mean:.2f} that the engine's mean shows.{cost}",
        "Lookup pays where outputs repeat the prompt; elsewhere use a draft model or head.",
        "vllm#8439, #19254",
    )


def greedy_when_sampling(figures: ServedFigures) -> Notice | None:
    """Point at greedy drafts where even first positions fail."""
    rates = figures.position_rates
    if not _enough(figures) or not rates or figures.draft_share is None:
        return None
    if not BROKEN_ACCEPTANCE <= rates[0] < _GREEDY_FIRST_POSITION:
        return None
    if figures.draft_share < _FEW_DRAFTED_ROUNDS:
        return None
    return advice(
        "greedy_when_sampling",
        f"Even the first position is accepted in only {rates[0]:.0%} of the rounds. If requests "
        "sample (temperature > 0), greedy drafts, the engine's default, may be the reason.",
        "Try draft_sample_method: probabilistic, and profile at the temperature you serve.",
        "vLLM PR 41044: 10 % greedy, 49 % sampled at temperature 1",
    )


def acceptance_drifts(figures: ServedFigures) -> Notice | None:
    """Alarm where tokens a round fell against what this server gave before."""
    now, earlier = figures.tokens_per_round, figures.earlier_tokens_per_round
    if now is None or earlier is None or not _enough(figures):
        return None
    if now - 1 >= (earlier - 1) * (1 - _DRIFT):
        return None
    return alarm(
        "acceptance_drifts",
        f"Tokens a round fell from {earlier:.2f} to {now:.2f} while this was watched.",
        "See whether the traffic changed; if not, restart one replica and compare (a long-running "
        "server was seen to drift).",
        "vllm#41838, #26191",
    )


def _enough(figures: ServedFigures) -> bool:
    return figures.drafts is not None and figures.drafts >= FEW_DRAFTS
