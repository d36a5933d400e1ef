"""Questions about a plan that found nothing: what budget, limit or load would make it feasible."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import capplan
from capplan.api.answers import Questions, answer_what_if
from capplan.errors import RequestError
from capplan.schema.answers import PlanAnswers, WayOut
from capplan.schema.plan import Plan, PlanRequest
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

Call = Callable[..., tuple[int, str, str]]
REQUEST = PlanRequest(
    targets=("meta-llama/Llama-3.1-8B-Instruct",),
    budget_usd_per_month=1000,
    workload=Workload(requests_per_s=20.0, prompt_tokens=1000, output_tokens=300),
    gpus=("h100-sxm-80gb", "l40s-48gb"),
    max_num_speculative_tokens=3,
)


def changed(**fields: Any) -> PlanRequest:
    return REQUEST.model_copy(update=fields)


def asked(request: PlanRequest, questions: Questions | None = None) -> PlanAnswers:
    plan = capplan.recommend(request)
    assert not plan.options
    return answer_what_if(plan, questions)


def ways(found: PlanAnswers) -> dict[str, WayOut]:
    return {way.what: way for way in found.ways_out or ()}


def test_the_budget_named_is_enough_and_a_cent_less_is_not() -> None:
    found = ways(asked(REQUEST))["budget"]
    assert found.needed is not None
    plan = capplan.recommend(changed(budget_usd_per_month=found.needed))
    assert plan.options
    assert plan.options[0].usd_per_month.mid == pytest.approx(found.usd_per_month)
    assert not capplan.recommend(changed(budget_usd_per_month=found.needed - 0.02)).options


def test_the_share_of_the_load_named_is_served_and_a_hundredth_more_is_not() -> None:
    found = ways(asked(REQUEST))["load"]
    assert found.needed is not None
    assert found.usd_per_month <= 1000

    def served(share: float) -> bool:
        load = REQUEST.workload.model_copy(update={"requests_per_s": 20.0 * share})
        return bool(capplan.recommend(changed(workload=load)).options)

    assert served(found.needed)
    assert not served(found.needed + 0.01)


@pytest.mark.parametrize(("name", "slo"), [("tpot", Slo(tpot_ms=1.0)), ("ttft", Slo(ttft_ms=5.0))])
def test_the_limit_named_is_loose_enough_and_two_per_cent_less_is_not(name: str, slo: Slo) -> None:
    request = changed(slo=slo, budget_usd_per_month=60_000)
    found = ways(asked(request))[name]
    assert found.needed is not None
    assert found.asked == getattr(slo, f"{name}_ms")
    for factor, feasible in ((1.0, True), (0.98, False)):
        limit = slo.model_copy(update={f"{name}_ms": found.needed * factor})
        plan = capplan.recommend(request.model_copy(update={"slo": limit}))
        assert bool(plan.options) is feasible


def test_where_no_single_change_helps_all_limits_are_left_out() -> None:
    request = changed(slo=Slo(tpot_ms=0.5, ttft_ms=1.0))
    found = asked(request)
    assert set(ways(found)) == {"limits"}
    assert ways(found)["limits"].usd_per_month > 1000


def test_a_plan_without_a_load_names_the_cheapest_node() -> None:
    request = changed(workload=Workload(), budget_usd_per_month=50)
    found = ways(asked(request))
    assert set(found) == {"budget"}
    needed = found["budget"].needed
    assert needed is not None
    assert len(
        capplan.recommend(changed(workload=Workload(), budget_usd_per_month=needed)).options
    )


def test_a_plan_that_no_change_mends_says_why() -> None:
    request = changed(tensor_parallel=(16,), gpus=("l40s-48gb",))
    found = asked(request)
    assert found.ways_out == ()
    assert found.notes
    assert found.notes[0]


def test_scenarios_need_no_option() -> None:
    found = asked(REQUEST, Questions(factors={"load": (0.01, 1.0)}))
    assert found.scenarios is not None
    assert [row["feasible"] for row in found.scenarios.rows] == [True, False]


@pytest.mark.parametrize(
    "questions", [Questions(growth_per_month=0.1), Questions(spares=1), Questions(autoscale=True)]
)
def test_what_needs_a_planned_option_is_refused_with_what_to_ask_instead(
    questions: Questions,
) -> None:
    with pytest.raises(RequestError, match="no option that could grow") as caught:
        asked(REQUEST, questions)
    assert "without a question" in caught.value.remedy


def test_a_fleet_of_services_names_the_budget_of_its_cheapest_way() -> None:
    services = tuple(NamedWorkload(name=name, workload=REQUEST.workload) for name in "ab")
    found = asked(changed(services=services))
    needed = ways(found)["budget"].needed
    assert needed is not None
    enough = changed(services=services, budget_usd_per_month=needed)
    assert capplan.recommend(enough).verdict.feasible


def test_the_command_answers_as_text_json_and_csv(run: Call, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(capplan.recommend(REQUEST).model_dump_json())
    code, out, _ = run("what-if", path)
    assert code == 0
    assert "What would make it feasible" in out
    assert "budget" in out
    assert "load" in out
    code, out, _ = run("what-if", path, "--format", "json")
    assert (code, {way["what"] for way in json.loads(out)["ways_out"]}) == (0, {"budget", "load"})
    code, out, _ = run("what-if", path, "--format", "csv")
    assert code == 0
    assert out.splitlines()[0].startswith("what,unit,asked,needed,usd_per_month")


def test_other_commands_say_where_to_ask(run: Call, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(capplan.recommend(REQUEST).model_dump_json())
    code, _, err = run("breakeven", "--plan", path)
    assert code != 0
    assert "The plan has no option" in err
    assert "capplan what-if PLAN" in err


def test_an_infeasible_plan_survives_its_file() -> None:
    plan = capplan.recommend(REQUEST)
    again = Plan.model_validate_json(plan.model_dump_json())
    assert answer_what_if(again).ways_out == answer_what_if(plan).ways_out
