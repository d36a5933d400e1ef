"""Rules for a running server: its memory, its queue and its engine's settings."""

from __future__ import annotations

from capplan.advice.notices import GUIDE_TABLE, advice
from capplan.estimate.cuda_graphs import DEFAULT_CEILING, SM100_CEILING
from capplan.schema.watching import Notice, ServedFigures

_FULL_KV = 0.95
_QUEUE_SHARE = 0.25
_SLOW_TTFT_S = 1.0
_HIT_RATE_LOST = 0.1


def memory_is_short(figures: ServedFigures) -> Notice | None:
    """Say what to do where the KV pool is full, in place of the guide's removed option."""
    preempted = figures.preemptions or 0
    is_full = (figures.kv_usage or 0) >= _FULL_KV and (figures.waiting or 0) > 0
    if not preempted and not is_full:
        return None
    seen = f"{preempted:g} preemptions" if preempted else f"KV pool {figures.kv_usage:.0%} full"
    return advice(
        "memory_is_short",
        f"{seen}: the draft's weights and its KV share the pool with the target.",
        "Lower max_num_seqs or N, use a smaller draft or an fp8 KV cache (capplan memory TARGET "
        "--draft DRAFT). The guide's option for the draft's tensor parallelism is gone, and a "
        "smaller one would put more on one GPU.",
        f"{GUIDE_TABLE} (OOM); vllm#9995",
    )


def slow_first_token(figures: ServedFigures) -> Notice | None:
    """Tell waiting from loading: a draft is loaded at start, never with a request."""
    ttft, waiting, running = figures.ttft_s, figures.waiting or 0, figures.running or 0
    if ttft is None or ttft < _SLOW_TTFT_S or waiting <= _QUEUE_SHARE * running:
        return None
    return advice(
        "slow_first_token",
        f"First token after {ttft:.2g} s with {waiting:g} requests waiting: they queue. Loading "
        "the draft is no cause once the server is up.",
        "Add a replica, or admit fewer tokens at once; speculation does not shorten a queue for "
        "prefill.",
        GUIDE_TABLE,
    )


def outside_cuda_graphs(figures: ServedFigures) -> Notice | None:
    """Warn where a step has more tokens than the engine captures by default."""
    length, running = figures.num_speculative_tokens, figures.running
    if length is None or running is None or figures.software != "vllm":
        return None
    tokens = running / figures.engines * (length + 1)
    if tokens <= DEFAULT_CEILING:
        return None
    return advice(
        "outside_cuda_graphs",
        f"{running / figures.engines:.0f} requests times {length + 1} tokens are {tokens:.0f} a "
        f"step; by default CUDA graphs end at {DEFAULT_CEILING} ({SM100_CEILING:,} on B200).",
        f"Set --max-cudagraph-capture-size to at least {-(-int(tokens) // 16) * 16}, or lower N.",
        "vLLM config/vllm.py; vllm PR 50488, #27325, PR 37865",
    )


def prefix_cache_drops(figures: ServedFigures) -> Notice | None:
    """Warn where the prefix cache finds less than before."""
    now, earlier = figures.prefix_hit_rate, figures.earlier_prefix_hit_rate
    if now is None or earlier is None or earlier - now < _HIT_RATE_LOST:
        return None
    return advice(
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
    return advice(
        "speculation_is_off",
        "The server shows no counters of speculation: it is switched off, or hidden.",
        "capplan recommend says whether it would pay for this load.",
        "vLLM v1/spec_decode/metrics.py: the counters exist only with speculation",
    )
