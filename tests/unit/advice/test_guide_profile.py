from __future__ import annotations

from typing import Any

import pytest

from capplan.advice.guide.checklist import RULES, profile_checklist
from capplan.advice.guide.from_profile import Traced
from capplan.estimate.evidence import evidence_from_profile
from capplan.reporting.profile_text import render_profile
from capplan.schema.audit import GuidePoint, GuideTopic, PointState
from capplan.schema.measured_setup import Backend
from capplan.schema.profile import Skipped

KEPT, NOT_KEPT = PointState.KEPT, PointState.NOT_KEPT
ASIDE, APPLIES = PointState.DOES_NOT_APPLY, PointState.APPLIES


def points_of(made: tuple[Any, Any]) -> dict[str, GuidePoint]:
    return {p.id: p for p in profile_checklist(evidence_from_profile(*made))}


def test_the_same_fourteen_points_are_applied_to_a_profile(synthetic: Any) -> None:
    points = profile_checklist(evidence_from_profile(*synthetic.profile()))
    assert sum(p.topic is GuideTopic.CHECKLIST for p in points) == 10
    assert len(points) == len(RULES) == 14


def test_break_even_is_the_rounds_own_cost(synthetic: Any) -> None:
    made = synthetic.profile(probability=0.7)
    point = points_of(made)["acceptance"]
    decode = synthetic.TARGET_TIMES.seconds(1, 1, 200)
    spent = synthetic.TARGET_TIMES.seconds(1, 6, 200) + 5 * synthetic.DRAFT_TIMES.seconds(
        1, 1, 200
    )
    assert f"{spent / decode:.2f} tokens a round at batch 1" in point.says
    # 0.7 a token: accepted over drafted at N = 5 is 0.39, below the guide's 60 %, and yet a gain
    assert point.state is NOT_KEPT
    assert "39 % of the drafts" in point.says


def test_the_fastest_length_is_named_by_batch(synthetic: Any) -> None:
    point = points_of(synthetic.profile(probability=0.95))["n5"]
    assert point.state is NOT_KEPT
    assert "batch 1: 8 (" in point.says
    poor = points_of(synthetic.profile(probability=0.02))["n5"]
    assert "batch 1: off" in poor.says


def test_lookup_drafts_verify_only_where_they_find_something(synthetic: Any) -> None:
    evidence = evidence_from_profile(*synthetic.profile(draft="ngram"))
    traced = Traced(evidence)
    (trace,) = traced.at(0.0)
    assert traced.round_ratio(trace, 4, 1) == pytest.approx(
        synthetic.TARGET_TIMES.seconds(1, 5, 200) / synthetic.TARGET_TIMES.seconds(1, 1, 200),
        rel=1e-3,
    )
    assert points_of(synthetic.profile(draft="ngram"))["same-family"].state is ASIDE


def test_tasks_are_ranked_by_what_was_measured(synthetic: Any) -> None:
    cells = (
        synthetic.acceptance_cell(10, 200, task="maths"),
        synthetic.acceptance_cell(10, 200, task="qa"),
        synthetic.acceptance_cell(10, 200, task="translation"),
    )
    profile, _ = synthetic.profile(acceptance=cells)
    arrays: dict[str, Any] = {}
    for index, chance in enumerate((0.9, 0.7, 0.5)):
        arrays |= synthetic.trace_arrays(index, 10, 200, chance)
    points = points_of((profile, arrays))
    assert points["maths"].state is NOT_KEPT
    assert points["code-translation"].state is NOT_KEPT
    assert "maths 4" in points["maths"].says
    one = points_of(synthetic.profile())
    assert one["code-translation"].state is ASIDE  # one task: nothing to compare it with


def test_temperature_points_take_what_was_traced(synthetic: Any) -> None:
    cells = tuple(
        synthetic.acceptance_cell(10, 200, temperature=temperature) for temperature in (0.0, 1.2)
    )
    profile, _ = synthetic.profile(acceptance=cells)
    arrays = synthetic.trace_arrays(0, 10, 200, 0.8) | synthetic.trace_arrays(1, 10, 200, 0.6)
    points = points_of((profile, arrays))
    assert points["temperature-on"].state is KEPT
    assert points["temperature-off"].state is NOT_KEPT  # it still gains there
    assert "temperature 1.2, batch 1: 2.17 tokens" in points["temperature-off"].says


def test_a_slow_run_is_put_down_to_its_cost(synthetic: Any) -> None:
    slow = synthetic.rounds_cell(2, 0.02)
    point = points_of(synthetic.profile(rounds=(slow,)))["slow"]
    assert point.state is APPLIES
    # 2 tokens a round in 20 ms against 5 ms a token: 0.5x, and at most 3 tokens in those 4 steps
    assert "0.50x at N = 2, batch 1: 2.00 tokens a round for 4.00 steps" in point.says
    assert "with every draft accepted 0.75x: the cost of a round is the limit" in point.says
    assert points_of(synthetic.profile())["slow"].state is ASIDE


@pytest.mark.parametrize(("same", "state"), [(4, ASIDE), (3, APPLIES), (None, ASIDE)])
def test_quality_is_what_the_texts_say(
    synthetic: Any, same: int | None, state: PointState
) -> None:
    cell = synthetic.rounds_cell(2, 0.01, identical_outputs=same)
    point = points_of(synthetic.profile(rounds=(cell,)))["quality"]
    assert point.state is state
    if same is not None:
        assert f"{same} of 4 texts" in point.says


def test_memory_applies_where_a_cell_ran_out(synthetic: Any) -> None:
    failed = Skipped(what="decode batch 64", reason="CUDA out of memory")
    assert points_of(synthetic.profile(skipped=(failed,)))["memory"].state is APPLIES
    late = Skipped(what="decode batch 64", reason="time budget")
    assert points_of(synthetic.profile(skipped=(late,)))["memory"].state is ASIDE


def test_the_old_flag_matters_to_an_engine_only(synthetic: Any) -> None:
    engine = Backend(name="vllm", version="0.33.0")
    assert points_of(synthetic.profile(backend=engine))["v2-block-manager"].state is NOT_KEPT
    assert points_of(synthetic.profile())["v2-block-manager"].state is ASIDE


def test_a_profile_without_a_draft_has_points_all_the_same(synthetic: Any) -> None:
    points = points_of(synthetic.profile(draft=None))
    assert len(points) == 14
    assert points["n5"].state is ASIDE
    assert points["acceptance"].state is ASIDE


def test_a_lookup_that_finds_nothing_is_not_put_down_to_cost(synthetic: Any) -> None:
    few = {"drafted": 20, "accepted": 20, "accepted_per_position": (8, 6, 4, 2)}
    cell = synthetic.rounds_cell(4, 0.009, emitted=120, baseline_emitted=120, **few)
    says = points_of(synthetic.profile(rounds=(cell,)))["slow"].says
    assert "1.11x at N = 4, batch 1: only 0.20 tokens are drafted a round" in says
    assert "cost" not in says


def test_the_summary_prints_the_points(synthetic: Any) -> None:
    profile, arrays = synthetic.profile()
    points = profile_checklist(evidence_from_profile(profile, arrays))
    text = render_profile(profile, arrays, points)
    assert "guide's checklist" in text
    assert "N = 5 is the universal optimum" in text
    assert "checklist" not in render_profile(profile, arrays)
