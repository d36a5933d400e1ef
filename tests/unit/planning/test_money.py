"""How a plan pays: hours, whole nodes, discounts, reservations, electricity, budgets."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import capplan
from capplan.api.plans import compare_with_apis, recommend
from capplan.errors import RequestError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.planning.terms import Terms, discounted, sized
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.price import BillItem, Electricity, PriceRow, Purchase
from capplan.schema.provenance import Kind, Source
from capplan.schema.workload import Workload

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
H100 = "h100-sxm-80gb"


def offer(**fields: Any) -> PriceRow:
    shared: dict[str, Any] = {
        "provider": "acme", "instance": "a-8x", "gpu": H100, "gpu_count": 8, "region": "eu",
        "purchase": Purchase.ON_DEMAND, "tier": "list", "usd_per_hour": Decimal("24"),
        "source": Source(kind=Kind.CITED, reference="a quote", date="2026-11-20"),
    }  # fmt: skip
    return PriceRow(**(shared | fields))


def stocked(*rows: PriceRow) -> Catalog:
    return replace(load_catalog(), prices=rows)


def plan(*rows: PriceRow, rate: float | None = 2.0, budget: float = 1e6, **fields: Any) -> Plan:
    request = PlanRequest(
        targets=(LLAMA_8B,),
        budget_usd_per_month=budget,
        methods=("none",),
        gpus=(H100,),
        workload=Workload(requests_per_s=rate),
        **fields,
    )
    return recommend(request, catalog=stocked(*rows) if rows else None)


def best(*rows: PriceRow, **fields: Any) -> PlanOption:
    return plan(*rows, **fields).options[0]


def total(option: PlanOption) -> Decimal:
    assert option.bill is not None
    return option.bill.total_usd


def test_a_whole_node_is_paid_for_and_its_idle_gpus_are_said() -> None:
    option = best(offer(), tensor_parallel=(1,))
    assert option.bill is not None
    assert option.gpus_rented == option.bill.gpus_paid == 8
    assert total(option) == 24 * 730
    idle = option.bill.usd(BillItem.IDLE_GPUS)
    assert idle == total(option) * (8 - option.replicas) / 8
    assert option.usd_per_month_idle == float(idle)


def test_a_shared_node_is_paid_for_by_the_gpu_in_use() -> None:
    option = best(offer(), tensor_parallel=(1,), share_node=True)
    assert option.gpus_rented == option.replicas
    assert total(option) == 3 * 730 * option.replicas
    assert option.usd_per_month_idle == 0


def test_fewer_hours_pay_and_serve_less_at_the_same_price_a_token() -> None:
    whole, office = best(offer()), best(offer(), hours_per_month=180)
    assert total(office) == 24 * 180
    assert office.usd_per_million_output_tokens.mid == pytest.approx(
        whole.usd_per_million_output_tokens.mid
    )
    assert office.utilisation == whole.utilisation


def test_a_months_tokens_in_fewer_hours_come_faster() -> None:
    tokens = Workload(output_tokens_per_month=1e9)
    request = PlanRequest(targets=(LLAMA_8B,), budget_usd_per_month=1e6, workload=tokens)
    office = request.model_copy(update={"hours_per_month": Decimal(365)})
    rates = [
        recommend(asked, catalog=stocked(offer())).options[0].planned_output_tokens_per_s
        for asked in (request, office)
    ]
    assert rates[1] == pytest.approx(2 * rates[0])


def test_a_reservation_pays_for_the_hours_it_does_not_serve() -> None:
    reserved = offer(purchase=Purchase.RESERVED, term_months=12, upfront_share=Decimal("0.5"))
    found = plan(reserved, purchases=("reserved",), hours_per_month=180)
    option = found.options[0]
    assert option.bill is not None
    assert total(option) == 24 * 730
    assert option.bill.upfront_usd == total(option) * 6
    assert option.term_months == 12
    assert "12-months" in option.id
    tokens = option.planned_output_tokens_per_s * 180 * 3600
    assert option.usd_per_million_output_tokens.mid == pytest.approx(
        float(total(option)) / tokens * 1e6
    )
    commitment = next(item for item in found.assumptions if item.name == "Commitment")
    assert "12 months" in commitment.value


def test_spot_and_reserved_rows_are_used_only_when_asked_for() -> None:
    rows = (
        offer(),
        offer(purchase=Purchase.SPOT, usd_per_hour=Decimal(8)),
        offer(purchase=Purchase.RESERVED, usd_per_hour=Decimal(9), term_months=36),
    )
    assert {o.purchase for o in plan(*rows).options} == {Purchase.ON_DEMAND}
    mixed = plan(*rows, purchases=("on-demand", "spot"))
    assert {o.purchase for o in mixed.options} == {Purchase.ON_DEMAND, Purchase.SPOT}
    assert {o.usd_per_gpu_hour for o in mixed.options} == {3.0, 1.0}
    assert any("never averaged" in item.value for item in mixed.assumptions)


def test_a_discount_touches_list_prices_alone_and_is_stated() -> None:
    rows = [
        offer(),
        offer(tier="community"),
        offer(purchase=Purchase.SPOT),
        offer(purchase=Purchase.RESERVED, term_months=12),
    ]
    after = discounted(rows, Decimal("0.3"))
    assert [row.usd_per_hour for row in after] == [Decimal("16.8"), 24, 24, 24]
    assert after[0].source.kind is Kind.ASSUMED
    assert "30 %" in after[0].source.reference
    found = plan(offer(), list_discount="0.3")
    assert total(found.options[0]) == Decimal("16.8") * 730
    assert any(item.name == "Discount" for item in found.assumptions)


def test_a_price_by_the_gpu_holds_for_any_size() -> None:
    row = offer(any_count=True, gpu_count=1, usd_per_hour=Decimal("2.49"))
    assert [r.usd_per_hour for r in sized([row], (1, 4))] == [Decimal("2.49"), Decimal("9.96")]
    options = plan(row, tensor_parallel=(1, 4)).options
    assert {o.tensor_parallel for o in options} == {1, 4}
    assert all(o.usd_per_month_idle == 0 for o in options)


def test_a_budget_of_exactly_the_bill_is_enough() -> None:
    # 1.06 * 730 is 773.8000000000001 in binary fractions
    row = offer(gpu_count=1, usd_per_hour=Decimal("1.06"))
    assert plan(row, rate=0.01, budget=773.80).verdict.feasible
    assert not plan(row, rate=0.01, budget=773.79).verdict.feasible


def test_electricity_is_added_to_owned_hardware_only() -> None:
    power = Electricity(usd_per_kwh="0.12", pue="1.3")
    rented = best(offer(), electricity=power)
    assert rented.bill is not None
    assert rented.bill.usd(BillItem.ELECTRICITY) == 0
    owned = best(gpu_price_usd_per_hour={H100: 0.5}, electricity=power)
    assert owned.bill is not None
    # rated 700 W: 0.7 kW * 0.12 * 1.3 = 0.1092 USD an hour and GPU
    per_gpu = owned.bill.usd(BillItem.ELECTRICITY) / owned.gpus_rented
    assert float(per_gpu) == pytest.approx(0.1092 * 730, abs=0.01)


def test_electricity_of_hardware_of_unknown_power_must_be_stated() -> None:
    own = offer(tier="own")
    power = Electricity(usd_per_kwh="0.1")
    with pytest.raises(RequestError, match="power"):
        Terms(electricity=power).tariff(own, None)
    stated = power.model_copy(update={"watts_per_gpu": Decimal(500)})
    assert Terms(electricity=stated).tariff(own, None).energy_usd_per_gpu_hour == Decimal("0.05")


def test_an_api_is_compared_with_the_whole_bill() -> None:
    found = plan(offer(), compare_api=("meta-llama/llama-3.1-8b-instruct",))
    option, comparisons = found.options[0], found.api_comparisons
    assert comparisons
    assert [c.api_usd_per_month for c in comparisons] == sorted(
        c.api_usd_per_month for c in comparisons
    )
    for comparison in comparisons:
        assert comparison.gpu_usd_per_month == total(option)
        assert float(comparison.output_tokens_per_month) == pytest.approx(2 * 256 * 730 * 3600)
        assert comparison.prompt_tokens_per_month == 4 * comparison.output_tokens_per_month
    assert Plan.model_validate_json(found.model_dump_json()).api_comparisons == comparisons


def test_without_a_name_the_apis_that_bear_the_targets_name_are_compared() -> None:
    found = compare_with_apis(plan(offer()))
    assert found
    assert {c.price.model.lower().rpartition("/")[2] for c in found} == {"llama-3.1-8b-instruct"}


def test_an_option_that_is_not_there_is_an_error() -> None:
    with pytest.raises(RequestError, match="no option 99"):
        compare_with_apis(plan(offer()), rank=99)


def test_the_bill_survives_the_plan_file() -> None:
    found = plan()
    again = capplan.Plan.model_validate_json(found.model_dump_json())
    assert [option.bill for option in again.options] == [option.bill for option in found.options]
    for option in found.options:
        assert option.bill is not None
        assert sum(line.usd for line in option.bill.lines) == total(option)
        assert option.usd_per_month.mid == float(total(option))
        assert option.bill.nodes is not None
        assert total(option) == option.bill.nodes * option.bill.usd_per_node_hour * 730
