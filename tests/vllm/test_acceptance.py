"""The trace that a plan is made from, against the counters of an engine that really speculated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capplan.estimate.replay import replay_per_start, replay_per_token
from capplan.schema.measured_setup import NgramDraft
from capplan.schema.pairing import Method
from profiler.backends.torch_local import TorchBackend
from profiler.backends.torch_trace import trace_lookup
from profiler.engine import Served, ServedLoad
from profiler.engine_cells import rounds_of
from profiler.protocol import LoadRequest, SamplingPoint

LENGTHS, BATCHES = (1, 3, 5), (1, 4, 16)
LOOKUP = NgramDraft(prompt_lookup_min=2, prompt_lookup_max=4)
CASES = [(length, batch) for length in LENGTHS for batch in BATCHES]


def counted(request: Served) -> tuple[list[int], list[int]]:
    """Return the engine's rounds; the last one cut where its text was.

    The engine counts what it accepted before it cuts a text at its end or limit; a trace of the
    text cannot know what was cut.
    """
    drafted, accepted = rounds_of(request)
    if accepted:
        accepted[-1] = min(accepted[-1], request.emitted_per_step[-1])
    return drafted, accepted


def per_position(accepted: list[int], length: int) -> list[int]:
    return [sum(count > place for count in accepted) for place in range(length)]


@pytest.mark.parametrize(("length", "batch"), CASES)
def test_lookup_replayed_over_the_engines_text_is_exactly_what_it_did(
    texts: Any, length: int, batch: int
) -> None:
    served: ServedLoad = texts.get(Method.NGRAM, length, batch)
    assert len(served.requests) == 16
    trace = trace_lookup([one.generation for one in served.requests], LOOKUP)
    replayed = replay_per_start(
        trace.arrays["proposed"], trace.arrays["accepted"], trace.offsets, length
    )
    rounds = [counted(one) for one in served.requests]
    drafted = [sum(ours) for ours, _ in rounds]
    accepted = [theirs for _, theirs in rounds]
    assert drafted == replayed.drafted.tolist()
    assert [sum(a) for a in accepted] == replayed.accepted.tolist()
    assert [len(d) for d, _ in rounds] == replayed.rounds.tolist()
    assert sum(sum(n > 0 for n in d) for d, _ in rounds) == replayed.rounds_with_draft.sum()
    flat = [count for a in accepted for count in a]
    assert per_position(flat, length) == _positions(trace, length)
    assert sum(map(sum, accepted)) > 0


def _positions(trace: Any, length: int) -> list[int]:
    """Walk the rounds of every request over a per-start trace and count by position."""
    counts = []
    for start, end in zip(trace.offsets[:-1], trace.offsets[1:], strict=True):
        place = int(start) + 1
        while place < end:
            taken = min(int(trace.arrays["accepted"][place]), length)
            counts.append(taken)
            place += taken + 1
    return per_position(counts, length)


@pytest.fixture(scope="module")
def torch_pair(target_folder: Path, draft_folder: Path) -> TorchBackend:
    backend = TorchBackend()
    backend.load(LoadRequest(target=str(target_folder), draft=str(draft_folder)))
    return backend


@pytest.mark.parametrize(("length", "batch"), CASES)
def test_a_draft_llms_tokens_per_round_agree_within_3_percent(
    texts: Any, torch_pair: TorchBackend, length: int, batch: int
) -> None:
    served: ServedLoad = texts.get(Method.DRAFT_MODEL, length, batch)
    generations = [one.generation for one in served.requests]
    trace = torch_pair.trace(generations, SamplingPoint(0.0, 32, 0))
    replayed = replay_per_token(trace.arrays["accept_greedy"], trace.offsets, length)
    traced = 1 + replayed.accepted.sum() / replayed.rounds.sum()
    rounds = [counted(one) for one in served.requests]
    accepted = sum(sum(a) for _, a in rounds)
    engine = 1 + accepted / sum(len(d) for d, _ in rounds)
    assert all(count == length for d, _ in rounds for count in d)
    assert traced == pytest.approx(engine, rel=0.03)


def test_steps_of_a_full_batch_are_told_apart_and_timed(texts: Any) -> None:
    served: ServedLoad = texts.get(Method.DRAFT_MODEL, 3, 4)
    full = [step for step in served.steps if step.is_whole and step.decoding == 4]
    assert len(full) > 20
    assert all(step.drafted == 12 for step in full)
    assert np.median([step.seconds for step in full]) > 1e-4
    assert all(step.context > 10 for step in full)
