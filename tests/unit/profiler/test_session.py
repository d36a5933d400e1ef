"""A whole session over the fake backend: order, resumption, budget, interruption, failures."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from capplan.errors import Interrupted, ProfileError, PromptsError, StorageError
from capplan.profiles.store import load_profile
from capplan.schema.cells import DraftSampling, Phase, Role
from capplan.schema.measured_setup import Device
from capplan.schema.pairing import Method
from capplan.schema.verdict import Stability
from profiler.backends.fake import MAX_CONTEXT, FakeBackend
from profiler.experiment import Wishes
from profiler.telemetry.fake import FakeTelemetry
from profiler.timing.verdict import doubt

SMALL = Wishes(batches=(1, 2), contexts=(64,), max_tokens=12, requests_per_task=2)


def cell_keys(profile):
    timing = [(c.role, c.batch, c.tokens_per_sequence, c.context) for c in profile.timing]
    acceptance = [(c.task, c.temperature) for c in profile.acceptance]
    rounds = [(c.task, c.temperature, c.num_speculative_tokens) for c in profile.rounds]
    return sorted(map(str, [*timing, *acceptance, *rounds]))


def test_a_full_session_measures_every_kind_of_cell_and_is_stable(session):
    profile = session.run(wishes=SMALL).profile
    assert profile.complete
    assert profile.verdict.stability is Stability.STABLE
    assert profile.skipped == ()
    assert {c.phase for c in profile.timing} == {Phase.PREFILL, Phase.DECODE, Phase.VERIFY}
    assert len({c.task for c in profile.acceptance}) == 6
    assert {c.num_speculative_tokens for c in profile.rounds} == {1, 2, 4, 8}
    assert profile.draft.method is Method.NGRAM


def test_what_lies_on_disk_is_what_was_returned(session):
    stored = session.run(wishes=SMALL)
    read = load_profile(session.path)
    assert read.profile == stored.profile
    assert read.arrays.keys() == stored.arrays.keys()
    assert all(np.array_equal(read.arrays[k], stored.arrays[k]) for k in read.arrays)


def test_sidecar_arrays_have_one_value_a_generated_token(session):
    stored = session.run(wishes=SMALL)
    for index, cell in enumerate(stored.profile.acceptance):
        offsets = stored.arrays[f"acceptance/{index}/offsets"]
        assert len(offsets) == cell.requests + 1
        assert len(stored.arrays[f"acceptance/{index}/accepted"]) == cell.generated_tokens


def test_the_sentinel_is_timed_first_in_the_middle_and_last(session):
    timing = session.run(wishes=SMALL).profile.timing
    at = [i for i, c in enumerate(timing) if (c.phase, c.batch, c.context) == ("decode", 1, 64)]
    assert len(at) == 3
    assert at[0] == 0
    assert at[-1] == len(timing) - 1


def test_progress_counts_up_to_the_total_with_time_left(session):
    session.run(wishes=SMALL)
    counts = [p.done for p in session.progress]
    assert counts == sorted(counts)
    assert session.progress[-1].done == session.progress[-1].total > 0
    assert any(p.eta_seconds and p.eta_seconds > 0 for p in session.progress)


def test_the_target_writes_once_a_temperature_for_all_tasks(session):
    calls = []
    session.run(wishes=SMALL, backend=FakeBackend(hook=calls.append))
    generated = [call for call in calls if call.startswith("generate")]
    assert sorted(generated) == ["generate 0.0", "generate 0.8"]


def test_a_draft_model_is_timed_and_run_in_both_sampling_modes(session):
    profile = session.run(prompt_lookup=None, draft="small", wishes=SMALL).profile
    assert {c.role for c in profile.timing} == {Role.TARGET, Role.DRAFT}
    sampled = {(c.temperature, c.draft_sampling) for c in profile.rounds}
    assert (0.8, DraftSampling.PROBABILISTIC) in sampled
    assert (0.0, DraftSampling.PROBABILISTIC) not in sampled


def test_dummy_weights_give_times_and_no_acceptance(session):
    profile = session.run(weights="dummy", wishes=SMALL).profile
    assert profile.timing
    assert profile.acceptance == profile.rounds == ()
    assert "random" in profile.skipped[0].reason


def test_without_a_draft_only_times_are_measured_and_the_file_says_so(session):
    profile = session.run(prompt_lookup=None, wishes=SMALL).profile
    assert profile.timing
    assert not profile.acceptance
    assert "--draft" in profile.skipped[0].reason


@pytest.mark.parametrize("cells_before", [1, 4, 11])
def test_a_killed_run_goes_on_to_the_same_cells(session, fail_at, cells_before):
    class Killed(BaseException):
        """As sudden as a signal: nothing above the backend may handle it."""

    whole = session.run(wishes=SMALL, force=True).profile
    with pytest.raises(Killed):
        session.run(FakeBackend(fail_at(cells_before, Killed())), wishes=SMALL, force=True)
    if cells_before > 1:
        assert not load_profile(session.path).profile.complete
    else:
        session.path.unlink()
    resumed = session.run(wishes=SMALL, resume=True).profile
    assert resumed.complete
    assert cell_keys(resumed) == cell_keys(whole)


def test_resuming_keeps_the_cells_already_measured(session, fail_at):
    with pytest.raises(Interrupted):
        session.run(FakeBackend(fail_at(9, KeyboardInterrupt())), wishes=SMALL)
    before = load_profile(session.path)
    after = session.run(wishes=SMALL, resume=True)
    assert after.profile.id == before.profile.id
    assert after.profile.timing[: len(before.profile.timing)] == before.profile.timing
    for key, values in before.arrays.items():
        assert np.array_equal(after.arrays[key], values)


def test_ctrl_c_says_how_many_cells_are_safe_and_how_to_go_on(session, fail_at):
    with pytest.raises(Interrupted) as caught:
        session.run(FakeBackend(fail_at(9, KeyboardInterrupt())), wishes=SMALL)
    saved = load_profile(session.path).profile
    count = len(saved.timing) + len(saved.acceptance) + len(saved.rounds)
    assert f"{count} of " in caught.value.message
    assert "--resume" in caught.value.remedy
    assert caught.value.exit_code == 130


def test_ctrl_c_while_loading_writes_nothing(session, fail_at):
    with pytest.raises(Interrupted, match="nothing was written"):
        session.run(FakeBackend(fail_at(0, KeyboardInterrupt())), wishes=SMALL)
    assert list(session.folder.iterdir()) == []


def test_a_complete_profile_is_returned_without_loading_anything(session, fail_at):
    done = session.run(wishes=SMALL).profile
    backend = FakeBackend(fail_at(0, AssertionError("loaded")))
    assert session.run(backend, wishes=SMALL, resume=True).profile == done


def test_another_request_is_not_resumed_and_the_difference_is_named(session):
    session.run(wishes=SMALL)
    with pytest.raises(ProfileError, match="seed: 0 then, 7 now"):
        session.run(wishes=SMALL, seed=7, resume=True)


def test_other_weights_under_the_same_name_are_not_resumed(session, fail_at):
    class Retrained(FakeBackend):
        def target(self):
            return super().target().model_copy(update={"weight_sha256": "beef"})

    with pytest.raises(Interrupted):
        session.run(FakeBackend(fail_at(9, KeyboardInterrupt())), wishes=SMALL)
    with pytest.raises(ProfileError, match=r"target\.weight_sha256"):
        session.run(Retrained(), wishes=SMALL, resume=True)


def test_an_existing_profile_is_not_overwritten_unasked(session):
    first = session.run(wishes=SMALL).profile
    with pytest.raises(ProfileError, match="not overwritten"):
        session.run(wishes=SMALL)
    assert load_profile(session.path).profile == first
    assert session.run(wishes=SMALL, force=True).profile.id != first.id


def test_a_file_that_is_no_profile_is_left_alone(session):
    session.path.write_text("my thesis")
    with pytest.raises(ProfileError):
        session.run(wishes=SMALL, resume=True)
    assert session.path.read_text() == "my thesis"


def test_a_budget_stops_in_good_order_with_something_of_each_kind(session):
    profile = session.run(wishes=SMALL, budget_minutes=0.3).profile
    assert not profile.complete
    assert profile.timing
    assert profile.acceptance
    assert profile.rounds
    assert profile.skipped
    assert all("budget of 0.3 min" in s.reason for s in profile.skipped)
    assert session.run(wishes=SMALL, resume=True).profile.skipped == ()


def test_a_budget_is_kept(session):
    backend = FakeBackend()
    session.run(backend, wishes=SMALL, budget_minutes=0.3)
    assert backend.clock.now_s() <= 0.3 * 60 * 1.1


def test_a_failed_cell_is_recorded_and_the_sweep_goes_on(session):
    def hook(what):
        if what == "prepare target 2 9":
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB\nmore text")

    profile = session.run(FakeBackend(hook), wishes=SMALL).profile
    assert profile.complete
    (skipped,) = profile.skipped
    assert skipped.what == "time target verify 9 tokens, batch 2, context 64"
    assert skipped.reason == "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"


def test_a_point_beyond_the_context_is_skipped_with_the_limit(session):
    wishes = Wishes(batches=(1,), contexts=(64, MAX_CONTEXT), max_tokens=12, requests_per_task=1)
    skipped = session.run(wishes=wishes).profile.skipped
    assert {f"{MAX_CONTEXT} tokens" in s.reason for s in skipped} == {True}


def test_a_defect_in_the_backend_is_not_taken_for_a_failed_cell(session, fail_at):
    with pytest.raises(TypeError):
        session.run(FakeBackend(fail_at(3, TypeError("a bug"))), wishes=SMALL)


def test_a_machine_that_slows_down_makes_the_profile_noisy(session):
    verdict = session.run(FakeBackend(speed_change_per_s=2e-3), wishes=SMALL).profile.verdict
    assert verdict.stability is Stability.NOISY
    (reason,) = [r for r in verdict.reasons if r.check == "sentinel_drift"]
    assert reason.value > reason.threshold == 0.02
    assert reason.remedy


def test_a_foreign_process_makes_the_profile_invalid_even_after_resuming(session, fail_at):
    foreign = doubt("foreign_process", 1.0, 0.0, "Stop it.", Stability.INVALID)
    backend = FakeBackend(fail_at(9, KeyboardInterrupt()))
    with pytest.raises(Interrupted):
        session.run(backend, FakeTelemetry(backend.clock, isolations=[foreign]), wishes=SMALL)
    verdict = session.run(wishes=SMALL, resume=True).profile.verdict
    assert verdict.stability is Stability.INVALID


def test_energy_is_read_once_a_batch_over_more_than_a_second(session):
    backend = FakeBackend()
    power = session.run(
        backend, FakeTelemetry(backend.clock, watts=300.0), wishes=SMALL
    ).profile.power
    assert [p.batch for p in power] in ([1, 2], [2, 1])
    assert all(p.seconds >= 1.0 for p in power)
    assert all(p.joules / p.seconds == pytest.approx(300.0) for p in power)


def test_a_gpu_seen_by_the_driver_but_not_used_is_not_recorded(session):
    gpu = Device(kind="cuda", name="GPU", memory_bytes=1e9)
    backend = FakeBackend()
    profile = session.run(
        backend, FakeTelemetry(backend.clock, seen_device=gpu), wishes=SMALL
    ).profile
    assert profile.environment.device.kind == "cpu"


def test_a_prompt_longer_than_the_context_is_named_with_line_and_limit(session, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("short\n" + "long " * 300 + "\n")
    with pytest.raises(PromptsError, match=r"prompts.txt:2: .* 1499 tokens, at most 1012"):
        session.run(wishes=SMALL, prompts=prompts)


def test_a_missing_folder_is_found_before_anything_is_loaded(session, fail_at):
    session.folder = session.folder / "absent"
    with pytest.raises(StorageError, match="does not exist"):
        session.run(FakeBackend(fail_at(0, AssertionError("loaded"))), wishes=SMALL)


def test_the_backend_and_the_telemetry_are_closed_whatever_happens(session, fail_at):
    backend = FakeBackend(fail_at(3, KeyboardInterrupt()))
    telemetry = FakeTelemetry(backend.clock)
    with pytest.raises(Interrupted):
        session.run(backend, telemetry, wishes=SMALL)
    assert telemetry.closed


def test_rounds_count_what_the_trace_predicts(session):
    """The fake's events are certain, so replaying its trace gives its counts exactly."""
    wishes = Wishes(batches=(1,), contexts=(64,), max_tokens=40, requests_per_task=2)
    stored = session.run(wishes=wishes)
    tasks = [(c.task, c.temperature) for c in stored.profile.acceptance]
    for cell in stored.profile.rounds:
        index = tasks.index((cell.task, cell.temperature))
        offsets = stored.arrays[f"acceptance/{index}/offsets"]
        accepted = stored.arrays[f"acceptance/{index}/accepted"]
        rounds = 0
        for start, end in pairwise(offsets):
            position = start + 1
            while position < end:
                position += min(int(accepted[position]), cell.num_speculative_tokens) + 1
                rounds += 1
        assert cell.rounds == rounds
