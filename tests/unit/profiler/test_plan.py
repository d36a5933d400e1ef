"""The plan of an experiment, its order and its budget."""

from __future__ import annotations

from collections import Counter

import pytest

from capplan.schema.cells import Phase, Role
from profiler.cells import label
from profiler.experiment import (
    CPU_GRID,
    CUDA_GRID,
    DEMO_GRID,
    AcceptancePoint,
    RoundsPoint,
    Wishes,
    build_plan,
    default_grid,
)
from profiler.protocol import TimingPoint
from profiler.schedule import Pace, ordered, pending
from profiler.timing.clock import FakeClock

TASKS = ("code", "qa")


@pytest.mark.parametrize("grid", [CPU_GRID, CUDA_GRID, DEMO_GRID])
@pytest.mark.parametrize("draft", ["none", "lookup", "model"])
def test_no_point_is_planned_twice_but_the_sentinel(grid, draft):
    plan = build_plan(grid, Wishes(), TASKS, draft)
    counts = Counter(ordered(plan, seed=0))
    assert counts.pop(plan.sentinel) == 3
    assert set(counts.values()) == {1}


def test_every_verification_width_has_a_decode_step_to_compare_with():
    plan = build_plan(CUDA_GRID, Wishes(), TASKS, "model")
    points = {*plan.first_timing, *plan.more_timing}
    for p in points:
        if p.phase is Phase.VERIFY:
            assert TimingPoint(Role.TARGET, Phase.DECODE, p.batch, 1, p.context) in points
        if p.phase is Phase.DECODE and p.role is Role.TARGET:
            assert TimingPoint(Role.DRAFT, Phase.DECODE, p.batch, 1, p.context) in points


def test_the_user_s_wishes_replace_the_defaults():
    wishes = Wishes(temperatures=(1.0,), batches=(3,), contexts=(10, 20), max_tokens=5)
    plan = build_plan(CPU_GRID, wishes, TASKS, "lookup")
    decode = [p for p in (*plan.first_timing, *plan.more_timing) if p.phase is not Phase.PREFILL]
    assert {p.batch for p in decode} == {3}
    assert {p.context for p in decode} == {10, 20}
    assert {p.temperature for p in plan.acceptance} == {1.0}
    assert {p.num_speculative_tokens for p in plan.rounds} == {1, 2, 4, 8}
    assert plan.max_tokens == 5


@pytest.mark.parametrize("draft", ["lookup", "model"])
def test_what_no_plan_can_do_without_comes_first_and_then_something_of_each_kind(draft):
    plan = build_plan(DEMO_GRID, Wishes(), TASKS, draft)
    points = ordered(plan, seed=0)
    begin = 1 + max(points.index(p) for p in plan.first_timing)
    target = {p for p in points[:begin] if p.role is Role.TARGET}
    assert len(target) >= 6  # as many points as a fit of one context has terms, and two more
    kinds = {type(p) for p in points[begin : begin + len(points) // 4]}
    assert kinds == {TimingPoint, AcceptancePoint, RoundsPoint}


def test_what_a_plan_needs_most_is_timed_first():
    plan = build_plan(DEMO_GRID, Wishes(), TASKS, "lookup")
    timing = [p for p in ordered(plan, 0) if isinstance(p, TimingPoint) and p != plan.sentinel]
    needed = {p for p in plan.first_timing if p != plan.sentinel}
    assert set(timing[: len(needed)]) == needed


def test_a_cuda_device_gets_the_large_grid_even_for_the_demo():
    assert default_grid("cuda", demo=True) is CUDA_GRID
    assert default_grid("cpu", demo=True) is DEMO_GRID
    assert default_grid("cpu", demo=False) is CPU_GRID


def test_points_already_measured_are_not_pending_and_a_sentinel_may_be_half_done():
    assert pending(["s", "a", "s", "b", "s"], Counter({"s": 1, "b": 1})) == ["a", "s", "s"]


def test_time_left_comes_from_the_pace_of_each_kind():
    pace = Pace(FakeClock(), None)
    acceptance, rounds = AcceptancePoint("code", 0.0), RoundsPoint("code", 0.0, 4, None)
    assert pace.eta_s([acceptance]) is None
    pace.note(acceptance, 2.0)
    pace.note(acceptance, 4.0)
    pace.note(rounds, 10.0)
    assert pace.eta_s([acceptance, acceptance, rounds]) == pytest.approx(16.0)


def test_scoring_text_that_is_written_has_a_pace_of_its_own():
    clock = FakeClock()
    pace = Pace(clock, limit_s=60)
    first, second = AcceptancePoint("code", 0.0), AcceptancePoint("qa", 0.0)
    pace.note(first, 40.0)
    clock.advance(50)
    assert pace.refusal(second) != ""
    assert pace.refusal(second, text_written=True) == ""
    pace.note(second, 12.0, text_written=True)
    assert "about 12.0 s needed" in pace.refusal(second, text_written=True)
    assert pace.eta_s([second], written={second}) == pytest.approx(10.0)


def test_a_cell_that_does_not_fit_is_refused_and_a_shorter_one_is_not():
    clock = FakeClock()
    pace = Pace(clock, limit_s=60)
    acceptance, rounds = AcceptancePoint("code", 0.0), RoundsPoint("code", 0.0, 4, None)
    pace.note(acceptance, 1.0)
    pace.note(rounds, 20.0)
    clock.advance(50)
    assert pace.refusal(acceptance) == ""
    assert "budget of 1 min: about 20.0 s needed, 10.0 s left" in pace.refusal(rounds)
    clock.advance(20)
    assert "0.0 s left" in pace.refusal(acceptance)


def test_every_kind_of_point_has_a_readable_name():
    assert label(AcceptancePoint("code", 0.8)) == "acceptance of code at temperature 0.8"
    assert label(RoundsPoint("qa", 0.0, 4, None)) == "speculation N=4, qa at temperature 0"
    point = TimingPoint(Role.TARGET, Phase.DECODE, 2, 1, 64)
    assert label(point) == "time target decode, batch 2, context 64"
