"""The demo LLM, real weights: what the trace foretells is what the decoder does."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from capplan.errors import CheckpointError
from capplan.estimate.replay import replay_per_start
from capplan.estimate.uncertainty import Z_95, ratio_of_sums
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.torch_local import TorchBackend
from profiler.prompts import embedded_prompts
from profiler.protocol import LoadRequest, SamplingPoint

COLD = SamplingPoint(temperature=0.0, max_tokens=24, seed=0)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def traced() -> tuple[TorchBackend, list[tuple[int, ...]], Any]:
    try:
        folder = demo_checkpoint()
    except CheckpointError as error:  # no network and nothing cached: nothing to test with
        pytest.skip(error.message)
    backend = TorchBackend()
    backend.load(LoadRequest(str(folder), prompt_lookup=(2, 4), device="cpu"))
    tasks = embedded_prompts().by_task
    prompts = [backend.encode(tasks[task][0].text) for task in ("maths", "translation", "summary")]
    return backend, prompts, backend.trace(backend.generate(prompts, COLD), COLD)


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_tokens_per_round_of_the_trace_are_the_decoders_own(traced: Any, n: int) -> None:
    backend, prompts, trace = traced
    arrays = trace.arrays
    counts = replay_per_start(arrays["proposed"], arrays["accepted"], trace.offsets, n)
    foretold, relative_se = ratio_of_sums(counts.emitted, counts.rounds)
    outcome = backend.run_rounds(prompts, COLD, n, None)
    assert outcome.identical_outputs == len(prompts)
    decoded = outcome.emitted / outcome.rounds
    assert decoded > 1.0
    assert foretold == pytest.approx(decoded, rel=0.03)
    assert abs(foretold - decoded) <= Z_95 * relative_se * foretold
    # the same text and deterministic lookup: not close, but equal
    assert (outcome.rounds, outcome.emitted) == (counts.rounds.sum(), counts.emitted.sum())
