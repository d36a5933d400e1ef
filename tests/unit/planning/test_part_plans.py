"""The parts of a fleet are plans: each says what a plan of its services alone would say."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import capplan
from capplan.api.answers import answer_what_if
from capplan.api.notebook import Plan
from capplan.api.part_launching import launch_parts
from capplan.economics.focus import focus_rows
from capplan.errors import RequestError
from capplan.planning.part_plans import (
    asked_plan,
    part_plans,
    plan_of_service,
    requests_of_parts,
)
from capplan.reporting.render import render
from capplan.schema.fleet import ServiceFleet
from capplan.schema.option import Placement, PlanOption
from capplan.schema.paid_parts import paid_parts
from capplan.schema.plan import PlanRequest
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B"
FEW = Workload(requests_per_s=0.4, prompt_tokens=1000, output_tokens=200)
THINK = Workload(requests_per_s=1.0, prompt_tokens=300, output_tokens=1500)
ASKED = PlanRequest(
    targets=(LLAMA,),
    budget_usd_per_month=50_000,
    gpus=("h100-sxm-80gb", "l40s-48gb"),
    max_num_speculative_tokens=2,
    services=(
        NamedWorkload(name="chat", workload=FEW, slo=Slo(tpot_ms=30)),
        NamedWorkload(name="faq", workload=FEW),
        NamedWorkload(name="think", workload=THINK, target=QWEN),
    ),
)


@cache
def fleet_plan() -> Plan:
    return capplan.recommend(ASKED)


def fleet(plan: Plan) -> ServiceFleet:
    assert plan.fleet is not None
    return plan.fleet


def without_options(plan: Plan) -> Plan:
    """Return the plan as an older capplan wrote it."""
    old = fleet(plan)
    ways = tuple(
        way.model_copy(
            update={"parts": tuple(p.model_copy(update={"planned": None}) for p in way.parts)}
        )
        for way in old.ways
    )
    return plan.model_copy(update={"fleet": old.model_copy(update={"ways": ways})})


def test_parts_are_those_of_the_cheapest_way_and_their_bills_add_up() -> None:
    plan = fleet_plan()
    parts = part_plans(plan)
    assert [part.label for part in parts] == ["chat + faq", "think"]
    total = sum(part.option.usd_per_month.mid for part in parts)
    assert fleet(plan).ways[0].usd_per_month.mid == pytest.approx(total)


def test_a_parts_option_and_request_are_those_of_a_plan_made_alone() -> None:
    for part in part_plans(fleet_plan()):
        alone = capplan.recommend(part.plan.request)
        best = alone.options[0].model_copy(update={"on_pareto_front": False})
        assert part.option.model_copy(update={"on_pareto_front": False}) == best
        assert part.plan.request.services == ()
        assert part.plan.fleet is None
    largest = max(part_plans(fleet_plan()), key=lambda part: part.option.usd_per_month.mid)
    assert largest.plan.request.workload == fleet_plan().request.workload
    assert largest.plan.request.slo == fleet_plan().request.slo


def test_every_way_holds_whole_options_and_the_summary_is_theirs() -> None:
    for way in fleet(fleet_plan()).ways:
        for part in way.parts:
            assert part.planned is not None
            assert part.option == part.planned.id
            for name in Placement.model_fields:
                assert getattr(part, name) == getattr(part.planned, name), name


def test_a_rank_is_that_of_the_largest_part_and_leaves_the_others() -> None:
    plan = fleet_plan()
    first, second = paid_parts(plan), paid_parts(plan, 2)
    largest = fleet(plan).largest_part
    assert largest is not None
    for one, other in zip(first, second, strict=True):
        if one.services == largest.services:
            assert other.option == plan.options[1]
        else:
            assert other.option == one.option


def test_a_service_is_found_with_those_that_share_its_replicas() -> None:
    assert plan_of_service(fleet_plan(), "faq").services == ("chat", "faq")
    with pytest.raises(RequestError, match="no service 'mail'") as caught:
        plan_of_service(fleet_plan(), "mail")
    assert caught.value.remedy == "Its services: chat, faq, think."


def test_a_plan_of_one_service_is_its_only_part_under_no_name() -> None:
    alone = capplan.recommend(ASKED.model_copy(update={"services": (), "workload": FEW}))
    (part,) = part_plans(alone)
    assert (part.label, part.option) == ("", alone.options[0])
    with pytest.raises(RequestError, match="no service 'chat'") as caught:
        plan_of_service(alone, "chat")
    assert "one service" in caught.value.remedy


def test_a_fleet_of_an_older_capplan_is_read_and_names_what_it_lacks() -> None:
    old = without_options(fleet_plan())
    again = Plan.model_validate_json(old.model_dump_json())
    with pytest.raises(RequestError, match="only a summary of what serves chat"):
        part_plans(again)


def test_a_real_file_of_an_older_capplan_shows_all_and_says_what_to_do() -> None:
    folder = Path(__file__).parents[2] / "data" / "schema_versions"
    old = capplan.load_plan(folder / "plan-342db97.json")
    assert len(fleet(old).parts) == 2
    assert "Services, 1,700 USD a month for all of them" in render(old, "table")
    page = render(old, "html")
    assert "Launch one replica for chat + faq" in page
    assert "data-what-if=" not in page
    for ask in (focus_rows, launch_parts, answer_what_if):
        with pytest.raises(RequestError, match="only a summary of what serves think") as caught:
            ask(old)
        assert "capplan recommend" in caught.value.remedy


def test_a_request_that_lacks_a_service_of_a_part_is_an_error_and_no_traceback() -> None:
    plan = fleet_plan()
    fewer = plan.request.model_copy(update={"services": plan.request.services[:1]})
    with pytest.raises(RequestError, match=r"does not hold all services.*chat \+ faq"):
        part_plans(plan.model_copy(update={"request": fewer}))


def test_a_file_begins_with_what_identifies_a_part_or_an_option() -> None:
    assert next(iter(PlanOption.model_fields)) == "id"
    part = fleet(fleet_plan()).ways[0].parts[0]
    assert list(part.model_dump())[:3] == ["services", "slo", "option"]


def test_a_plan_of_one_service_is_asked_itself() -> None:
    alone = capplan.recommend(ASKED.model_copy(update={"services": (), "workload": FEW}))
    assert asked_plan(alone, None, 2) == (alone, 2)
    assert requests_of_parts(alone) == {}


def test_another_rank_is_one_of_the_largest_parts_options() -> None:
    plan = fleet_plan()
    part, rank = asked_plan(plan, "think", None)
    assert rank is None
    assert part.options == (plan_of_service(plan, "think").option,)
    largest = fleet(plan).largest_part.services[0]
    second, rank = asked_plan(plan, largest, 2)
    assert (rank, second.options) == (1, (plan.options[1],))


def test_where_nothing_serves_all_each_service_asks_for_itself() -> None:
    nowhere = fleet(fleet_plan()).model_copy(update={"ways": ()})
    asked = requests_of_parts(fleet_plan().model_copy(update={"fleet": nowhere}))
    assert list(asked) == ["chat", "faq", "think"]
    assert asked["think"].targets == (QWEN,)
    assert asked["think"].workload.output_tokens == 1500
