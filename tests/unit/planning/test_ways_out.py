"""Plans that found nothing on L40S GPUs of 2 dollars an hour: 1,460 dollars a month each."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from capplan.api.plans import plan_inputs
from capplan.planning.inputs import PlanInputs
from capplan.planning.planner import search
from capplan.planning.ways_out import ways_out
from capplan.schema.answers import WayOut
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Slo, Workload

GPU = "l40s"
A_MONTH_USD = 2.0 * 730
REQUEST = PlanRequest.model_validate(
    {
        "targets": ("meta-llama/Llama-3.1-8B-Instruct",),
        "budget_usd_per_month": 1000,
        "workload": Workload(requests_per_s=0.1, prompt_tokens=1000, output_tokens=300),
        "gpus": (GPU,),
        "tensor_parallel": (1,),
        "methods": (Method.EAGLE,),
        "max_num_speculative_tokens": 2,
        "gpu_price_usd_per_hour": {GPU: 2.0},
    }
)


@cache
def inputs() -> PlanInputs:
    return plan_inputs(REQUEST)[1]


def asked(**fields: Any) -> PlanRequest:
    return REQUEST.model_copy(update=fields)


def load(rate: float) -> Workload:
    return REQUEST.workload.model_copy(update={"requests_per_s": rate})


def ways(**fields: Any) -> dict[str, WayOut]:
    found = ways_out(inputs(), asked(**fields))
    assert found is not None
    return {way.what: way for way in found}


def feasible(**fields: Any) -> bool:
    return bool(search(inputs(), asked(**fields)).options)


def test_a_plan_that_is_feasible_needs_no_way_out() -> None:
    assert ways_out(inputs(), asked(budget_usd_per_month=A_MONTH_USD)) is None


def test_a_budget_below_one_gpu_can_only_be_raised_to_it() -> None:
    found = ways()
    assert set(found) == {"budget"}
    budget = found["budget"]
    assert (budget.asked, budget.needed, budget.unit) == (1000, A_MONTH_USD, "USD a month")
    assert budget.usd_per_month == A_MONTH_USD
    assert budget.choice.endswith(f"1 x TP1 {GPU}, own")


def test_a_load_of_several_gpus_is_cut_to_what_the_budget_rents() -> None:
    fields = {"workload": load(20.0), "budget_usd_per_month": 2 * A_MONTH_USD}
    found = ways(**fields)
    assert set(found) == {"budget", "load"}
    share = found["load"].needed
    assert share is not None
    assert 0 < share < 1
    assert found["load"].usd_per_month == 2 * A_MONTH_USD
    assert f"2 x TP1 {GPU}" in found["load"].choice
    assert feasible(**{**fields, "workload": load(20.0 * share)})
    assert not feasible(**{**fields, "workload": load(20.0 * (share + 0.01))})


@pytest.mark.parametrize("name", ["tpot", "ttft"])
def test_a_limit_is_loosened_to_within_a_hundredth_of_what_is_reached(name: str) -> None:
    field, limit = f"{name}_ms", 10.0
    found = ways(budget_usd_per_month=A_MONTH_USD, slo=Slo.model_validate({field: limit}))
    assert set(found) == {name}
    needed = found[name].needed
    assert needed is not None
    assert found[name].asked == limit
    assert found[name].unit == "ms"
    # three figures, rounded up
    assert float(f"{needed:.3g}") == needed
    for factor, keeps in ((1.0, True), (0.98, False)):
        slo = Slo.model_validate({field: needed * factor})
        assert feasible(budget_usd_per_month=A_MONTH_USD, slo=slo) is keeps


def test_a_limit_that_no_doubling_reaches_is_dropped_with_all_others() -> None:
    # 12 doublings of a microsecond are 4 ms, less than a step takes
    found = ways(budget_usd_per_month=A_MONTH_USD, slo=Slo(tpot_ms=0.001))
    assert set(found) == {"limits"}
    dropped = found["limits"]
    assert (dropped.asked, dropped.needed) == (None, None)
    assert dropped.usd_per_month == A_MONTH_USD


def test_where_budget_and_limit_both_fail_the_dollars_without_limits_are_named() -> None:
    found = ways(slo=Slo(tpot_ms=1.0))
    assert set(found) == {"limits"}
    assert found["limits"].usd_per_month == A_MONTH_USD > REQUEST.budget_usd_per_month


def test_without_a_load_there_is_none_to_cut() -> None:
    found = ways(workload=Workload())
    assert set(found) == {"budget"}
    assert found["budget"].needed == A_MONTH_USD


@pytest.mark.parametrize("slo", [Slo(), Slo(tpot_ms=50.0)])
def test_where_no_offer_holds_a_replica_nothing_helps(slo: Slo) -> None:
    no_price = {"gpu_price_usd_per_hour": {}, "providers": ("nobody",)}
    assert ways(slo=slo, **no_price) == {}
