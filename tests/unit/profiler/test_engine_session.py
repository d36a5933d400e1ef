"""A whole run of an engine over the fake one: order, resumption, budget, failures, faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capplan.errors import EngineError, Interrupted
from capplan.profiles.store import StoredProfile, load_profile
from capplan.schema.cells import DraftSampling, Phase
from capplan.schema.pairing import Method
from capplan.schema.verdict import Stability
from profiler.backends.fake_engine import FakeEngineFactory
from profiler.experiment import Wishes
from profiler.session import SessionRequest, run_session
from profiler.telemetry.fake import FakeTelemetry

SMALL = Wishes(batches=(1, 4), contexts=(64,), lengths=(1, 3), max_tokens=12, requests_per_task=6)


@dataclass
class EngineSession:
    """Runs sessions of the fake engine in one folder."""

    path: Path

    def run(self, factory: FakeEngineFactory | None = None, **wanted: Any) -> StoredProfile:
        used = factory or FakeEngineFactory()
        options = {"target": "big", "method": Method.NGRAM, "wishes": SMALL, **wanted}
        return run_session(
            SessionRequest(output=self.path, backend="fake-engine", **options),
            on_progress=lambda _step: None,
            clock=used.clock,
            telemetry=FakeTelemetry(used.clock),
            engine=used,
        )


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineSession:
    return EngineSession(tmp_path / "profile.json")


def fails_at(what: str, error: BaseException, times: int = 1) -> Callable[[str], None]:
    left = [times]

    def hook(done: str) -> None:
        if done.startswith(what) and left[0]:
            left[0] -= 1
            raise error

    return hook


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_run_holds_every_kind_of_cell(session, kind):
    factory = FakeEngineFactory(kind=kind)
    profile = session.run(factory).profile
    assert profile.complete
    assert profile.verdict.stability is Stability.STABLE
    assert {cell.phase for cell in profile.timing} == {Phase.PREFILL, Phase.DECODE, Phase.ROUND}
    rounds = {c.tokens_per_sequence - 1 for c in profile.timing if c.phase is Phase.ROUND}
    assert rounds == {1, 3}
    assert {c.num_speculative_tokens for c in profile.rounds} == {1, 3}
    assert {c.temperature for c in profile.losslessness} == {0.0, 0.8}
    assert {m.num_speculative_tokens for m in profile.engine_memory} == {0, 1, 3}
    assert factory.running == 0


@pytest.mark.parametrize(("kind", "most"), [("cpu", 2), ("cuda", 1)])
def test_engines_run_side_by_side_on_a_cpu_and_one_at_a_time_on_a_gpu(session, kind, most):
    factory = FakeEngineFactory(kind=kind)
    session.run(factory)
    assert factory.most_running == most


def test_on_a_gpu_the_plain_engine_is_timed_first_and_last(session):
    factory = FakeEngineFactory(kind="cuda")
    profile = session.run(factory).profile
    lengths = [configuration.num_speculative_tokens for configuration in factory.started]
    assert lengths[0] == 0
    assert lengths[-1] == 0
    at = [c for c in profile.timing if (c.phase, c.batch, c.context) == (Phase.DECODE, 1, 64)]
    assert len(at) == 2


def test_on_a_cpu_every_round_time_has_plain_steps_of_the_same_minutes_before_it(session):
    timing = [c for c in session.run().profile.timing if c.phase is not Phase.PREFILL]
    for plain, rounds in zip(timing[::2], timing[1::2], strict=True):
        assert (plain.phase, rounds.phase) == (Phase.DECODE, Phase.ROUND)
        assert (plain.batch, plain.context) == (rounds.batch, rounds.context)


def test_the_trace_has_the_longest_drafts_one_cell_a_task_and_counts_rounds(session):
    stored = session.run()
    assert len(stored.profile.acceptance) == 12
    for index, cell in enumerate(stored.profile.acceptance):
        assert cell.trace_kind == "per_round"
        assert cell.max_num_speculative_tokens == 3
        offsets = stored.arrays[f"acceptance/{index}/offsets"]
        drafted = stored.arrays[f"acceptance/{index}/drafted"]
        accepted = stored.arrays[f"acceptance/{index}/accepted"]
        assert len(offsets) == cell.requests + 1
        assert offsets[-1] == len(drafted) == len(accepted)
        assert np.all(accepted <= drafted)


def test_a_draft_model_is_also_run_with_sampled_drafts_above_temperature_0(session):
    profile = session.run(method=Method.DRAFT_MODEL, draft="small").profile
    sampled = {
        (c.temperature, c.num_speculative_tokens)
        for c in profile.losslessness
        if c.draft_sampling is DraftSampling.PROBABILISTIC
    }
    assert sampled == {(0.8, 3)}


def test_an_engine_that_damages_text_makes_the_profile_invalid(session):
    profile = session.run(FakeEngineFactory(corruption_nats=-1.5)).profile
    assert profile.verdict.stability is Stability.INVALID
    reasons = [r for r in profile.verdict.reasons if r.check == "losslessness"]
    assert len(reasons) == 2
    assert all(r.value == pytest.approx(-1.5, abs=0.1) for r in reasons)
    assert "temperature 0.8" in reasons[0].remedy


def test_without_a_draft_only_plain_steps_are_timed(session):
    profile = session.run(method=None).profile
    assert {cell.phase for cell in profile.timing} == {Phase.PREFILL, Phase.DECODE}
    assert any("--method" in skipped.reason for skipped in profile.skipped)


def test_an_engine_that_does_not_start_is_recorded_and_the_run_goes_on(session):
    factory = FakeEngineFactory()
    factory.hook = fails_at("start 3", EngineError("The engine ended."), times=99)
    profile = session.run(factory).profile
    assert {c.num_speculative_tokens for c in profile.rounds} == {1}
    assert any("EngineError: The engine ended." in skipped.reason for skipped in profile.skipped)
    assert factory.running == 0


def test_an_engine_that_dies_is_started_afresh_for_the_next_point(session):
    factory = FakeEngineFactory()
    factory.hook = fails_at("serve 3", EngineError("It was ended by signal 9."))
    profile = session.run(factory).profile
    assert len(profile.skipped) == 1
    assert [c.num_speculative_tokens for c in factory.started].count(3) == 2
    assert {c.num_speculative_tokens for c in profile.rounds} == {1, 3}


def test_an_interrupted_run_says_how_to_go_on_and_leaves_no_engine(session):
    factory = FakeEngineFactory()
    factory.hook = fails_at("serve 1", KeyboardInterrupt())
    with pytest.raises(Interrupted, match=r"\d+ of \d+ points"):
        session.run(factory)
    assert factory.running == 0
    assert not load_profile(session.path).profile.complete


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_resumed_run_has_the_same_cells_as_a_whole_one(session, kind):
    def keys(profile):
        timing = {(c.phase, c.batch, c.tokens_per_sequence, c.context) for c in profile.timing}
        rounds = [(c.num_speculative_tokens, c.temperature) for c in profile.rounds]
        lossless = [(c.num_speculative_tokens, c.temperature) for c in profile.losslessness]
        traces = [(c.task, c.temperature) for c in profile.acceptance]
        return timing, sorted(rounds), sorted(lossless), sorted(traces)

    whole = session.run(FakeEngineFactory(kind=kind), force=True).profile
    broken = FakeEngineFactory(kind=kind)
    broken.hook = fails_at("serve 1", KeyboardInterrupt())
    with pytest.raises(Interrupted):
        session.run(broken, force=True)
    resumed = session.run(FakeEngineFactory(kind=kind), resume=True).profile
    assert resumed.complete
    assert keys(resumed) == keys(whole)


def test_a_budget_leaves_points_out_and_says_so(session):
    profile = session.run(budget_minutes=0.05).profile
    assert not profile.complete
    assert any("budget" in skipped.reason for skipped in profile.skipped)


def test_synthetic_acceptance_is_run_on_a_gpu_and_refused_on_a_cpu(session):
    on_gpu = session.run(FakeEngineFactory(kind="cuda"), synthetic=True).profile
    tasks = {cell.task for cell in on_gpu.rounds}
    assert {"synthetic 0.5", "synthetic 0.7", "synthetic 0.9"} <= tasks
    on_cpu = session.run(synthetic=True, force=True).profile
    assert {cell.task for cell in on_cpu.rounds} == {"all"}
    assert any("synthetic" in skipped.reason for skipped in on_cpu.skipped)
