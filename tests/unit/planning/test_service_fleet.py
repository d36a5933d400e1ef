"""Several services: apart, shared, in groups; bills that add up, and reasons that do."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import capplan
from capplan.api.plans import plan_inputs
from capplan.economics.decimals import dollars
from capplan.errors import RequestError
from capplan.facts.catalog import load_catalog
from capplan.planning.service_fleet import place_services
from capplan.planning.service_groups import combined_slo, of_one_service, partitions
from capplan.schema.arrival import Arrival
from capplan.schema.fleet import FleetWay, ServiceFleet
from capplan.schema.plan import Plan, PlanRequest
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B"
CHAT = Workload(requests_per_s=8.0, prompt_tokens=1200, output_tokens=300)
EXTRACT = Workload(requests_per_s=3.0, prompt_tokens=6000, output_tokens=60)
WRITE = Workload(requests_per_s=1.0, prompt_tokens=300, output_tokens=1500)


@cache
def _catalog() -> Any:
    return load_catalog()


def service(name: str, workload: Workload, **fields: Any) -> NamedWorkload:
    return NamedWorkload(name=name, workload=workload, **fields)


def request(*services: NamedWorkload, **fields: Any) -> PlanRequest:
    given: dict[str, Any] = {
        "targets": (LLAMA,),
        "budget_usd_per_month": 200_000,
        "gpus": ("h100-sxm-80gb", "l40s-48gb"),
        "max_num_speculative_tokens": 3,
        **fields,
    }
    return PlanRequest(services=services, **given)


def plan(*services: NamedWorkload, **fields: Any) -> Plan:
    return capplan.recommend(request(*services, **fields), catalog=_catalog())


def fleet(found: Plan) -> ServiceFleet:
    assert found.fleet is not None
    return found.fleet


def way(found: Plan, sharing: str) -> FleetWay:
    return next(one for one in fleet(found).ways if one.sharing == sharing)


def usd(found: Plan, sharing: str) -> float:
    return way(found, sharing).usd_per_month.mid


def test_each_way_is_the_sum_of_plans_made_alone() -> None:
    found = plan(service("chat", CHAT), service("extract", EXTRACT))
    alone = [
        capplan.recommend(
            request().model_copy(update={"workload": load}), catalog=_catalog()
        ).options[0]
        for load in (CHAT, EXTRACT)
    ]
    assert usd(found, "apart") == pytest.approx(sum(one.usd_per_month.mid for one in alone))
    assert [part.option for part in way(found, "apart").parts] == [one.id for one in alone]
    for part, one in zip(way(found, "apart").parts, alone, strict=True):
        assert (part.replicas, part.tpot_ms) == (one.replicas, one.tpot_ms)
        assert part.launch == one.launch


def test_ways_stand_cheapest_first_and_the_plan_is_of_the_first_ones_largest_part() -> None:
    found = plan(service("chat", CHAT), service("extract", EXTRACT), service("write", WRITE))
    bills = [one.usd_per_month.mid for one in fleet(found).ways]
    assert bills == sorted(bills)
    largest = max(fleet(found).ways[0].parts, key=lambda part: part.usd_per_month.mid)
    best = found.options[0]
    assert (best.id, best.usd_per_month.mid) == (largest.option, largest.usd_per_month.mid)
    assert found.request.targets == (largest.target,)
    assert [one.name for one in found.request.services] == ["chat", "extract", "write"]
    assert found.verdict.sentence.startswith("Serve chat, extract, write ")
    assert f"{bills[0]:,.0f} USD a month" in found.verdict.sentence


def test_causes_add_up_to_the_difference() -> None:
    found = plan(
        service("chat", CHAT, slo=Slo(tpot_ms=12)), service("extract", EXTRACT),
        service("write", WRITE),
    )  # fmt: skip
    difference = usd(found, "shared") - usd(found, "apart")
    causes = fleet(found).causes
    assert sum(cause.usd_per_month for cause in causes) == pytest.approx(difference, abs=0.05)
    sizes = [abs(cause.usd_per_month) for cause in causes]
    assert sizes == sorted(sizes, reverse=True)
    strict = next(cause for cause in causes if cause.cause == "strictest limits")
    assert strict.usd_per_month > 0
    assert "TPOT 12 ms (chat)" in strict.said


def test_shared_replicas_keep_the_strictest_limit_of_each_kind() -> None:
    found = plan(
        service("chat", CHAT, slo=Slo(tpot_ms=20)),
        service("extract", EXTRACT, slo=Slo(ttft_ms=900)),
        slo=Slo(tpot_ms=30),
    )
    (shared,) = way(found, "shared").parts
    assert shared.slo == Slo(tpot_ms=20, ttft_ms=900)
    assert shared.tpot_ms.mid <= 20
    assert shared.ttft_ms.mid <= 900
    chat, extract = way(found, "apart").parts
    assert chat.slo == Slo(tpot_ms=20)
    assert extract.slo == Slo(tpot_ms=30, ttft_ms=900)


def test_equal_services_on_one_offer_save_only_rounding_by_sharing() -> None:
    few = Workload(requests_per_s=0.4, prompt_tokens=1000, output_tokens=200)
    found = plan(
        service("a", few), service("b", few), service("c", few),
        gpus=("l40s-48gb",), tensor_parallel=(1,), providers=("runpod",),
    )  # fmt: skip
    assert usd(found, "shared") <= usd(found, "apart") / 2
    assert [cause.cause for cause in fleet(found).causes] == ["whole replicas and nodes"]


def test_peaks_at_other_hours_are_a_reason_to_share() -> None:
    day, night = (1.0,) * 12 + (0.0,) * 12, (0.0,) * 12 + (1.0,) * 12
    steady = Workload(requests_per_s=20.0, prompt_tokens=800, output_tokens=200)
    loads = [
        steady.model_copy(update={"arrival": Arrival(hour_of_day=hours)}) for hours in (day, night)
    ]
    found = plan(service("day", loads[0]), service("night", loads[1]))
    peaks = next(c for c in fleet(found).causes if c.cause == "peaks at other hours")
    assert peaks.usd_per_month < 0
    assert fleet(found).ways[0].sharing == "shared"


def test_services_of_two_llms_are_never_put_on_one_replica() -> None:
    found = plan(
        service("chat", CHAT), service("extract", EXTRACT),
        service("think", WRITE, target="qwen3-32b"),
    )  # fmt: skip
    for one in fleet(found).ways:
        for part in one.parts:
            assert part.target == (QWEN if "think" in part.services else LLAMA)
    assert len(way(found, "apart").parts) == 3
    assert len(way(found, "shared").parts) == 2


def test_services_with_an_llm_each_have_nothing_to_share() -> None:
    found = plan(service("chat", CHAT), service("think", WRITE, target=QWEN))
    assert [one.sharing for one in fleet(found).ways] == ["apart"]
    assert "no replica can be shared" in fleet(found).notes[0]
    assert fleet(found).causes == ()


def test_one_strict_service_stands_apart_from_two_that_share() -> None:
    small = Workload(requests_per_s=2.0, prompt_tokens=1000, output_tokens=200)
    found = plan(
        service("strict", CHAT, slo=Slo(tpot_ms=4)), service("a", small), service("b", small)
    )
    best = fleet(found).ways[0]
    assert best.sharing == "grouped"
    assert {part.services for part in best.parts} == {("strict",), ("a", "b")}
    assert best.usd_per_month.mid < min(usd(found, "apart"), usd(found, "shared"))
    assert "in groups (strict, a + b)" in found.verdict.sentence


def test_a_fleet_over_the_budget_says_what_the_cheapest_way_costs() -> None:
    found = plan(service("chat", CHAT), service("extract", EXTRACT), budget_usd_per_month=500)
    assert not found.verdict.feasible
    assert found.options == ()
    cheapest = fleet(found).ways[0].usd_per_month.mid
    assert f"costs {dollars(cheapest)} USD a month" in found.verdict.needed
    assert not fleet(found).within_budget


def test_a_budget_that_holds_the_largest_part_and_not_all_is_too_small() -> None:
    enough = plan(service("chat", CHAT), service("think", WRITE, target=QWEN))
    bills = [part.usd_per_month.mid for part in fleet(enough).ways[0].parts]
    found = plan(
        service("chat", CHAT), service("think", WRITE, target=QWEN),
        budget_usd_per_month=sum(bills) - 1,
    )  # fmt: skip
    assert max(bills) < sum(bills) - 1
    assert not found.verdict.feasible
    exactly = plan(
        service("chat", CHAT), service("think", WRITE, target=QWEN),
        budget_usd_per_month=sum(bills),
    )  # fmt: skip
    assert exactly.verdict.feasible


def test_a_service_that_nothing_serves_is_named_with_its_reason() -> None:
    found = plan(service("chat", CHAT), service("rush", CHAT, slo=Slo(tpot_ms=0.01)))
    assert not found.verdict.feasible
    assert "rush" in found.verdict.needed
    assert "TPOT" in found.verdict.needed
    assert fleet(found).ways == ()


def test_what_a_service_needs_is_the_least_limit_that_helps_and_it_does() -> None:
    tight = Slo(tpot_ms=1.0)
    found = plan(service("chat", CHAT), service("rush", CHAT, slo=tight))
    assert "nothing keeps TPOT within 1 ms at any budget" in found.verdict.needed
    least = re.search(r"a TPOT limit of ([\d.]+) ms instead of 1", found.verdict.needed)
    assert least is not None
    enough = float(least[1])
    assert plan(service("chat", CHAT), service("rush", CHAT, slo=Slo(tpot_ms=enough))).options
    less = Slo(tpot_ms=enough * 0.97)
    assert not plan(service("chat", CHAT), service("rush", CHAT, slo=less)).options


def test_where_no_limit_alone_helps_it_takes_none() -> None:
    both = Slo(tpot_ms=1.0, ttft_ms=5.0)
    found = plan(service("chat", CHAT), service("rush", CHAT, slo=both))
    assert "nothing keeps TPOT within 1 ms and TTFT within 5 ms" in found.verdict.needed
    assert "no limit on TPOT and TTFT, then " in found.verdict.needed


def test_a_draft_without_acceptance_is_never_why_a_service_cannot_be_served() -> None:
    """Most rejections are of drafts; what keeps the LLM from running is its memory."""
    found = plan(
        service("chat", CHAT), service("think", WRITE, target=QWEN),
        gpus=("l40s-48gb",), tensor_parallel=(1,),
    )  # fmt: skip
    assert not found.options
    assert found.verdict.needed.startswith("think: ")
    assert "weights alone take 61.0 GiB" in found.verdict.needed
    assert "acceptance" not in found.verdict.needed
    alone = capplan.recommend(
        request(gpus=("l40s-48gb",), tensor_parallel=(1,), targets=(QWEN,)).model_copy(
            update={"workload": WRITE}
        )
    )
    assert "weights alone take 61.0 GiB" in alone.verdict.needed


def test_services_that_cannot_share_are_placed_apart_and_say_why() -> None:
    fuller = CHAT.model_copy(update={"utilisation": 0.8})
    found = plan(service("a", CHAT), service("b", fuller))
    assert [one.sharing for one in fleet(found).ways] == ["apart"]
    (why,) = fleet(found).unplaced
    assert why.services == ("a", "b")
    assert "utilisations of 0.6, 0.8" in why.why


def test_short_requests_do_not_hide_a_service_that_cannot_be_served_alone() -> None:
    """Shared requests are averaged: 30,000 tokens among many short ones are a short prompt."""
    short = Workload(requests_per_s=20.0, prompt_tokens=200, output_tokens=200)
    long = Workload(requests_per_s=0.1, prompt_tokens=30_000, output_tokens=60)
    found = plan(
        service("chat", short), service("extract", long, slo=Slo(ttft_ms=1500)),
        gpus=("l40s-48gb",), tensor_parallel=(1,),
    )  # fmt: skip
    assert fleet(found).ways == ()
    assert not found.verdict.feasible
    assert found.verdict.needed.startswith("extract: ")


def test_without_an_offer_every_service_says_so() -> None:
    asked, inputs = plan_inputs(request(service("a", CHAT), service("b", WRITE)))
    found = place_services(replace(inputs, prices=()), asked)
    assert found.ways == {}
    assert [one.services for one in found.unplaced] == [("a",), ("b",)]
    assert {one.why for one in found.unplaced} == {"no offer matches the filters"}
    assert found.main.workload == CHAT
    assert found.main.budget_usd_per_month == asked.budget_usd_per_month


def test_what_one_service_asks_for_wrongly_is_an_error() -> None:
    office = (1.0,) * 12 + (0.0,) * 12
    load = CHAT.model_copy(update={"arrival": Arrival(hour_of_day=office)})
    with pytest.raises(RequestError, match="says in which hours the load arrives"):
        plan(service("chat", load), service("write", WRITE), hours_per_month=365)


def test_of_more_than_four_services_only_apart_and_shared_are_tried() -> None:
    few = Workload(requests_per_s=0.1, prompt_tokens=500, output_tokens=100)
    narrow = {"gpus": ("l40s-48gb",), "tensor_parallel": (1,), "providers": ("runpod",)}
    five = plan(*(service(name, few) for name in "abcde"), **narrow)
    assert {one.sharing for one in fleet(five).ways} == {"apart", "shared"}
    assert fleet(five).notes == (
        f"5 services ask for {LLAMA}: groupings other than all apart and all together are tried "
        "for up to 4",
    )
    # each takes one GPU, and one GPU is enough for all
    assert usd(five, "apart") == pytest.approx(5 * usd(five, "shared"))


def test_a_service_without_a_rate_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match="'idle' has no rate"):
        plan(service("chat", CHAT), service("idle", Workload()))


def test_a_plan_of_services_survives_its_file() -> None:
    found = plan(service("chat", CHAT, target=QWEN), service("extract", EXTRACT))
    again = Plan.model_validate_json(found.model_dump_json())
    assert again.fleet == found.fleet
    assert again.request == found.request


def test_the_services_of_a_plan_state_the_target_and_limits_that_they_left_open() -> None:
    found = plan(
        service("think", WRITE, target=QWEN), service("chat", CHAT, slo=Slo(ttft_ms=900)),
        slo=Slo(tpot_ms=60),
    )  # fmt: skip
    asked = {one.name: (one.target, one.slo) for one in found.request.services}
    assert asked == {
        "think": (QWEN, Slo(tpot_ms=60)),
        "chat": (LLAMA, Slo(tpot_ms=60, ttft_ms=900)),
    }


def test_partitions_are_all_and_each_once() -> None:
    names = "abcd"
    group = tuple(service(name, CHAT) for name in names)
    found = {
        frozenset(frozenset(one.name for one in part) for part in split)
        for split in partitions(group)
    }
    assert len(found) == len(list(partitions(group))) == 15
    for split in found:
        assert sorted(name for part in split for name in part) == sorted(names)


def test_the_loosest_limit_holds_only_where_all_ask_for_one() -> None:
    group = (service("a", CHAT, slo=Slo(tpot_ms=10)), service("b", CHAT, slo=Slo(ttft_ms=5)))
    assert combined_slo(group, max, all_state_it=True) == Slo()
    assert combined_slo(group, min, all_state_it=False) == Slo(tpot_ms=10, ttft_ms=5)


def test_one_service_is_a_plain_plan_of_its_load_target_and_limits() -> None:
    found = plan(service("chat", CHAT, target=QWEN, slo=Slo(tpot_ms=40)), slo=Slo(ttft_ms=3000))
    assert found.fleet is None
    assert found.request.services == ()
    assert found.request.targets == (QWEN,)
    assert found.request.workload == CHAT
    assert found.request.slo == Slo(tpot_ms=40, ttft_ms=3000)


def test_one_service_without_an_llm_of_its_own_takes_the_requests() -> None:
    plain = of_one_service(request(service("chat", CHAT)))
    assert plain.targets == (LLAMA,)
    assert plain.workload == CHAT
    assert plain.services == ()
