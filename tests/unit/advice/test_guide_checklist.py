from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from capplan.advice.guide.checklist import RULES, guide_checklist, several_levels
from capplan.advice.guide.from_plan import plan_situation
from capplan.reporting import render
from capplan.reporting.appendix import short_lines, summary_of
from capplan.reporting.html import render_html
from capplan.schema.audit import GuidePoint, GuideTopic, PointState
from capplan.schema.pairing import AcceptanceFact, Method
from capplan.schema.plan import Plan, Rejection
from capplan.schema.provenance import Kind, Source
from capplan.schema.quantity import Quantity

KEPT, NOT_KEPT = PointState.KEPT, PointState.NOT_KEPT
ASIDE, APPLIES = PointState.DOES_NOT_APPLY, PointState.APPLIES


def points_of(plan: Plan, llms: Any = None, acceptance: Any = ()) -> dict[str, GuidePoint]:
    return {point.id: point for point in guide_checklist(plan, llms, acceptance)}


def at_temperature(plan: Plan, temperature: float, task: str | None = None) -> Plan:
    load = plan.request.workload.model_copy(update={"temperature": temperature, "task": task})
    return plan.model_copy(update={"request": plan.request.model_copy(update={"workload": load})})


def test_ten_points_and_four_rows_are_applied_to_every_plan(sample_plans: Any) -> None:
    points = guide_checklist(sample_plans.make_plan())
    topics = [point.topic for point in points]
    assert topics == [GuideTopic.CHECKLIST] * 10 + [GuideTopic.TROUBLESHOOTING] * 4
    assert all(point.says for point in points)
    assert len(set(RULES)) == len({point.id for point in points}) == 14


def test_an_infeasible_plan_has_no_points(sample_plans: Any) -> None:
    assert guide_checklist(sample_plans.infeasible_plan()) == ()


def test_the_best_length_here_stands_beside_the_universal_one(sample_plans: Any) -> None:
    point = points_of(sample_plans.make_plan())["n5"]
    assert point.state is NOT_KEPT
    # the illustrated load curve: planned for 22 requests, next point 16, best N there 3
    assert "At 16 requests at once the fastest for this pairing is N = 3" in point.says
    assert "from 1 to 128 requests it is 4 to 1" in point.says


def test_break_even_replaces_sixty_per_cent(sample_plans: Any) -> None:
    point = points_of(sample_plans.make_plan())["acceptance"]
    # a round of 1.92 steps at N = 3 pays from 1.92 tokens: (1.92 - 1) / 3 of the drafts
    assert point.state is NOT_KEPT
    assert "58 % of the drafts are accepted at N = 3" in point.says
    assert "a round costs 1.92 plain steps: it breaks even at 31 %" in point.says


@pytest.mark.parametrize(
    ("temperature", "on", "off"),
    [(0.0, KEPT, ASIDE), (0.7, KEPT, ASIDE), (0.9, ASIDE, ASIDE), (1.2, ASIDE, NOT_KEPT)],
)
def test_temperature_points_speak_of_the_gain(
    sample_plans: Any, temperature: float, on: PointState, off: PointState
) -> None:
    points = points_of(at_temperature(sample_plans.make_plan(), temperature))
    assert points["temperature-on"].state is on
    assert points["temperature-off"].state is off
    spoken = points["temperature-on" if on is KEPT else "temperature-off"].says
    if ASIDE not in (on, off) or on is KEPT or off is NOT_KEPT:
        assert "1.43x (1.31-1.56)" in spoken


def test_a_plan_without_speculation_names_the_best_draft_it_passed_over(
    sample_plans: Any,
) -> None:
    plain, drafted = sample_plans.make_baseline(load_curve=()), sample_plans.make_option()
    points = points_of(at_temperature(sample_plans.make_plan(options=(plain, drafted)), 1.2))
    assert points["temperature-off"].state is KEPT
    assert points["same-family"].state is ASIDE
    assert points["acceptance"].state is ASIDE
    assert points["n5"].state is NOT_KEPT
    assert "the best option with a draft gives 1.43x (N = 3" in points["n5"].says


def test_without_any_draft_within_the_limits_nothing_is_judged_by_its_gain(
    sample_plans: Any,
) -> None:
    points = points_of(sample_plans.make_plan(options=(sample_plans.make_baseline(),)))
    for name in ("n5", "temperature-on", "temperature-off"):
        assert points[name].state is ASIDE
        assert points[name].says == "No option with a draft is within the limits."


def test_the_old_flag_is_never_asked_for(sample_plans: Any) -> None:
    point = points_of(sample_plans.make_plan())["v2-block-manager"]
    assert point.state is NOT_KEPT
    assert "unrecognized arguments" in point.says
    assert "use-v2-block-manager" not in sample_plans.make_option().launch


def test_tasks_are_judged_by_what_is_published_of_the_pairing(sample_plans: Any) -> None:
    def fact(task: str, tokens: float, n: int = 3) -> AcceptanceFact:
        return AcceptanceFact(
            target=sample_plans.TARGET,
            draft=sample_plans.DRAFT,
            method=Method.DRAFT_MODEL,
            task=task,
            num_speculative_tokens=n,
            tokens_per_round=tokens,
            definition="bonus included",
            source=Source(kind=Kind.CITED, reference="a table"),
        )

    facts = [fact("gsm8k", 2.9), fact("mtbench", 2.1), fact("gsm8k", 4.4, n=7)]
    plan = at_temperature(sample_plans.make_plan(), 0.0, task="gsm8k")
    maths = points_of(plan, acceptance=facts)["maths"]
    assert maths.state is NOT_KEPT  # the plan speculates on maths
    assert maths.says.endswith("at N = 3, tokens a round: gsm8k 2.90, mtbench 2.10.")
    code = points_of(at_temperature(plan, 0.0, task="humaneval"))["code-translation"]
    assert code.state is KEPT
    assert "Spec-Bench" in code.says  # nothing published: what is known in general


def test_heads_and_draft_models_of_the_plan_are_compared(sample_plans: Any) -> None:
    point = points_of(sample_plans.make_plan())["eagle"]
    assert point.state is NOT_KEPT  # a draft model is recommended
    assert "On this GPU the best head gives 1.43x, the best draft model 1.43x: +0 %" in point.says


def test_family_is_said_with_the_vocabularies(sample_plans: Any, synthetic: Any) -> None:
    target = synthetic.llm(sample_plans.TARGET, family="qwen3")
    draft = synthetic.llm(sample_plans.DRAFT, family="llama-3.2", vocab_size=128256)
    point = points_of(sample_plans.make_plan(), {target.id: target, draft.id: draft})[
        "same-family"
    ]
    assert point.state is NOT_KEPT
    assert "vocabularies of 32,000 and 128,256 tokens" in point.says
    unknown = points_of(sample_plans.make_plan())["same-family"]
    assert unknown.state is ASIDE


@pytest.mark.parametrize(
    ("params", "kept"), [(None, None), (70e9, None), (100e9, None), (235e9, False)]
)
def test_several_levels_are_run_by_no_engine(
    sample_plans: Any, params: float | None, kept: bool | None
) -> None:
    situation = replace(plan_situation(sample_plans.make_plan(), {}, ()), target_params=params)
    judged = several_levels(situation)
    assert judged.kept is kept
    assert "engine" in judged.says


@pytest.mark.parametrize(
    ("ratio", "tokens", "cause"),
    [
        (3.0, 3.3, "even with every draft accepted 1.33x: the cost of a round is the limit"),
        (1.5, 1.65, "1.5x needs 2.25 tokens a round, it has 1.65"),
    ],
)
def test_a_low_speedup_is_put_down_to_cost_or_acceptance(
    sample_plans: Any, ratio: float, tokens: float, cause: str
) -> None:
    figure = sample_plans.make_option().acceptance.model_copy(
        update={"tokens_per_round": Quantity.exact(tokens)}
    )
    option = sample_plans.make_option(
        round_ratio=Quantity.exact(ratio),
        acceptance=figure,
        speedup=Quantity.exact(tokens / ratio),
    )
    point = points_of(sample_plans.make_plan(options=(option,)))["slow"]
    assert point.state is APPLIES
    assert cause in point.says


def test_memory_and_first_token_apply_where_the_symptom_is(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    points = points_of(plan)
    assert points["memory"].state is APPLIES  # 29 candidates were rejected for memory
    assert "29 candidates did not fit" in points["memory"].says
    assert points["first-token"].state is ASIDE
    slo = plan.request.slo.model_copy(update={"ttft_ms": 650.0})
    late = plan.model_copy(update={"request": plan.request.model_copy(update={"slo": slo})})
    assert points_of(late)["first-token"].state is APPLIES
    roomy = plan.model_copy(
        update={
            "rejections": (
                Rejection(reason="budget", count=1, example="dear", remedy="Raise --budget."),
            )
        }
    )
    assert points_of(roomy)["memory"].state is ASIDE


def with_points(sample_plans: Any) -> Plan:
    plan: Plan = sample_plans.make_plan()
    return plan.model_copy(update={"guide_checklist": guide_checklist(plan)})


def test_the_plan_file_carries_the_points(sample_plans: Any) -> None:
    plan = with_points(sample_plans)
    again = Plan.model_validate_json(render(plan, "json"))
    assert again.guide_checklist == plan.guide_checklist
    assert len(plan.model_dump_json()) - len(sample_plans.make_plan().model_dump_json()) < 6000


def test_the_terminal_spends_three_lines_at_most(sample_plans: Any) -> None:
    plan = with_points(sample_plans)
    lines = short_lines(plan.guide_checklist)
    assert 1 <= len(lines) <= 3
    assert all(len(line) <= 100 for line in lines)
    text = render(plan, "table")
    added = len(text.splitlines()) - len(render(sample_plans.make_plan(), "table").splitlines())
    assert added == len(lines) + 1  # a blank line
    assert "N = 5 is the universal optimum" in text
    assert short_lines(()) == []


def test_lines_stay_three_with_every_rule_broken(sample_plans: Any) -> None:
    points = tuple(
        point.model_copy(update={"state": NOT_KEPT})
        for point in with_points(sample_plans).guide_checklist
    )
    assert len(short_lines(points)) == 3
    assert summary_of(points) in " ".join(line.strip() for line in short_lines(points))


def test_the_page_holds_the_points_and_the_audit_collapsed(sample_plans: Any) -> None:
    import capplan

    page = render_html(with_points(sample_plans), capplan.audit_guide())
    appendix = page[page.index('id="appendix"') : page.index("</main>")]
    assert appendix.count("<details>") == 2
    assert "<details open" not in appendix
    assert "46.2, 47.8, 48.5 %" in appendix
    assert len(appendix) < 36_000
    bare = render_html(sample_plans.make_plan())
    assert 'id="appendix"' not in bare
