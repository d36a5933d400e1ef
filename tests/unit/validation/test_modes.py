"""Modes: what they use, what they leave out, and that nothing leaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.validation.modes import acceptance, batch, choose_n, forward, step, verify
from capplan.validation.rows import (
    AcceptanceRow,
    PublishedRows,
    SpeedupRow,
    ThroughputRow,
    VerifyRow,
)
from capplan.validation.runs import speculative_runs, throughput_speedup

TASKS = {"chat": 0.70, "code": 0.80, "maths": 0.75, "news": 0.60}
LENGTHS = (3, 5, 7)


def tau(alpha: float, n: int) -> float:
    return (1 - alpha ** (n + 1)) / (1 - alpha)


def run(task: str, n: int, **changes: object) -> SpeedupRow:
    tokens = tau(TASKS[task], n)
    row = SpeedupRow(
        id=f"{task}-{n}",
        target="T",
        draft="D",
        method="chain",
        gpu="G",
        temperature=0.0,
        task=task,
        batch_size=1.0,
        N=float(n),
        verify_tokens=n + 1.0,
        tau=tokens,
        measured_speedup=tokens / (1.1 + 0.08 * n),
        source_key="paper",
    )
    return replace(row, **changes)  # type: ignore[arg-type] - test values


SWEEP = tuple(run(task, n) for task in TASKS for n in LENGTHS)
ROWS = PublishedRows(speedup=SWEEP)


@pytest.mark.parametrize("mode", [step, forward])
def test_a_regular_table_is_predicted_within_its_interval(mode) -> None:  # type: ignore[no-untyped-def] - a module
    scored = mode.predict(ROWS)
    assert scored
    for one in scored:
        assert one.predicted == pytest.approx(one.measured, rel=0.05)
        assert one.low <= one.measured <= one.high


@pytest.mark.parametrize("mode", [step, forward, choose_n])
def test_the_outcome_of_a_row_does_not_reach_its_own_prediction(mode) -> None:  # type: ignore[no-untyped-def] - a module
    def predicted(rows: PublishedRows) -> dict[str, float]:
        return {one.label: one.predicted for one in mode.predict(rows)}

    before = predicted(ROWS)
    changed = tuple(
        replace(row, measured_speedup=row.measured_speedup * 3)  # type: ignore[operator] - given above
        if (row.task, row.N) == ("chat", 5)
        else row
        for row in SWEEP
    )
    after = predicted(PublishedRows(speedup=changed))
    own = [label for label in before if " N=5, chat" in label]
    for label in own:
        if mode is choose_n:
            continue
        assert after[label] == pytest.approx(before[label], rel=1e-12)
    assert mode is choose_n or own


def test_forward_uses_nothing_of_the_task_but_tokens_at_smaller_lengths() -> None:
    def predicted(rows: PublishedRows) -> list[float]:
        return [one.predicted for one in forward.predict(rows) if " N=5, chat" in one.label]

    changed = tuple(
        replace(row, measured_speedup=9.0, tau=row.tau if row.N == 3 else 4.4)
        if row.task == "chat"
        else row
        for row in SWEEP
    )
    assert predicted(PublishedRows(speedup=changed)) == pytest.approx(predicted(ROWS))


def test_a_copy_of_a_row_is_left_out_with_it() -> None:
    twice = PublishedRows(speedup=(*SWEEP, *SWEEP))
    for once, again in zip(step.predict(ROWS), step.predict(twice), strict=False):
        assert again.predicted == pytest.approx(once.predicted, rel=0.02)
    odd = run("chat", 5, measured_speedup=9.0)
    rows = PublishedRows(speedup=(*(r for r in SWEEP if r.id != odd.id), odd, odd))
    strange = [one for one in step.predict(rows) if one.measured == 9.0]
    assert len(strange) == 2
    assert all(one.predicted < 4 for one in strange)


def test_a_row_that_another_paper_repeats_is_not_predicted_from_it() -> None:
    copied = tuple(replace(row, source_key="later paper") for row in SWEEP)
    alone = {one.label: one.predicted for one in step.predict(ROWS)}
    for one in step.predict(PublishedRows(speedup=(*SWEEP, *copied))):
        assert one.predicted == pytest.approx(alone[one.label])


def test_speeds_give_the_speedup_and_printed_ratios_do_not() -> None:
    row = ThroughputRow(baseline=7.07, spec=4.71, unit="TPOT ms", speedup=1.61)
    assert throughput_speedup(row) == pytest.approx(1.501, rel=1e-3)
    faster = ThroughputRow(baseline=100.0, spec=150.0, unit="tok/s", speedup=None)
    assert throughput_speedup(faster) == 1.5
    assert throughput_speedup(ThroughputRow(speedup=1.3)) == 1.3


def test_times_stand_in_for_a_missing_speedup() -> None:
    rows = PublishedRows(speedup=(run("chat", 3, measured_speedup=None, t_ar_ms=6, t_sd_ms=4),))
    assert [one.speedup for one in speculative_runs(rows)] == [1.5]


def test_choose_n_loses_nothing_where_the_best_length_is_clear() -> None:
    scored = choose_n.predict(ROWS)
    assert len(scored) == len(TASKS)
    for one in scored:
        assert one.predicted == pytest.approx(one.measured, rel=0.02)
        assert one.predicted <= one.measured


def test_choose_n_may_switch_speculation_off() -> None:
    dear = tuple(replace(row, measured_speedup=row.measured_speedup / 4) for row in SWEEP)  # type: ignore[operator] - given above
    for one in choose_n.predict(PublishedRows(speedup=dear)):
        assert one.measured == one.predicted == 1.0


def test_acceptance_predicts_the_longest_length_from_the_others() -> None:
    rows = tuple(
        AcceptanceRow(
            target="T", draft="D", method="chain", task="chat", N=n, tau=t, source_key="p"
        )
        for n, t in ((3.0, 2.95), (5.0, 3.45), (7.0, 3.68), (1.0, 1.83))
    )
    (found,) = acceptance.predict(PublishedRows(acceptance=rows))
    assert found.measured == 3.68
    assert found.predicted == pytest.approx(3.68, rel=0.03)
    assert not found.is_speedup
    assert acceptance.predict(PublishedRows(acceptance=rows[:2])) == []


def test_acceptance_of_two_files_is_counted_once() -> None:
    same = tuple(
        AcceptanceRow(
            target="T", draft="D", method="chain", task="chat", temperature=0.0,
            N=row.N, tau=row.tau, source_key="paper",
        )
        for row in SWEEP
        if row.task == "chat"
    )  # fmt: skip
    rows = PublishedRows(speedup=SWEEP, acceptance=same)
    assert len(acceptance.predict(rows)) == len(TASKS)


def test_trees_are_not_extrapolated() -> None:
    trees = tuple(run("chat", n, verify_tokens=60.0) for n in LENGTHS)
    assert acceptance.predict(PublishedRows(speedup=trees)) == []


def test_batch_predicts_inner_points_from_the_two_ends() -> None:
    speedups = {1.0: 2.0, 4.0: 1.5, 16.0: 1.15, 64.0: 0.9}
    rows = tuple(
        ThroughputRow(target="T", method="chain", load=b, speedup=x, source_key="paper")
        for b, x in speedups.items()
    )
    scored = batch.predict(PublishedRows(throughput=rows))
    assert [one.measured for one in scored] == [1.5, 1.15]
    for one in scored:
        assert one.predicted == pytest.approx(one.measured, rel=0.1)
    assert batch.predict(PublishedRows(throughput=rows[:2])) == []


def verification(model: str, batch_size: float, verify_ms: float) -> VerifyRow:
    return VerifyRow(
        model=model, gpu="G", n_gpu=8.0, batch=batch_size, context=4000.0, tokens_per_seq=4.0,
        verify_ms=verify_ms, decode_ms=5.0 + batch_size / 10, source_key="paper",
    )  # fmt: skip


def test_a_verification_timed_twice_is_left_out_whole() -> None:
    regular = [verification("T", b, (5.0 + b / 10) * 1.1) for b in (8.0, 16.0, 32.0)]
    odd = [verification("T", 24.0, 30.0), verification("T", 24.0, 30.1)]
    scored = verify.predict(PublishedRows(verify_cost=(*regular, *odd)))
    strange = [one for one in scored if one.measured > 0.02]
    assert len(strange) == 2
    assert all(one.predicted < 0.01 for one in strange)


@pytest.mark.parametrize("mode", [step, forward, verify, batch, acceptance, choose_n])
def test_nothing_in_nothing_out(mode) -> None:  # type: ignore[no-untyped-def] - a module
    assert list(mode.predict(PublishedRows())) == []
    empty = PublishedRows(
        speedup=(SpeedupRow(), SpeedupRow(tau=0.5, measured_speedup=1.0)),
        throughput=(ThroughputRow(), ThroughputRow(tau=2.0, baseline=0.0, spec=1.0)),
        acceptance=(AcceptanceRow(), AcceptanceRow(N=2.5, tau=2.0)),
        verify_cost=(VerifyRow(), VerifyRow(verify_ms=1.0, decode_ms=0.0)),
    )
    assert list(mode.predict(empty)) == []
