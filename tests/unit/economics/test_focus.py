"""A plan's month as FOCUS-shaped rows: what adds up, what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from capplan.economics.bill import Tariff, monthly_bill
from capplan.economics.focus import FocusRow, focus_rows
from capplan.errors import RequestError
from capplan.schema.price import Electricity, Purchase


def total(rows: tuple[FocusRow, ...], name: str) -> Decimal:
    amounts = [row[name] for row in rows]
    return sum((one for one in amounts if isinstance(one, Decimal)), Decimal(0))


def _owned(sample_plans: Any) -> Any:
    tariff = Tariff(
        Decimal("16.80"), 8, energy_usd_per_gpu_hour=Decimal("0.0169"), serving_hours=Decimal(700)
    )
    bill = monthly_bill(3, 2, tariff)
    option = sample_plans.make_option(
        provider="own", region="own", price_tier="own", bill=bill, replicas=3
    )
    request = sample_plans.make_plan().request
    power = Electricity(usd_per_kwh=Decimal("0.13"))
    return sample_plans.make_plan(
        options=(option,), request=request.model_copy(update={"electricity": power})
    )


def test_the_rows_add_up_to_the_bill(sample_plans: Any) -> None:
    for plan in (sample_plans.make_plan(), _owned(sample_plans)):
        rows = focus_rows(plan)
        bill = plan.options[0].bill
        for name in ("ListCost", "ContractedCost", "EffectiveCost"):
            assert total(rows, name) == bill.total_usd
        assert total(rows, "BilledCost") == 0
        assert total(rows, "x_IdleCost") == bill.total_usd - sum(
            line.usd for line in bill.lines if line.item.value != "idle_gpus"
        )


def test_electricity_is_a_row_of_its_own_by_the_kilowatt_hour(sample_plans: Any) -> None:
    rent, energy = focus_rows(_owned(sample_plans))
    assert (rent["PricingUnit"], energy["PricingUnit"]) == ("Hours", "kWh")
    assert rent["PricingQuantity"] == 700
    assert rent["ConsumedQuantity"] == 5600
    assert rent["x_IdleShare"] == Decimal("0.2500")
    # 8 GPUs, 700 hours, 0.13 kW each, at 0.13 USD: 94.64 USD
    assert energy["EffectiveCost"] == Decimal("94.64")
    assert energy["PricingQuantity"] == 728
    assert energy["x_OutputTokens"] is None


def test_the_interval_of_the_month_is_split_like_the_bill(sample_plans: Any) -> None:
    option = sample_plans.make_option(
        usd_per_month={"low": 5825.4, "mid": 11650.8, "high": 17476.2}
    )
    (row,) = focus_rows(sample_plans.make_plan(options=(option,)))
    assert (row["x_CostLow"], row["x_CostHigh"]) == (Decimal("5825.40"), Decimal("17476.20"))


@pytest.mark.parametrize(
    ("made", "start", "end"),
    [
        ("2026-11-29T12:00:00Z", (2026, 12), (2027, 1)),
        ("2026-12-31T23:30:00-05:00", (2027, 2), (2027, 3)),
        ("2026-10-01", (2026, 11), (2026, 12)),
    ],
)
def test_the_month_is_the_one_after_the_plan_was_made(
    sample_plans: Any, made: str, start: tuple[int, int], end: tuple[int, int]
) -> None:
    (row,) = focus_rows(sample_plans.make_plan(created_at=made))
    assert row["ChargePeriodStart"] == datetime(*start, 1, tzinfo=UTC)
    assert row["BillingPeriodEnd"] == datetime(*end, 1, tzinfo=UTC)


def test_a_month_may_be_asked_for(sample_plans: Any) -> None:
    (row,) = focus_rows(sample_plans.make_plan(), "2028-02")
    assert row["ChargePeriodStart"] == datetime(2028, 2, 1, tzinfo=UTC)
    assert row["ChargePeriodEnd"] == datetime(2028, 3, 1, tzinfo=UTC)
    for wrong in ("2028-13", "soon", "2028"):
        with pytest.raises(RequestError, match="no month"):
            focus_rows(sample_plans.make_plan(), wrong)


def test_a_stated_discount_shows_as_contracted_below_list(sample_plans: Any) -> None:
    request = sample_plans.make_plan().request.model_copy(
        update={"list_discount": Decimal("0.25")}
    )
    tariff = Tariff(Decimal("5.985"), 2)  # 7.98 less a quarter
    option = sample_plans.make_option(bill=monthly_bill(2, 2, tariff))
    (row,) = focus_rows(sample_plans.make_plan(options=(option,), request=request))
    assert (row["ListUnitPrice"], row["ContractedUnitPrice"]) == (
        Decimal("7.98"),
        Decimal("5.985"),
    )
    assert row["ListCost"] == Decimal("11650.8")
    assert row["EffectiveCost"] == Decimal("8738.1")
    spot = sample_plans.make_option(bill=option.bill, purchase=Purchase.SPOT)
    (row,) = focus_rows(sample_plans.make_plan(options=(spot,), request=request))
    assert row["ListUnitPrice"] == row["ContractedUnitPrice"]


def test_a_price_without_an_end_still_has_few_enough_decimals(sample_plans: Any) -> None:
    bill = monthly_bill(2, 1, Tariff(Decimal(10) / 3, 1))
    option = sample_plans.make_option(bill=bill)
    (row,) = focus_rows(sample_plans.make_plan(options=(option,)))
    for value in row.values():
        if isinstance(value, Decimal):
            exponent = value.as_tuple().exponent
            assert isinstance(exponent, int)
            assert exponent >= -14


def test_only_one_option_is_exported_and_another_may_be_named(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    assert len(focus_rows(plan)) == 1
    assert focus_rows(plan, rank=5)[0]["x_SpeculationMethod"] == "none"
    with pytest.raises(RequestError, match="5 options, no option 6"):
        focus_rows(plan, rank=6)


def test_where_nothing_fits_there_is_no_row(sample_plans: Any) -> None:
    assert focus_rows(sample_plans.infeasible_plan()) == ()


def test_a_plan_without_a_bill_is_refused_with_a_remedy(sample_plans: Any) -> None:
    plan = sample_plans.make_plan(options=(sample_plans.make_option(bill=None),))
    with pytest.raises(RequestError, match="older capplan"):
        focus_rows(plan)
