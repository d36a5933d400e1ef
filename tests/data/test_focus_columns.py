"""FOCUS-shaped rows against the stored rules of FOCUS, as the official check reads them."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from capplan.economics.focus import focus_rows
from capplan.economics.focus_columns import (
    DECIMAL_COLUMNS,
    FOCUS_COLUMNS,
    MOMENT_COLUMNS,
    OWN_COLUMNS,
)
from capplan.reporting.focus_file import focus_csv
from capplan.resources import models_db_dir
from capplan.schema.fleet import FleetWay, ServiceFleet, ServicePart
from capplan.schema.plan import PlanOption
from capplan.schema.price import BillItem, BillLine, Electricity, MonthlyBill, Purchase
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Slo

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_PLAIN = re.compile(r"\d+\.\d+")
_UNIT = re.compile(r"[A-Za-z]+(-(Hours|Days|Months))?")


def _rules() -> dict[str, dict[str, str]]:
    text = (models_db_dir() / "focus" / "columns_1_2.csv").read_text(encoding="utf-8")
    return {row["column"]: row for row in csv.DictReader(io.StringIO(text))}


RULES = _rules()


def _owned_bill() -> MonthlyBill:
    return MonthlyBill(
        nodes=1,
        gpus_paid=8,
        gpus_in_use=6,
        gpus_per_node=8,
        usd_per_node_hour=Decimal("16.80"),
        paid_hours=Decimal(730),
        serving_hours=Decimal(730),
        lines=(
            BillLine(item=BillItem.GPUS_IN_USE, usd=Decimal(9198)),
            BillLine(item=BillItem.IDLE_GPUS, usd=Decimal(3066)),
            BillLine(item=BillItem.ELECTRICITY, usd=Decimal("690.87")),
        ),
        total_usd=Decimal("12954.87"),
    )


@pytest.fixture(scope="module")
def cells(sample_plans: Any) -> list[dict[str, str]]:
    """Rows of plans of every kind, as a reader of the file gets them."""
    plan = sample_plans.make_plan()
    owned = sample_plans.make_option(
        provider="own", region="own", price_tier="own", bill=_owned_bill()
    )
    power = Electricity(usd_per_kwh=Decimal("0.13"))
    plans = [
        plan,
        sample_plans.make_plan(options=(sample_plans.make_option(purchase=Purchase.SPOT),)),
        sample_plans.make_plan(
            options=(sample_plans.make_option(purchase=Purchase.RESERVED, term_months=12),)
        ),
        sample_plans.make_plan(
            options=(owned,), request=plan.request.model_copy(update={"electricity": power})
        ),
    ]
    rows = [row for one in plans for row in focus_rows(one)]
    return list(csv.DictReader(io.StringIO(focus_csv(rows))))


def test_the_columns_are_those_of_focus_and_ours_come_after(cells: list[dict[str, str]]) -> None:
    assert len(cells) == 5
    assert tuple(cells[0]) == (*RULES, *OWN_COLUMNS)
    assert len(RULES) == len(FOCUS_COLUMNS) == 57
    assert all(re.fullmatch(r"x_[A-Z][A-Za-z]+", name) for name in OWN_COLUMNS)


def test_the_types_listed_in_the_code_are_those_of_focus() -> None:
    decimals = {name for name, rule in RULES.items() if rule["data_type"] == "decimal"}
    moments = {name for name, rule in RULES.items() if rule["data_type"] == "utc time"}
    assert decimals == {name for name in DECIMAL_COLUMNS if not name.startswith("x_")}
    assert moments == {name for name in MOMENT_COLUMNS if not name.startswith("x_")}
    assert {name for name in (*DECIMAL_COLUMNS, *MOMENT_COLUMNS) if name.startswith("x_")} <= set(
        OWN_COLUMNS
    )


@pytest.mark.parametrize("name", [*RULES, *OWN_COLUMNS])
def test_every_cell_has_the_form_that_its_column_asks_for(
    cells: list[dict[str, str]], name: str
) -> None:
    for row in cells:
        _check_form(name, row[name])


def _check_form(name: str, cell: str) -> None:
    rule = RULES.get(name, {"null_in_usage": "yes", "allowed": "", "format": "", "data_type": ""})
    if not cell:
        assert rule["null_in_usage"] == "yes"
        return
    assert cell == cell.strip()
    if name in DECIMAL_COLUMNS:
        assert _PLAIN.fullmatch(cell)
    if name in MOMENT_COLUMNS:
        assert _MOMENT.fullmatch(cell)
        datetime.fromisoformat(cell)
    if rule["allowed"]:
        assert cell in rule["allowed"].split("|")
    if rule["format"] == "iso 4217":
        assert cell == "USD"
    if rule["format"] == "focus unit":
        assert _UNIT.fullmatch(cell)
    if rule["data_type"] == "json":
        values = json.loads(cell).values()
        assert all(isinstance(value, (str, int, float, bool)) for value in values)


def _part(services: tuple[str, ...], option: PlanOption) -> ServicePart:
    taken = set(ServicePart.model_fields) & set(PlanOption.model_fields)
    return ServicePart(
        services=services,
        slo=Slo(),
        option=option.id,
        unit=option.unit,
        usd_per_month_unused=0.0,
        **{name: getattr(option, name) for name in taken - {"output_tokens_per_month"}},
        output_tokens_per_month=1e9,
        planned=option,
    )


def test_rows_of_a_fleet_keep_every_rule_and_say_whose_they_are(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    parts = (
        _part(("chat",), plan.options[0]),
        _part(("faq", 'a "b"'), sample_plans.make_option()),
    )
    usd = Quantity.exact(sum(part.usd_per_month.mid for part in parts))
    way = FleetWay(sharing="grouped", parts=parts, usd_per_month=usd, within_budget=True)
    fleet = ServiceFleet(budget_usd_per_month=9e5, within_budget=True, sentence="", ways=(way,))
    rows = focus_rows(plan.model_copy(update={"fleet": fleet}))
    cells = list(csv.DictReader(io.StringIO(focus_csv(rows))))
    assert [row["ResourceName"] for row in cells] == ["chat", 'faq + a "b"']
    assert [json.loads(row["Tags"]) for row in cells] == [
        {"service": "chat"},
        {"service": 'faq + a "b"'},
    ]
    for row in cells:
        # a resource has a type, and names are not ids
        assert row["ResourceId"] != row["ResourceName"]
        assert row["ResourceType"]
        for name in (*RULES, *OWN_COLUMNS):
            _check_form(name, row[name])


def test_what_exists_only_with_an_invoice_or_a_commitment_is_null(
    cells: list[dict[str, str]],
) -> None:
    absent = [name for name in RULES if name.startswith(("Commitment", "Capacity"))]
    for name in (*absent, "InvoiceId", "ResourceId", "SubAccountId", "ChargeClass"):
        assert {row[name] for row in cells} == {""}


def test_a_name_null_without_its_id_and_a_service_has_one_subcategory(
    cells: list[dict[str, str]],
) -> None:
    for row in cells:
        assert bool(row["RegionId"]) == bool(row["RegionName"])
    services = {(row["ServiceName"], row["ServiceSubcategory"]) for row in cells}
    assert len(services) == len({name for name, _ in services})


@pytest.mark.parametrize(
    ("cost", "price"),
    [("ListCost", "ListUnitPrice"), ("ContractedCost", "ContractedUnitPrice")],
)
def test_a_cost_is_price_times_quantity_to_the_cent(
    cells: list[dict[str, str]], cost: str, price: str
) -> None:
    for row in cells:
        product = Decimal(row[price]) * Decimal(row["PricingQuantity"])
        assert abs(product - Decimal(row[cost])) < Decimal("0.00001")


def test_nothing_is_billed_and_every_row_says_that_it_is_a_forecast(
    cells: list[dict[str, str]],
) -> None:
    assert {row["BilledCost"] for row in cells} == {"0.00"}
    assert {row["x_EstimateType"] for row in cells} == {"Forecast"}
    assert {row["BillingAccountId"] for row in cells} == {"capplan-estimate"}
