"""Rules for a server that is running: from a window's figures to a sentence and a remedy.

Two sources meet here. The guide's troubleshooting table and checklist name symptoms, causes and
cures; where its cure no longer exists (a removed option) the rule says what replaces it. Known
problems of engines come from their public issue threads, each with the load and the figures at
which it was reported. A rule reads one window and says at most one thing.
"""

from __future__ import annotations

from collections.abc import Callable

from capplan.estimate.cuda_graphs import DEFAULT_CEILING, SM100_CEILING
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
_FULL_KV = 0.95
_DRIFT = 0.1
_QUEUE_SHARE = 0.25
_SLOW_TTFT_S = 1.0

_GUIDE = "the guide's troubleshooting table"
_GUIDE_LIST = "the guide's checklist"
Rule = Callable[[ServedFigures], Notice | None]


def notices_for(figures: ServedFigures) -> tuple[Notice, ...]:
    """Return alarms first, then advice, for one window of one model."""
    found = [notice for rule in RULES if (notice := rule(figures)) is not None]
    return tuple(sorted(found, key=lambda notice: notice.level != "alarm"))


def low_acceptance(figures: ServedFigures) -> Notice | None:
    """Alarm below the guide's 60 %, saying that the rate depends on N."""
    rate, length = figures.acceptance_rate, figures.num_speculative_tokens
    if not _enough(figures) or rate is None or not _between(rate, BROKEN_ACCEPTANCE):
        return None
    at = f" at N = {length}" if length else ""
    emitted = figures.tokens_per_round
    counted = f" ({emitted:.2f} tokens a round)" if emitted else ""
    return _alarm(
        "low_acceptance",
        f"Acceptance {rate:.0%}{at} is below {GUIDE_ACCEPTANCE:.0%}{counted}. The rate falls with "
        "N whatever the draft: what counts is tokens a round against what a round costs.",
        "Compare with a shorter N; if the first position is low too, try another draft "
        "(capplan pair TARGET).",
        _GUIDE_LIST,
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
    return _alarm(
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
    return _alarm(
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
    return _alarm(
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
    return _advice(
        "small_speedup",
        f"{speedup:.2f}x is below {GUIDE_SPEEDUP:g}x; {cause}.",
        "capplan pair TARGET DRAFT" if low else "Compare lengths: capplan recommend --profile.",
        _GUIDE,
    )


def memory_is_short(figures: ServedFigures) -> Notice | None:
    """Say what to do where the KV pool is full, in place of the guide's removed option."""
    preempted = figures.preemptions or 0
    is_full = (figures.kv_usage or 0) >= _FULL_KV and (figures.waiting or 0) > 0
    if not preempted and not is_full:
        return None
    seen = f"{preempted:g} preemptions" if preempted else f"KV pool {figures.kv_usage:.0%} full"
    return _advice(
        "memory_is_short",
        f"{seen}: the draft's weights and its KV share the pool with the target.",
        "Lower max_num_seqs or N, use a smaller draft or an fp8 KV cache (capplan memory TARGET "
        "--draft DRAFT). The guide's option for the draft's tensor parallelism is gone, and a "
        "smaller one would put more on one GPU.",
        f"{_GUIDE} (OOM); vllm#9995",
    )


def slow_first_token(figures: ServedFigures) -> Notice | None:
    """Tell waiting from loading: a draft is loaded at start, never with a request."""
    ttft, waiting, running = figures.ttft_s, figures.waiting or 0, figures.running or 0
    if ttft is None or ttft < _SLOW_TTFT_S or waiting <= _QUEUE_SHARE * running:
        return None
    return _advice(
        "slow_first_token",
        f"First token after {ttft:.2g} s with {waiting:g} requests waiting: they queue. Loading "
        "the draft is no cause once the server is up.",
        "Add a replica, or admit fewer tokens at once; speculation does not shorten a queue for "
        "prefill.",
        _GUIDE,
    )


def later_positions_idle(figures: ServedFigures) -> Notice | None:
    """Say where the last draft positions are hardly ever accepted."""
    rates = figures.position_rates
    if not _enough(figures) or len(rates) < 2 or rates[-1] >= _LAST_POSITION:
        return None
    useful = max(sum(rate >= _LAST_POSITION for rate in rates), 1)
    return _advice(
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
    return _advice(
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
    return _advice(
        "greedy_when_sampling",
        f"Even the first position is accepted in only {rates[0]:.0%} of the rounds. If requests "
        "sample (temperature > 0), greedy drafts, the engine's default, may be the reason.",
        "Try draft_sample_method: probabilistic, and profile at the temperature you serve.",
        "vLLM PR 41044: 10 % greedy, 49 % sampled at temperature 1",
    )


def outside_cuda_graphs(figures: ServedFigures) -> Notice | None:
    """Warn where a step has more tokens than the engine captures by default."""
    length, running = figures.num_speculative_tokens, figures.running
    if length is None or running is None or figures.software != "vllm":
        return None
    tokens = running / figures.engines * (length + 1)
    if tokens <= DEFAULT_CEILING:
        return None
    return _advice(
        "outside_cuda_graphs",
        f"{running / figures.engines:.0f} requests times {length + 1} tokens are {tokens:.0f} a "
        f"step; by default CUDA graphs end at {DEFAULT_CEILING} ({SM100_CEILING:,} on B200).",
        f"Set --max-cudagraph-capture-size to at least {-(-int(tokens) // 16) * 16}, or lower N.",
        "vLLM config/vllm.py; vllm PR 50488, #27325, PR 37865",
    )


def acceptance_drifts(figures: ServedFigures) -> Notice | None:
    """Alarm where tokens a round fell against what this server gave before."""
    now, earlier = figures.tokens_per_round, figures.earlier_tokens_per_round
    if now is None or earlier is None or not _enough(figures):
        return None
    if now - 1 >= (earlier - 1) * (1 - _DRIFT):
        return None
    return _alarm(
        "acceptance_drifts",
        f"Tokens a round fell from {earlier:.2f} to {now:.2f} while this was watched.",
        "See whether the traffic changed; if not, restart one replica and compare (a long-running "
        "server was seen to drift).",
        "vllm#41838, #26191",
    )


def prefix_cache_drops(figures: ServedFigures) -> Notice | None:
    """Warn where the prefix cache finds less than before."""
    now, earlier = figures.prefix_hit_rate, figures.earlier_prefix_hit_rate
    if now is None or earlier is None or earlier - now < _DRIFT:
        return None
    return _advice(
        "prefix_cache_drops",
        f"Prefix-cache hits fell from {earlier:.0%} to {now:.0%}: prompts are computed anew.",
        "With EAGLE or MTP before vLLM 0.33 each hit also loses its last block; upgrade, or "
        "compare with speculation off.",
        "vllm#53670, #51769, #38182",
    )


def speculation_is_off(figures: ServedFigures) -> Notice | None:
    """Say where the server counts no drafts at all."""
    if figures.software != "vllm" or figures.drafts is not None:
        return None
    return _advice(
        "speculation_is_off",
        "The server shows no counters of speculation: it is switched off, or hidden.",
        "capplan recommend says whether it would pay for this load.",
        "vLLM v1/spec_decode/metrics.py: the counters exist only with speculation",
    )


def _enough(figures: ServedFigures) -> bool:
    return figures.drafts is not None and figures.drafts >= FEW_DRAFTS


def _alarm(check: str, text: str, remedy: str, source: str) -> Notice:
    return Notice(level="alarm", check=check, text=text, remedy=remedy, source=source)


def _advice(check: str, text: str, remedy: str, source: str) -> Notice:
    return Notice(level="advice", check=check, text=text, remedy=remedy, source=source)


RULES: tuple[Rule, ...] = (
    broken_acceptance,
    low_acceptance,
    slower_than_plain,
    below_break_even,
    acceptance_drifts,
    small_speedup,
    memory_is_short,
    slow_first_token,
    later_positions_idle,
    few_rounds_drafted,
    greedy_when_sampling,
    outside_cuda_graphs,
    prefix_cache_drops,
    speculation_is_off,
)
