"""Speculation really run, beside plain decoding of the same requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from profiler.backends.speculative import Decoding, Drafter, NoDrafter, begin, decode
from profiler.backends.torch_llm import TorchLlm
from profiler.protocol import RoundsOutcome, SamplingPoint


@dataclass
class _Totals:
    rounds: int = 0
    drafted: int = 0
    emitted: int = 0
    seconds: float = 0.0
    accepted_lengths: list[int] = field(default_factory=list)

    def add(self, state: Decoding, seconds: float) -> None:
        self.rounds += state.counts.rounds
        self.drafted += state.counts.drafted
        # The first token comes from the prefill.
        self.emitted += len(state.generated) - 1
        self.accepted_lengths += state.counts.accepted_lengths
        self.seconds += seconds


def run_rounds(
    target: TorchLlm,
    new_drafter: Callable[[SamplingPoint], Drafter],
    prompts: Sequence[tuple[int, ...]],
    sampling: SamplingPoint,
    num_speculative_tokens: int,
) -> RoundsOutcome:
    """Decode every prompt both ways in turn and count what the rounds did.

    Which way goes first alternates, so that neither always meets a warm cache or a throttled
    processor. Only the decode phase is timed, from the token after the prefill's own.
    """
    speculative, plain = _Totals(), _Totals()
    identical = 0
    for index, prompt in enumerate(prompts):
        of_request = replace(sampling, seed=sampling.seed + 2 * index)
        runs: list[tuple[_Totals, Drafter, int]] = [
            (plain, NoDrafter(), 0),
            (speculative, new_drafter(of_request), num_speculative_tokens),
        ]
        texts = [
            _timed(target, prompt, of_request, *run)
            for run in (runs if index % 2 == 0 else reversed(runs))
        ]
        identical += texts[0] == texts[1]
    lengths = speculative.accepted_lengths
    return RoundsOutcome(
        rounds=speculative.rounds,
        drafted=speculative.drafted,
        accepted=sum(lengths),
        accepted_per_position=tuple(
            sum(length > position for length in lengths)
            for position in range(num_speculative_tokens)
        ),
        emitted=speculative.emitted,
        seconds=speculative.seconds,
        baseline_emitted=plain.emitted,
        baseline_seconds=plain.seconds,
        identical_outputs=identical if sampling.temperature == 0 else None,
    )


def _timed(
    target: TorchLlm,
    prompt: Sequence[int],
    sampling: SamplingPoint,
    totals: _Totals,
    drafter: Drafter,
    num_speculative_tokens: int,
) -> list[int]:
    state = begin(target, drafter, prompt, sampling, num_speculative_tokens)
    _wait(target.device)
    start = time.perf_counter()
    text = decode(state, num_speculative_tokens)
    _wait(target.device)
    totals.add(state, time.perf_counter() - start)
    return text


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
