"""Every figure of each answer about money, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from capplan.economics.autoscaling import HOURS_PER_WEEK, autoscale, needed_margin
from capplan.economics.bill import (
    LARGEST_BILL_USD,
    LONGEST_MONTH_HOURS,
    Tariff,
    energy_usd_per_gpu_hour,
    monthly_bill,
    nodes_for,
)
from capplan.economics.blends import OtherPrice, blend_commitment, blend_spot
from capplan.economics.breakeven import api_bill, break_even_output_tokens, compare_with_api
from capplan.economics.cost import nodes_needed, replicas_for, usd_per_million_tokens
from capplan.economics.decimals import exact, positive, to_cents, to_storable
from capplan.economics.focus import focus_rows
from capplan.economics.outlook import Fleet, first_month_above, grow, with_spares
from capplan.economics.tokens import token_prices, utilisation_curve
from capplan.errors import RequestError
from capplan.schema.price import ApiPrice, Electricity, Purchase
from capplan.schema.provenance import Kind, Source

STATED = Source(kind=Kind.ASSUMED, reference="stated")


def figures(answer: Any, *left_out: str) -> dict[str, Any]:
    return answer.model_dump(exclude=set(left_out))  # type: ignore[no-any-return]


def about(**values: float | None) -> dict[str, Any]:
    return {name: value if value is None or isinstance(value, int) else pytest.approx(value)
            for name, value in values.items()}  # fmt: skip


# ---- replicas that follow the hours


HALF_DAYS = np.tile(np.repeat([50.0, 200.0], 12), 7)
FOUR = Fleet(
    replicas=4, gpus_per_replica=1, replica_tokens_per_s=100.0, utilisation_limit=0.5,
    mean_tokens_per_s=125.0, peak_tokens_per_s=200.0, tariff=Tariff(Decimal(2), 1),
)  # fmt: skip


def test_autoscaling() -> None:
    found = autoscale(FOUR, HALF_DAYS, scale_up_lag_minutes=20)
    # 12 hours of 1 and 12 of 4 replicas, and 3 more for a third of the hour before the rise
    gpu_hours = (60 + 1) / 24 * 730
    assert figures(found, "hours") == about(
        peak_within_hour=1.0,
        scale_up_lag_minutes=20.0,
        fixed_replicas=4,
        fixed_gpu_hours_per_month=2920.0,
        fixed_usd_per_month=5840.0,
        gpu_hours_per_month=gpu_hours,
        usd_per_month=2 * gpu_hours,
        saved_usd_per_month=2 * (2920 - gpu_hours),
        saved_share=1 - 61 / 96,
        lag_gpu_hours_per_month=730 / 24,
        mean_replicas=61 / 24,
        least_replicas=1,
        most_replicas=4,
        needed_margin=1.0,  # from 50 to 100 in a third of the hour between two middles
        planned_margin=1.0,
    )
    assert len(found.hours) == HOURS_PER_WEEK == 168
    tuesday = found.hours[24 + 11]
    assert figures(tuesday) == {
        "hour_of_week": 35, "day": "Tue", "hour_of_day": 11, "output_tokens_per_s": 50.0,
        "replicas": 1, "replicas_at_end_of_hour": 4,
    }  # fmt: skip
    assert [found.hours[24 * day].day for day in range(7)] == [
        "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun",
    ]  # fmt: skip


def test_autoscaling_keeps_the_peak_within_an_hour_as_headroom() -> None:
    found = autoscale(FOUR, HALF_DAYS / 2, peak_within_hour=2.0)
    assert found.peak_within_hour == 2.0
    assert found.hours[13].output_tokens_per_s == 200.0
    assert found.usd_per_month == pytest.approx(60 / 24 * 730 * 2)


def test_autoscaling_over_other_hours_than_a_month_of_730() -> None:
    owned = replace(FOUR, tariff=Tariff(Decimal(2), 1, serving_hours=Decimal(365)))
    assert autoscale(owned, HALF_DAYS).fixed_gpu_hours_per_month == 4 * 365
    assert autoscale(owned, HALF_DAYS).gpu_hours_per_month == pytest.approx(60 / 24 * 365)


def test_hours_that_a_lag_reaches_over_several_whole_ones() -> None:
    found = autoscale(FOUR, HALF_DAYS, scale_up_lag_minutes=120)
    ends = [hour.replicas for hour in found.hours[8:14]]
    assert ends == [1, 1, 4, 4, 4, 4]
    assert [hour.replicas_at_end_of_hour for hour in found.hours[8:14]] == ends
    # the week is a ring: Sunday's last hours see Monday's first
    monday_first = np.full(168, 50.0)
    monday_first[0] = 200.0
    sunday = autoscale(FOUR, monday_first, scale_up_lag_minutes=60).hours[-1]
    assert (sunday.day, sunday.replicas) == ("Sun", 4)


def test_a_margin_needs_a_lag_and_a_load() -> None:
    assert needed_margin(np.zeros(168), 10.0) is None
    assert needed_margin(np.full(168, 3.0), 0.0) is None
    assert needed_margin(np.full(168, 3.0), 10.0) == 0.0
    slow_up_and_fast_down = np.full(168, 100.0)
    slow_up_and_fast_down[10:20] = np.arange(110.0, 210.0, 10.0)
    assert needed_margin(slow_up_and_fast_down, 60.0) == pytest.approx(0.1)
    nothing_at_night = np.full(168, 1.0)
    nothing_at_night[5] = 1e-10
    assert needed_margin(nothing_at_night, 60.0) is None
    almost = np.full(168, 1.0)
    almost[5] = 1e-8
    assert (needed_margin(almost, 60.0) or 0) > 1e6


# ---- growth and spares


NODE = Fleet(
    replicas=2, gpus_per_replica=4, replica_tokens_per_s=1000.0, utilisation_limit=0.6,
    mean_tokens_per_s=500.0, peak_tokens_per_s=1000.0, tariff=Tariff(Decimal(20), 8),
    capacity_factors=(0.75, 1.5),
)  # fmt: skip


def test_growth() -> None:
    found = grow(NODE, 0.10, 3, budget_usd=14_600)
    assert figures(found, "months") == about(
        growth_per_month=0.10,
        utilisation_limit=0.6,
        planned_replicas=2,
        planned_capacity_output_tokens_per_s=2000.0,
        outgrown_in_month=2,  # 1,100 below and 1,210 above 1,200
        outgrown_in_month_at_low_capacity=0,
        outgrown_in_month_at_high_capacity=7,  # 1.1**7 = 1.949 above 1.8
        full_in_month=8,
        over_budget_in_month=2,
    )
    assert [one.month for one in found.months] == [0, 1, 2, 3]
    assert figures(found.months[2]) == about(
        month=2,
        load_factor=1.21,
        output_tokens_per_s_at_peak=1210.0,
        planned_fleet_utilisation_at_peak=0.605,
        replicas=3,
        gpus_paid=16,
        usd_per_month=29_200.0,
        usd_per_million_output_tokens=29_200 / (500 * 1.21 * 730 * 3600) * 1e6,
        within_budget=False,
    )
    sure = grow(replace(NODE, capacity_factors=Fleet.capacity_factors), 0.10, 0, 1e6)
    assert sure.outgrown_in_month_at_low_capacity == sure.outgrown_in_month == 2
    assert sure.outgrown_in_month_at_high_capacity == 2
    assert found.months[1].within_budget  # exactly the budget is within it


def test_growth_is_listed_as_far_as_asked() -> None:
    assert len(grow(NODE, 0.1, 0, 1e6).months) == 1
    assert len(grow(NODE, 0.0, 120, 1e6).months) == 121
    assert grow(NODE, 10.0, 0, 1e6).outgrown_in_month == 1
    for months in (-1, 121):
        with pytest.raises(RequestError, match=f"{months} months were asked for"):
            grow(NODE, 0.1, months, 1e6)


def test_a_growing_load_and_a_limit() -> None:
    assert first_month_above(100.0, 200.0, 1.0) == 2  # at 200 exactly it still holds
    assert first_month_above(100.0, 201.0, 1.0) == 2
    assert first_month_above(100.0, 199.0, 1.0) == 1
    assert first_month_above(100.0, 100.0 * (1 + 1e-9), 1e-12) == 1001
    assert first_month_above(1.0, 2.0, -0.5) is None


def test_spares() -> None:
    rows = with_spares(NODE, 3).rows
    assert with_spares(NODE, 3).utilisation_limit == 0.6
    assert figures(rows[1]) == about(
        spare_replicas=1,
        replicas=3,
        gpus_paid=16,
        usd_per_month=29_200.0,
        usd_of_spares_per_month=14_600.0,
        utilisation_at_peak=1 / 3,
        utilisation_at_peak_one_replica_down=0.5,
    )
    assert [row.replicas for row in rows] == [2, 3, 4, 5]


def test_a_fleet_of_no_replica_costs_nothing_and_rents_nothing() -> None:
    assert (NODE.usd_per_month(0), NODE.gpus_paid(0), NODE.nodes(0)) == (0.0, 0, 0)
    assert (NODE.nodes(3), NODE.node_gpus) == (2, 8)
    assert NODE.capacity_tokens_per_s == 2000.0
    assert NODE.utilisation_at_peak(4) == 0.25
    shared = replace(NODE, tariff=replace(NODE.tariff, share_node=True))
    assert (shared.nodes(3), shared.node_gpus, shared.gpus_paid(3)) == (3, 4, 12)


# ---- shares at another price


TEN = Fleet(
    replicas=10, gpus_per_replica=1, replica_tokens_per_s=1000.0, utilisation_limit=0.6,
    mean_tokens_per_s=500.0, peak_tokens_per_s=6000.0,
    tariff=Tariff(Decimal(2), 1, energy_usd_per_gpu_hour=Decimal("0.5")),
)  # fmt: skip


def test_spot() -> None:
    found = blend_spot(TEN, 0.5, 0.05, OtherPrice(Decimal("1.25"), STATED))
    on_demand, spot = 5 * 2.5 * 730, 6 * 1.25 * 730  # electricity is in the spot price
    assert figures(found, "spot_price_source") == about(
        spot_share=0.5,
        interruption_overhead=0.05,
        on_demand_usd_per_gpu_hour=2.5,
        spot_usd_per_gpu_hour=1.25,
        on_demand_replicas=5,
        spot_replicas=6,
        on_demand_usd_per_month=on_demand,
        spot_usd_per_month=spot,
        usd_per_month=on_demand + spot,
        planned_usd_per_month=18_250.0,
        saved_usd_per_month=18_250 - on_demand - spot,
        break_even_interruption_overhead=1.0,
        peak_served_without_spot=5 / 6,
    )
    assert found.spot_price_source == STATED
    nothing_moved = blend_spot(TEN, 0.0, 0.05, OtherPrice(Decimal(1), STATED))
    assert nothing_moved.peak_served_without_spot == 1.0


def test_spot_on_whole_nodes_is_priced_by_the_gpu() -> None:
    nodes = replace(TEN, replicas=4, gpus_per_replica=4, peak_tokens_per_s=2400.0,
                    tariff=Tariff(Decimal(16), 8))  # fmt: skip
    found = blend_spot(nodes, 0.5, 0.0, OtherPrice(Decimal(1), STATED))
    assert (found.on_demand_replicas, found.spot_replicas) == (2, 2)
    assert found.spot_usd_per_month == 8 * 730
    assert found.on_demand_usd_per_month == 16 * 730


def test_spot_is_rented_by_the_hour_though_the_plan_is_reserved() -> None:
    tariff = Tariff(Decimal(2), 1, serving_hours=Decimal(100), always_on=True)
    found = blend_spot(replace(TEN, tariff=tariff), 1.0, 0.0, OtherPrice(Decimal(1), STATED))
    assert found.spot_usd_per_month == 10 * 100
    assert found.planned_usd_per_month == 10 * 2 * 730


def test_commitment() -> None:
    needed = [4] * 3 + [10] * 1  # of four hours: 10 nodes in one of them
    found = blend_commitment(TEN, 0.75, OtherPrice(Decimal("1.5"), STATED), needed)
    committed, by_hour = 7 * 1.5 * 730, 3 * 2.5 * 730
    assert figures(found, "commit_price_source") == about(
        commit_share=0.75,
        nodes=10,
        committed_nodes=7,
        on_demand_usd_per_gpu_hour=2.5,
        commit_usd_per_gpu_hour=1.5,
        committed_usd_per_month=committed,
        on_demand_usd_per_month=by_hour,
        usd_per_month=committed + by_hour,
        planned_usd_per_month=18_250.0,
        saved_usd_per_month=18_250 - committed - by_hour,
        break_even_hours_per_month=730 * 1.5 / 2.5,  # 438
        nodes_worth_committing=4,  # needed 730 hours; the others 182.5
    )


def test_a_node_needed_for_just_the_break_even_is_not_worth_committing() -> None:
    half = blend_commitment(TEN, 1.0, OtherPrice(Decimal("1.25"), STATED), [10, 0])
    assert half.break_even_hours_per_month == 365
    assert half.nodes_worth_committing == 0
    assert half.committed_nodes == 10
    # hours that need more nodes than there are make no further one worth it
    assert blend_commitment(
        TEN, 1.0, OtherPrice(Decimal("1.25"), STATED), [12]
    ).nodes_worth_committing == 10  # fmt: skip
    whole = replace(TEN, replicas=3, gpus_per_replica=4, tariff=Tariff(Decimal(16), 8))
    nodes = blend_commitment(whole, 0.5, OtherPrice(Decimal(1), STATED))
    assert (nodes.nodes, nodes.committed_nodes) == (2, 1)
    assert nodes.usd_per_month == pytest.approx(8 * 730 + 8 * 2 * 730)


# ---- bills


def test_bill_of_a_node_that_is_partly_idle() -> None:
    tariff = Tariff(
        Decimal(10), 3, serving_hours=Decimal(100), term_months=12,
        upfront_share=Decimal("0.5"), energy_usd_per_gpu_hour=Decimal("0.01"),
    )  # fmt: skip
    bill = monthly_bill(2, 2, tariff)  # a replica of 2 on a node of 3: two nodes, two GPUs idle
    assert bill.nodes == 2
    assert (bill.gpus_paid, bill.gpus_in_use, bill.gpus_per_node) == (6, 4, 3)
    assert (bill.paid_hours, bill.serving_hours) == (100, 100)
    assert bill.usd_per_node_hour == 10
    assert [(line.item.value, line.usd) for line in bill.lines] == [
        ("gpus_in_use", Decimal("1333.33")),
        ("idle_gpus", Decimal("666.67")),
        ("electricity", Decimal("6.00")),
    ]
    assert bill.total_usd == 2006
    assert bill.upfront_usd == 2 * 10 * 730 * 12 / 2  # a term's months are of 730 hours


def test_the_largest_bill_is_a_bill_and_a_cent_more_is_none() -> None:
    assert monthly_bill(1, 1, Tariff(LARGEST_BILL_USD / 730, 1)).total_usd == LARGEST_BILL_USD
    with pytest.raises(RequestError, match="beyond"):
        monthly_bill(1, 1, Tariff((LARGEST_BILL_USD + 1) / 730, 1))


def test_what_is_due_on_the_first_day_takes_a_term_and_a_share() -> None:
    for terms in ({"term_months": 12}, {"upfront_share": Decimal("0.5")}):
        assert monthly_bill(1, 1, Tariff(Decimal(2), 1, **terms)).upfront_usd == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("days", [28, 29, 30, 31])
def test_a_reservation_of_a_month_of_the_calendar_pays_for_its_own_hours(days: int) -> None:
    month = Tariff(Decimal(1), 1, serving_hours=Decimal(24 * days), always_on=True)
    assert month.paid_hours == 24 * days
    assert LONGEST_MONTH_HOURS == 744


def test_nodes_and_hours() -> None:
    assert nodes_for(5, 3, 8) == 3
    assert nodes_for(4, 8, 8) == 4
    reserved = Tariff(Decimal(8), 8, Decimal(365), always_on=True)
    assert reserved.usd_per_gpu_hour == 1
    assert reserved.usd_per_serving_gpu_hour == 2
    assert energy_usd_per_gpu_hour(1000, 1) == 1  # a site that loses nothing


# ---- tokens


PRICE = ApiPrice(
    model="an LLM", family="other", provider="somebody",
    input_usd_per_million_tokens=Decimal("0.10"), output_usd_per_million_tokens=Decimal("0.40"),
    cached_input_usd_per_million_tokens=Decimal("0.02"), tiered=False, source=STATED,
)  # fmt: skip


def test_every_denominator_of_a_bill() -> None:
    run = token_prices(
        36, output_tokens_per_s=10, input_tokens_per_s=40, utilisation="0.5", input_share="0.25"
    )
    # an hour: 18,000 tokens out and 72,000 in, at half of the use
    assert run.usd_per_million_output == 2000
    assert run.usd_per_million_input == 500
    assert run.usd_per_million_total == 400
    assert run.split_usd_per_million_input == 125
    assert run.split_usd_per_million_output == 1500
    whole = token_prices(36, output_tokens_per_s=10, input_tokens_per_s=40, input_share=1)
    assert whole.split_usd_per_million_output == 0
    none = token_prices(36, output_tokens_per_s=10, input_share=0)
    assert (none.split_usd_per_million_input, none.split_usd_per_million_output) == (None, 1000)
    assert token_prices(36, output_tokens_per_s=10).split_usd_per_million_output is None
    with pytest.raises(RequestError, match="Input tokens"):
        token_prices(36, output_tokens_per_s=10, input_tokens_per_s="inf")


def test_the_curve_of_utilisation_by_tenths() -> None:
    curve = utilisation_curve(36, 10)
    assert [used for used, _ in curve] == [Decimal(n) / 10 for n in range(1, 11)]
    assert curve[-1][1] == 1000


def test_an_api_beside_gpus() -> None:
    found = compare_with_api(
        PRICE,
        gpu_usd_per_month=810,
        output_tokens_per_month=1e9,
        capacity_output_tokens_per_month=None,
        prompt_per_output_token=4,
        cached_input_share="0.5",
    )
    assert figures(found, "price") == {
        "cached_input_share": Decimal("0.5"),
        "output_tokens_per_month": 1_000_000_000,
        "prompt_tokens_per_month": 4_000_000_000,
        "gpu_usd_per_month": 810,
        "api_usd_per_month": 640,
        "api_usd_per_million_output_tokens": Decimal("0.64"),
        "gpu_usd_per_million_output_tokens": Decimal("0.81"),
        "break_even_output_tokens_per_month": 1_265_625_000,
        "capacity_output_tokens_per_month": None,
    }
    assert api_bill(PRICE, prompt_tokens=1e6, output_tokens=0).total_usd == Decimal("0.1")
    assert break_even_output_tokens(1, PRICE, prompt_per_output_token=0) == 2_500_000
    # nothing is taken to be cached that is not said to be: 0.40 + 4 x 0.10
    assert break_even_output_tokens(1, PRICE, prompt_per_output_token=4) == 1_250_000
    uncached = compare_with_api(
        PRICE, gpu_usd_per_month=810, output_tokens_per_month=1e9,
        capacity_output_tokens_per_month=2e9, prompt_per_output_token=4,
    )  # fmt: skip
    assert (uncached.api_usd_per_month, uncached.cached_input_share) == (800, 0)
    assert uncached.capacity_output_tokens_per_month == 2_000_000_000
    everything_cached = api_bill(PRICE, prompt_tokens=1e6, output_tokens=0, cached_input_share=1)
    assert everything_cached.input_usd == 0
    assert everything_cached.total_usd == Decimal("0.02")


@pytest.mark.parametrize("tokens", [-1, "nan", "inf"])
def test_tokens_that_are_none_are_refused(tokens: float | str) -> None:
    with pytest.raises(RequestError, match="number of tokens"):
        api_bill(PRICE, prompt_tokens=tokens, output_tokens=0)


def test_searching_in_floats() -> None:
    assert float(usd_per_million_tokens(36, 10, hours_per_month=1)) == 1000
    assert float(nodes_needed(4, 2, 8)) == 1
    assert replicas_for([0.0, 60.0, 60.001], 100.0, 0.6).tolist() == [1, 1, 2]


# ---- decimals


def test_rounding_as_invoices_do() -> None:
    assert to_cents(Decimal("0.005")) == Decimal("0.01")
    assert to_cents(Decimal("-0.005")) == Decimal("-0.01")
    assert to_cents(Decimal("2.674999")) == Decimal("2.67")


def test_what_json_holds() -> None:
    assert to_storable(Decimal("1.123456785")) == Decimal("1.12345679")
    assert to_storable(Decimal("9999999.123456785")) == Decimal("9999999.12345679")
    assert to_storable(Decimal("10000000.125")) == Decimal("10000000.13")
    assert to_storable(Decimal("-10000000.125")) == Decimal("-10000000.13")
    assert str(to_storable(Decimal("1500.00"))) == "1500"
    for amount in ("1e24", "-1e24", "inf"):
        with pytest.raises(RequestError, match="no amount to reckon with"):
            to_storable(Decimal(amount))
    assert to_storable(Decimal("9.99e23")) == Decimal("9.99e23")


def test_numbers_as_they_are_written() -> None:
    assert exact("0.10") == exact(0.1) == Decimal("0.1")
    assert exact(np.float64(0.1)) == Decimal("0.1")
    assert exact(3) == 3
    with pytest.raises(RequestError, match="'a lot' is not a number"):
        exact("a lot")
    assert positive("0.001", "It") == Decimal("0.001")
    for value in (0, -1, "inf", "nan"):
        with pytest.raises(RequestError, match=r"It is .*, expected a finite number above 0"):
            positive(value, "It")


# ---- FOCUS


def test_every_column_of_a_row(sample_plans: Any) -> None:
    option = sample_plans.make_option(
        usd_per_month={"low": 5825.4, "mid": 11650.8, "high": 23301.6},
        bill=monthly_bill(3, 1, Tariff(Decimal("7.98"), 2, serving_hours=Decimal(700))),
        term_months=12,
    )
    (row,) = focus_rows(sample_plans.make_plan(options=(option,), created_at="2026-01-31"))
    # two nodes for three GPUs, 7.98 USD, 700 hours
    money = Decimal("11172.00")
    expected = {
        "BilledCost": 0, "ListCost": money, "ContractedCost": money, "EffectiveCost": money,
        "PricingCurrencyEffectiveCost": money, "PricingQuantity": 1400,
        "ListUnitPrice": Decimal("7.98"), "ContractedUnitPrice": Decimal("7.98"),
        "PricingCurrencyListUnitPrice": Decimal("7.98"),
        "PricingCurrencyContractedUnitPrice": Decimal("7.98"),
        "ConsumedQuantity": 2800, "x_GpusPaid": 4, "x_GpusInUse": 3, "x_Replicas": 2,
        "x_IdleCost": Decimal(2793), "x_IdleShare": Decimal("0.25"),
        "x_CostLow": Decimal("5825.40"), "x_CostHigh": Decimal("23301.60"),
        "x_PaidHours": 700, "x_ServingHours": 700, "x_TermMonths": 12,
        "x_SpeculationLength": 3, "x_OutputTokens": 2400 * 700 * 3600,
        "x_CostPerMillionOutputTokens": Decimal("1.87"), "x_Utilization": Decimal("0.46"),
        "x_UpfrontCost": 0, "RegionId": "us-east-1", "RegionName": "us-east-1",
        "PricingCategory": "Standard", "ServiceName": "Rented GPUs",
        "ServiceSubcategory": "Virtual Machines",
        "ChargePeriodStart": datetime(2026, 2, 1, tzinfo=UTC),
        "ChargePeriodEnd": datetime(2026, 3, 1, tzinfo=UTC),
        "x_PlanCreated": datetime(2026, 1, 31, tzinfo=UTC),
        "CommitmentDiscountId": None, "SkuMeter": "Instance hours",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["SkuPriceDetails"] == ('{"GpuCount": 2, "InstanceType": "gpu_2x_h100_sxm5"}')
    assert "4 x H100 SXM 80GB for 700 hours" in str(row["ChargeDescription"])


@pytest.mark.parametrize(
    ("purchase", "category"),
    [(Purchase.ON_DEMAND, "Standard"), (Purchase.SPOT, "Dynamic"), (Purchase.RESERVED, "Other")],
)
def test_how_capacity_is_bought(sample_plans: Any, purchase: Purchase, category: str) -> None:
    option = sample_plans.make_option(purchase=purchase, region="any")
    (row,) = focus_rows(sample_plans.make_plan(options=(option,)))
    assert row["PricingCategory"] == category
    assert row["RegionId"] is row["RegionName"] is None
    assert row["x_TermMonths"] is None


def owned(sample_plans: Any, power: Electricity | None) -> Any:
    tariff = Tariff(Decimal("16.80"), 8, energy_usd_per_gpu_hour=Decimal("0.0169"))
    option = sample_plans.make_option(
        provider="own", region="own", price_tier="own", bill=monthly_bill(4, 2, tariff)
    )
    plan = sample_plans.make_plan(options=(option,))
    request = plan.request.model_copy(update={"electricity": power})
    return sample_plans.make_plan(options=(option,), request=request)


def test_owned_hardware_is_no_offer(sample_plans: Any) -> None:
    rent, energy = focus_rows(owned(sample_plans, Electricity(usd_per_kwh=Decimal("0.13"))))
    assert (rent["ServiceName"], rent["PricingCategory"]) == ("Owned GPUs", "Other")
    assert rent["ServiceSubcategory"] == "Other (Compute)"
    assert rent["x_IdleShare"] == 0
    assert rent["RegionId"] is None
    # 98.70 USD of 12,362.70: its share of the interval, too
    assert energy["EffectiveCost"] == Decimal("98.70")
    share = Decimal("98.70") / Decimal("12362.70")
    for end in ("x_CostLow", "x_CostHigh"):
        assert energy[end] == to_cents(Decimal(11651) * share)
        assert rent[end] == to_cents(Decimal(11651) * (1 - share))


def test_without_a_discount_the_list_price_is_the_price_to_its_last_digit(
    sample_plans: Any,
) -> None:
    option = sample_plans.make_option(bill=monthly_bill(2, 1, Tariff(Decimal(10) / 3, 1)))
    (row,) = focus_rows(sample_plans.make_plan(options=(option,)))
    assert row["ListUnitPrice"] == row["ContractedUnitPrice"] == Decimal("3.333333333333")
    assert row["ListCost"] == row["ContractedCost"]


def test_electricity_on_the_bill_without_a_price_is_refused(sample_plans: Any) -> None:
    with pytest.raises(RequestError, match="states no price of it"):
        focus_rows(owned(sample_plans, None))


def test_a_plan_made_at_no_time_is_refused(sample_plans: Any) -> None:
    with pytest.raises(RequestError, match="'yesterday', which is no time"):
        focus_rows(sample_plans.make_plan(created_at="yesterday"))


@pytest.mark.parametrize("rank", [0, -1])
def test_ranks_begin_at_one(sample_plans: Any, rank: int) -> None:
    with pytest.raises(RequestError, match=f"no option {rank}"):
        focus_rows(sample_plans.make_plan(), rank=rank)


def test_the_second_option_of_an_infeasible_plan_is_still_refused(sample_plans: Any) -> None:
    with pytest.raises(RequestError, match="0 options, no option 2"):
        focus_rows(sample_plans.infeasible_plan(), rank=2)


def test_hours_of_many_loads_scale_alike() -> None:
    assert math.isclose(
        autoscale(FOUR, HALF_DAYS * 0.9999).usd_per_month, autoscale(FOUR, HALF_DAYS).usd_per_month
    )
