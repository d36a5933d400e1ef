"""Every way of decoding with one, two and three tiers, run side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.replay import replay_per_token
from profiler.backends.speculative_three import Levels
from profiler.backends.speculative_three_runs import WayCounts, run_ways
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_trace import trace_draft_model
from profiler.protocol import Generation, SamplingPoint


@dataclass(frozen=True)
class Measured:
    """All ways, decoded side by side."""

    ways: Mapping[str, WayCounts]
    rates: NDArray[np.float64]
    """Of the middle LLM with the target, from one trace of the plain text: C_1, C_2, ..."""
    tokens_by_length: Mapping[int, float]
    """Tokens a round of the target that the same trace foretells."""

    @property
    def plain_s(self) -> float:
        """Plain decode step of the target."""
        return self.ways["plain"].token_s


def decode_all(
    llms: Sequence[TorchLlm],
    settings: Sequence[tuple[int, int]],
    prompts: Sequence[tuple[int, ...]],
    max_tokens: int,
) -> Measured:
    """Decode every prompt in every way, then trace the middle LLM on the plain text."""
    target, middle, small = llms
    ways = {"plain": Levels((target,), ())}
    for n, inner in settings:
        ways[f"small {inner}"] = Levels((target, small), (inner,))
        ways[f"middle {n}"] = Levels((target, middle), (n,))
        ways[f"pair {inner}"] = Levels((middle, small), (inner,))
        ways[f"three {n} {inner}"] = Levels((target, middle, small), (n, inner))
    cold = SamplingPoint(temperature=0.0, max_tokens=max_tokens, seed=0)
    found = run_ways(ways, prompts, cold, clock_s=time.process_time)
    texts = [
        Generation(tuple(prompt), tuple(text))
        for prompt, text in zip(prompts, found["plain"].texts, strict=True)
    ]
    trace = trace_draft_model(target, middle, texts, cold)
    longest = max(n for n, _ in settings)
    counts = {
        n: replay_per_token(trace.arrays["accept_greedy"], trace.offsets, n)
        for n in range(1, longest + 1)
    }
    tokens = {n: float(c.emitted.sum() / c.rounds.sum()) for n, c in counts.items()}
    most = counts[longest]
    rates = most.accepted_per_position.sum(axis=0) / most.rounds.sum()
    return Measured(found, rates, tokens)
