"""One trace foretells every number of draft tokens: replayed, it gives the counts of a decoder
that really speculated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from capplan.schema.cells import DraftSampling  # noqa: E402
from capplan.schema.measured_setup import NgramDraft  # noqa: E402
from profiler.backends.torch_local import TorchBackend  # noqa: E402
from profiler.protocol import LoadRequest, RoundsOutcome, SamplingPoint, Trace  # noqa: E402

GREEDY = SamplingPoint(temperature=0, max_tokens=24, seed=0)


@pytest.fixture(scope="module", autouse=True)
def _one_thread(tiny_llms: Any) -> None:
    """Importing the helper sets it: thousands of tiny passes crawl where two threads meet."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_llms: Any) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("trace")
    target = tiny_llms.save_target(folder / "target")
    return target, tiny_llms.save_draft(target, folder / "draft")


def backend_for(kind: str, folders: tuple[Path, Path]) -> TorchBackend:
    backend = TorchBackend()
    target, draft = map(str, folders)
    lookup = kind == "lookup"
    backend.load(
        LoadRequest(
            target,
            None if lookup else draft,
            prompt_lookup=(1, 3) if lookup else None,
            device="cpu",
        )
    )
    return backend


def replayed(trace: Trace, key: str, tokens_a_round: int, rng: np.random.Generator) -> np.ndarray:
    """Walk rounds over every text; return rounds and emitted tokens of each request."""
    walked = []
    for start, end in zip(trace.offsets, trace.offsets[1:], strict=False):
        position, rounds = 1, 0
        while position < end - start:
            place = start + position
            if trace.kind == "per_start":
                accepted = min(int(trace.arrays["accepted"][place]), tokens_a_round)
            else:
                chances = trace.arrays[key][place : min(place + tokens_a_round, end)]
                refused = np.flatnonzero(rng.random(len(chances)) >= chances)
                accepted = int(refused[0]) if len(refused) else len(chances)
            position += accepted + 1
            rounds += 1
        walked.append((rounds, end - start - 1))
    return np.array(walked)


def run(
    backend: TorchBackend,
    prompts: list[tuple[int, ...]],
    sampling: SamplingPoint,
    tokens_a_round: int,
    kind: str,
) -> RoundsOutcome:
    mode = None if kind == "lookup" else DraftSampling(kind)
    return backend.run_rounds(prompts, sampling, tokens_a_round, mode)


@pytest.mark.parametrize("kind", ["greedy", "lookup"])
def test_at_temperature_0_the_replay_counts_what_the_decoder_counted(
    folders: tuple[Path, Path], tiny_llms: Any, kind: str
) -> None:
    backend = backend_for(kind, folders)
    prompts = tiny_llms.prompts(5)
    trace = backend.trace(backend.generate(prompts, GREEDY), GREEDY)
    for tokens_a_round in (1, 2, 4, 8):
        outcome = run(backend, prompts, GREEDY, tokens_a_round, kind)
        assert outcome.identical_outputs == len(prompts)
        walked = replayed(trace, "accept_greedy", tokens_a_round, np.random.default_rng(0))
        assert (outcome.rounds, outcome.emitted) == tuple(walked.sum(0))
        assert outcome.rounds < outcome.emitted


@pytest.mark.parametrize("kind", ["probabilistic", "greedy", "lookup"])
def test_at_temperature_08_tokens_a_round_agree_within_sampling_error(
    folders: tuple[Path, Path], tiny_llms: Any, kind: str
) -> None:
    # Low temperature on these wide weights would be greedy; 0.8 leaves about half a choice.
    warm = SamplingPoint(temperature=0.8, max_tokens=24, seed=7)
    backend = backend_for(kind, folders)
    prompts = tiny_llms.prompts(24, seed=2)
    trace = backend.trace(backend.generate(prompts, warm), warm)
    outcome = run(backend, prompts, warm, 3, kind)
    walked = np.concatenate(
        [
            replayed(trace, f"accept_{kind}", 3, np.random.default_rng(seed))
            for seed in range(1 if kind == "lookup" else 10)
        ]
    )
    ratio = walked[:, 1].sum() / walked[:, 0].sum()
    # Spread over requests of the ratio estimator; the decoder's own run has as much again.
    residual = walked[:, 1] - ratio * walked[:, 0]
    error = residual.std() / walked[:, 0].mean() / np.sqrt(len(prompts))
    measured = outcome.emitted / outcome.rounds
    assert abs(measured - ratio) < 3 * np.sqrt(2) * error
    assert error < 0.1 * ratio
    assert outcome.identical_outputs is None


def test_the_draft_kinds_differ_at_temperature_08(
    folders: tuple[Path, Path], tiny_llms: Any
) -> None:
    warm = SamplingPoint(temperature=0.8, max_tokens=24, seed=7)
    backend = backend_for("probabilistic", folders)
    prompts = tiny_llms.prompts(24, seed=2)
    trace = backend.trace(backend.generate(prompts, warm), warm)
    means = {key: array.mean() for key, array in trace.arrays.items()}
    assert abs(means["accept_greedy"] - means["accept_probabilistic"]) > 0.02


def test_counts_of_a_run_add_up(folders: tuple[Path, Path], tiny_llms: Any) -> None:
    backend = backend_for("greedy", folders)
    prompts = tiny_llms.prompts(5)
    outcome = run(backend, prompts, GREEDY, 4, "greedy")
    assert outcome.drafted == 4 * outcome.rounds
    assert outcome.accepted == sum(outcome.accepted_per_position)
    assert list(outcome.accepted_per_position) == sorted(
        outcome.accepted_per_position, reverse=True
    )
    # Every round emits what it accepted and one more; the end of a text cuts the last one.
    assert outcome.emitted <= outcome.accepted + outcome.rounds
    assert outcome.emitted >= outcome.accepted + outcome.rounds - 4 * len(prompts)
    assert outcome.baseline_emitted == outcome.emitted
    assert min(outcome.seconds, outcome.baseline_seconds) > 0


def test_rounds_without_a_match_count_as_rounds(
    folders: tuple[Path, Path], tiny_llms: Any
) -> None:
    backend = TorchBackend()
    # No 12-gram repeats within so short a text but at its looping end.
    backend.load(LoadRequest(str(folders[0]), prompt_lookup=(12, 12), device="cpu"))
    outcome = run(backend, tiny_llms.prompts(4), GREEDY, 4, "lookup")
    assert outcome.drafted < 4 * outcome.rounds
    assert outcome.emitted <= outcome.rounds + outcome.accepted
    never = NgramDraft(prompt_lookup_min=12, prompt_lookup_max=12)
    assert backend.draft() == never
