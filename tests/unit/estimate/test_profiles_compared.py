"""Two profiles side by side: step times, acceptance by task, settings, reported memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from capplan.estimate.acceptance_changes import TraceKey, compare_acceptance, traced_tasks
from capplan.estimate.profile_settings import differing, reported, settings_changed
from capplan.estimate.step_changes import compare_steps, round_ratio_error, run_error
from capplan.schema.cells import DraftSampling, Phase, Role, TimingCell
from capplan.schema.difference import Quality
from capplan.schema.measured_setup import EngineDraft
from capplan.schema.profile import EngineMemory, MemoryRecord
from capplan.schema.verdict import Reason, Stability, Verdict

STABLE = Verdict(stability=Stability.STABLE)
RUN = 0.01
"""Half of the drift that a run may show by its own check."""


def step(
    *seconds: float,
    batch: int = 1,
    context: int = 128,
    phase: Phase = Phase.DECODE,
    role: Role = Role.TARGET,
    stability: Stability = Stability.STABLE,
) -> TimingCell:
    return TimingCell(
        role=role, phase=phase, batch=batch, tokens_per_sequence=1, context=context,
        seconds=seconds, verdict=Verdict(stability=stability),
    )  # fmt: skip


def timed(synthetic: Any, *cells: TimingCell, **more: Any) -> Any:
    return synthetic.profile(timing=cells, **more)[0]


# ---- step times


def test_a_ratio_is_of_medians_and_its_error_of_both_medians_and_both_runs(
    synthetic: Any,
) -> None:
    before = timed(synthetic, step(0.9, 1.0, 1.1))
    after = timed(synthetic, step(1.8, 2.0, 2.2))
    (row,), by_batch = compare_steps(before, after)
    assert (row.label, row.quality, row.samples) == ("target decode", Quality.STEP_TIME, (1, 1))
    assert row.difference == pytest.approx(math.log(2))
    assert (row.before, row.after) == (pytest.approx(1.0), pytest.approx(2.0))
    # a standard deviation of 10 % in three values, times sqrt(pi / 2) for a median
    of_median = math.sqrt(math.pi / 2) * 0.1 / math.sqrt(3)
    scatter = math.hypot(of_median, of_median)
    error = math.hypot(scatter, RUN, RUN)
    assert row.standard_error == pytest.approx(error)
    assert row.degrees == pytest.approx(4.0 / (scatter / error) ** 4)
    assert by_batch == []  # one batch: its row would be the same again


def test_batches_have_rows_of_their_own_and_points_between_contexts_scatter(
    synthetic: Any,
) -> None:
    before = timed(synthetic, step(1.0), step(1.0, batch=4), step(1.0, batch=4, context=1000))
    after = timed(synthetic, step(1.1), step(1.2, batch=4), step(1.4, batch=4, context=1010))
    overall, by_batch = compare_steps(before, after)
    assert [row.label for row in by_batch] == ["target decode, batch 1", "target decode, batch 4"]
    ratios = np.log([1.1, 1.2, 1.4])
    assert overall[0].difference == pytest.approx(ratios.mean())
    among = float(ratios.std(ddof=1)) / math.sqrt(3)
    assert overall[0].standard_error == pytest.approx(math.hypot(among, RUN, RUN))
    share = (among / overall[0].standard_error) ** 4
    assert overall[0].degrees == pytest.approx(2.0 / share)
    # a single value has no spread of its own: the runs' error is all there is, and it is given
    assert by_batch[0].standard_error == pytest.approx(math.hypot(RUN, RUN))
    assert by_batch[0].degrees == math.inf


def test_two_repetitions_already_tell_a_spread(synthetic: Any) -> None:
    before = timed(synthetic, step(0.98, 1.02))
    (row,), _ = compare_steps(before, timed(synthetic, step(3.0)))
    # a standard deviation of 0.04 / sqrt(2) in two values about 1; the single value has none
    of_median = math.sqrt(math.pi / 2) * 0.04 / math.sqrt(2) / math.sqrt(2)
    assert row.standard_error == pytest.approx(math.hypot(of_median, RUN, RUN))
    assert row.difference == pytest.approx(math.log(3))
    assert row.degrees == pytest.approx(1.0 / (of_median / row.standard_error) ** 4)


def test_two_points_already_tell_a_spread(synthetic: Any) -> None:
    before = timed(synthetic, step(1.0), step(1.0, context=1000))
    after = timed(synthetic, step(1.0), step(1.5, context=1000))
    (row,), _ = compare_steps(before, after)
    among = math.log(1.5) / 2  # a standard deviation of log(1.5) / sqrt(2), over sqrt(2)
    assert row.standard_error == pytest.approx(math.hypot(among, RUN, RUN))


def test_points_that_repeat_badly_count_by_their_repetitions(synthetic: Any) -> None:
    cells = [step(0.5, 1.0, 1.5), step(0.5, 1.0, 1.5, context=5000)]
    one = timed(synthetic, *cells)
    (row,), _ = compare_steps(one, one)
    of_median = math.sqrt(math.pi / 2) * 0.5 / math.sqrt(3)
    within = math.sqrt(2 * 2 * of_median**2) / 2
    assert row.standard_error == pytest.approx(math.hypot(within, RUN, RUN))
    assert row.difference == 0.0


def test_only_points_that_both_measured_are_compared(synthetic: Any) -> None:
    before = timed(synthetic, step(1.0), step(1.0, context=1000), step(9.0, batch=8))
    after = timed(synthetic, step(2.0, context=1049), step(4.0, context=1060), step(7.0, batch=9))
    (row,), _ = compare_steps(before, after)
    # 1,049 is 4.7 % from 1,000 and taken; 1,060 is 5.8 % away
    assert row.samples == (1, 1)
    assert row.after == pytest.approx(2.0)


def test_an_empty_cache_is_a_context_like_others(synthetic: Any) -> None:
    empty = timed(synthetic, step(1.0, context=0))
    assert compare_steps(empty, timed(synthetic, step(2.0, context=0)))[0][0].after == 2.0
    assert compare_steps(empty, timed(synthetic, step(2.0, context=1))) == ([], [])


def test_the_nearest_of_several_contexts_is_taken(synthetic: Any) -> None:
    before = timed(synthetic, step(1.0, context=1000))
    after = timed(synthetic, step(4.0, context=1030), step(2.0, context=1010))
    assert compare_steps(before, after)[0][0].after == pytest.approx(2.0)


def test_the_difference_is_of_two_times_that_are_not_a_second(synthetic: Any) -> None:
    (row,), _ = compare_steps(timed(synthetic, step(0.25)), timed(synthetic, step(0.2)))
    assert row.difference == pytest.approx(math.log(0.8))


def test_a_repeated_point_is_one_and_unusable_ones_are_none(synthetic: Any) -> None:
    before = timed(
        synthetic,
        step(1.0), step(3.0), step(2.0),
        step(5.0, batch=2, stability=Stability.INVALID),
        step(0.0, batch=3),
    )  # fmt: skip
    rows, by_batch = compare_steps(before, before)
    assert (rows[0].samples, rows[0].before) == ((1, 1), pytest.approx(2.0))
    assert by_batch == []
    assert compare_steps(before, timed(synthetic)) == ([], [])


def test_a_run_that_moved_is_trusted_by_half_of_it(synthetic: Any) -> None:
    reason = Reason(check="sentinel_drift", value=0.08, threshold=0.02, remedy="")
    other = Reason(check="noise", value=0.5, threshold=0.02, remedy="")
    noisy = Verdict(stability=Stability.NOISY, reasons=(reason, other))
    moved = timed(synthetic, step(1.0), verdict=noisy)
    assert run_error(moved) == 0.04
    assert run_error(timed(synthetic, step(1.0))) == RUN
    (row,), _ = compare_steps(moved, timed(synthetic, step(1.0)))
    assert row.standard_error == pytest.approx(math.hypot(0.04, RUN))


def test_a_rounds_cost_in_plain_steps_knows_no_error_of_the_run(synthetic: Any) -> None:
    plain, verify = step(0.9, 1.0, 1.1), step(1.9, 2.0, 2.1, phase=Phase.VERIFY)
    draft = step(0.1, 0.11, 0.12, role=Role.DRAFT)
    both = timed(synthetic, plain, verify)
    of_plain = math.sqrt(math.pi / 2) * 0.1 / math.sqrt(3) * math.sqrt(2)
    assert round_ratio_error(both, both) == pytest.approx(math.hypot(of_plain, of_plain / 2))
    drafted = timed(synthetic, plain, verify, draft)
    assert (round_ratio_error(drafted, drafted) or 0) > (round_ratio_error(both, both) or 0)
    assert round_ratio_error(both, timed(synthetic, plain)) is None
    assert round_ratio_error(both, timed(synthetic, verify)) is None


# ---- acceptance


def test_a_key_in_words() -> None:
    plain = TraceKey(0.7, DraftSampling.GREEDY, None, 1.0, 0)
    assert plain.label == "temperature 0.7"
    full = TraceKey(1.0, DraftSampling.PROBABILISTIC, False, 0.9, 40)
    assert full.label == ("temperature 1, probabilistic drafts, not thinking, top-p 0.9, top-k 40")
    assert TraceKey(0.0, None, True, 1.0, 0).label == "temperature 0, thinking"


def engine_rounds(synthetic: Any, accepted: list[list[int]], n: int = 4, **more: Any) -> Any:
    """Return an engine's rounds; each inner list is a request."""
    flat = np.array([one for request in accepted for one in request], dtype=np.uint8)
    offsets = np.cumsum([0, *map(len, accepted)])
    arrays = {
        "acceptance/0/offsets": offsets,
        "acceptance/0/accepted": flat,
        "acceptance/0/drafted": np.full(len(flat), n, dtype=np.uint8),
    }
    cell = synthetic.acceptance_cell(
        len(accepted), 10, trace_kind="per_round", max_num_speculative_tokens=n
    )
    return synthetic.profile(acceptance=(cell,), **more)[0], arrays


def test_rounds_of_an_engine_are_compared_up_to_the_length_that_it_ran(synthetic: Any) -> None:
    before = traced_tasks(*engine_rounds(synthetic, [[2, 0], [1, 1]]))
    after = traced_tasks(*engine_rounds(synthetic, [[4, 0], [2, 2]]))
    rows, of_tasks = compare_acceptance(before, after)
    assert of_tasks == []  # one task alone: its own rows are the overall ones
    assert [row.num_speculative_tokens for row in rows] == [1, 3, 4]
    by_n = {row.num_speculative_tokens: row for row in rows}
    # at N = 1: three of four rounds accept one, before and after
    assert by_n[1].before == by_n[1].after == pytest.approx(1.75)
    assert by_n[4].before == pytest.approx(2.0)
    assert by_n[4].after == pytest.approx(3.0)
    assert all(row.paired for row in rows)
    asked, _ = compare_acceptance(before, after, [2, 9, 0, 2])
    assert [row.num_speculative_tokens for row in asked] == [2]


def test_an_engine_that_drafted_one_token_is_compared_at_one(synthetic: Any) -> None:
    tasks = traced_tasks(*engine_rounds(synthetic, [[1, 0], [1, 1]], n=1))
    assert [row.num_speculative_tokens for row in compare_acceptance(tasks, tasks)[0]] == [1]


def test_a_servers_requests_are_never_paired(synthetic: Any) -> None:
    backend = synthetic.profile()[0].backend.model_copy(update={"name": "server"})
    served = traced_tasks(*engine_rounds(synthetic, [[2, 0], [1, 1]], backend=backend))
    rows, _ = compare_acceptance(served, served)
    assert not any(row.paired for row in rows)
    assert rows[0].difference == 0.0


def test_cells_of_one_task_are_put_together_and_tasks_averaged(synthetic: Any) -> None:
    arrays: dict[str, Any] = {}
    for index, probability in enumerate((0.5, 0.7, 0.9)):
        arrays |= synthetic.trace_arrays(index, 4, 50, probability)
    cells = [synthetic.acceptance_cell(4, 50, task=task) for task in ("code", "code", "chat")]
    profile = synthetic.profile(acceptance=tuple(cells))[0]
    tasks = traced_tasks(profile, arrays)
    assert [(one.task, one.requests) for one in tasks] == [("code", 8), ("chat", 4)]
    alone = traced_tasks(profile.model_copy(update={"acceptance": tuple(cells[:1])}), arrays)
    assert alone[0].tokens_per_round(3).value < tasks[0].tokens_per_round(3).value
    assert alone[0].acceptance_rate(1).value == pytest.approx(0.5, abs=1e-6)
    overall, by_task = compare_acceptance(tasks, tasks, [3])
    (mean,) = overall
    assert mean.label == "mean of 2 tasks, temperature 0"
    assert mean.before == pytest.approx(np.mean([row.before for row in by_task]))
    assert mean.samples == (12, 12)
    assert not mean.paired  # of two cells put together the order of the prompts is lost
    assert by_task[1].paired


def test_lookups_are_compared_from_their_starts(synthetic: Any) -> None:
    tasks = traced_tasks(*synthetic.profile(draft="ngram", tokens_each=301))
    rows, _ = compare_acceptance(tasks, tasks)
    assert [row.before for row in rows] == pytest.approx([2.0, 3.0, 3.0])


def test_texts_without_a_round_have_no_row(synthetic: Any) -> None:
    tasks = traced_tasks(*synthetic.profile(tokens_each=1))
    assert compare_acceptance(tasks, tasks) == ([], [])
    assert compare_acceptance(tasks, []) == ([], [])


# ---- settings and memory


def test_what_one_table_lacks_is_empty_there() -> None:
    found = differing("option", {"a": "1", "b": "2"}, {"b": "2", "c": "3"})
    assert [(one.name, one.before, one.after) for one in found] == [("a", "1", ""), ("c", "", "3")]


def test_settings_that_differ_are_named(synthetic: Any) -> None:
    before = synthetic.profile(request={"seed": 1, "lengths": (1, 3), "share": 0.25})[0]
    device = before.environment.device.model_copy(
        update={"power_limit_w": 500.0, "cores": 8, "mig": True, "memory_bytes": None}
    )
    after = synthetic.profile(
        draft="ngram",
        environment=before.environment.model_copy(
            update={"device": device, "libraries": {"torch": "2.9"}}
        ),
        request={"seed": None, "lengths": (1, 5), "share": 0.5, "top_p": 1},
    )[0]
    found = {(one.group, one.name): (one.before, one.after) for one in
             settings_changed(before, after)}  # fmt: skip
    assert found["pairing", "method"] == ("draft_model", "ngram")
    assert found["pairing", "lookup"] == ("", "2 to 4")
    assert found["pairing", "draft"] == ("org/draft", "")
    assert found["machine", "power limit"] == ("", "500 W")
    assert found["machine", "memory"] == ("64,000,000,000 bytes", "")
    assert found["machine", "MIG"] == ("", "true")
    assert found["machine", "cores"] == ("", "8")
    assert found["machine", "library torch"] == ("", "2.9")
    assert found["request", "lengths"] == ("1, 3", "1, 5")
    assert found["request", "share"] == ("0.25", "0.5")
    assert found["request", "seed"] == ("1", "")
    assert found["request", "top p"] == ("", "1")
    assert settings_changed(before, before) == ()


def test_a_head_and_no_draft_are_told_apart(synthetic: Any) -> None:
    head = EngineDraft(method="eagle3", id="org/head")
    found = settings_changed(synthetic.profile(draft=None)[0], synthetic.profile()[0].model_copy(
        update={"draft": head}
    ))  # fmt: skip
    assert [(one.name, one.before, one.after) for one in found] == [
        ("method", "none", "eagle3"),
        ("draft", "", "org/head"),
    ]


def test_memory_that_both_report_and_that_differs(synthetic: Any) -> None:
    def with_memory(tokens: int, peak: float | None, model: float | None) -> Any:
        engine = EngineMemory(
            num_speculative_tokens=3, kv_capacity_tokens=tokens, kv_block_tokens=16,
            max_model_len=4096, model_bytes=model, kv_pool_bytes=1e9,
        )  # fmt: skip
        record = MemoryRecord(
            role=Role.DRAFT, weight_bytes=2e8, kv_bytes_per_token=8192.0, peak_bytes=peak
        )
        plain = engine.model_copy(update={"num_speculative_tokens": 0, "kv_pool_bytes": None})
        return synthetic.profile(engine_memory=(engine, plain), memory=(record,))[0]

    before, after = with_memory(1000, 5e8, 2e9), with_memory(1200, 6e8, None)
    found = reported(before, after)
    assert [(one.name, one.unit, one.before, one.after) for one in found] == [
        ("KV capacity, N=3", "tokens", 1000, 1200),
        ("KV capacity", "tokens", 1000, 1200),
        ("draft peak", "bytes", 5e8, 6e8),
    ]
    assert found[0].relative == pytest.approx(0.2)
    assert reported(before, with_memory(1000, None, 2e9)) == ()
