"""Money in words: lines that add up as shown, both sides of an inequality, use made visible."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from capplan.economics.bill import Tariff, energy_usd_per_gpu_hour, monthly_bill
from capplan.economics.breakeven import compare_with_api
from capplan.reporting.api_view import build_api_view
from capplan.reporting.formatting import cents, usd, usd_interval
from capplan.reporting.html import render_html
from capplan.reporting.money_view import build_money
from capplan.reporting.text import render_text
from capplan.schema.quantity import Quantity


def shown(usd: str) -> Decimal:
    return Decimal(usd.replace(",", ""))


def test_the_lines_as_shown_add_up_to_the_total_as_shown(sample_plans: Any) -> None:
    hour = energy_usd_per_gpu_hour(700, "0.123", "1.37")
    for replicas in range(1, 8):
        tariff = Tariff(Decimal("88.490000119"), 7, Decimal("182.5"), energy_usd_per_gpu_hour=hour)
        option = sample_plans.make_option(bill=monthly_bill(replicas, 2, tariff))
        money = build_money(option)
        assert money is not None
        assert sum(shown(row.usd) for row in money.rows) == shown(money.total)


def test_the_price_of_a_token_is_shown_from_a_tenth_of_the_use_to_all(sample_plans: Any) -> None:
    money = build_money(sample_plans.make_option())
    assert money is not None
    by_use = {row.utilisation: row for row in money.utilisation}
    assert by_use["10 %"].usd == pytest.approx(10 * by_use["100 %"].usd)
    assert [row.utilisation for row in money.utilisation if row.planned] == ["46 %"]
    # 11,650.80 USD over 5,210 tokens a second for 730 hours
    assert by_use["100 %"].usd == pytest.approx(11650.80 / (5210 * 730 * 3600) * 1e6)


def test_a_plan_of_an_older_version_shows_no_bill(sample_plans: Any) -> None:
    option = sample_plans.make_option(bill=None)
    assert build_money(option) is None
    plan = sample_plans.make_plan(options=(option,), api_comparisons=())
    assert "The month's bill:" not in render_text(plan)
    assert "The month's bill" not in render_html(plan)


def test_hours_not_served_are_said(sample_plans: Any) -> None:
    reserved = Tariff(Decimal(24), 8, Decimal(180), always_on=True, term_months=12)
    money = build_money(sample_plans.make_option(bill=monthly_bill(1, 8, reserved)))
    assert money is not None
    assert money.hours == "730 hours paid for, 180 of them served"


def test_both_bills_stand_beside_each_other(sample_plans: Any) -> None:
    view = build_api_view(sample_plans.api_comparison())
    # 23,652 M prompt tokens, half of them cached: 1,182.60 + 236.52; 6,307.2 M output: 2,522.88
    assert view.inequality == "GPUs 11,650.80 USD > API 3,942.00 USD"
    assert view.outcome == "the API is cheaper by 7,708.80 USD (66 % less)"
    assert "beyond the 13,692 M" in view.crossing
    assert "50 % of it cached at 0.020" in view.price


@pytest.mark.parametrize(
    ("gpu", "says"), [("3942", "both cost the same"), ("1000", "GPUs are cheaper by 2,942.00 USD")]
)
def test_the_outcome_names_the_cheaper(sample_plans: Any, gpu: str, says: str) -> None:
    comparison = sample_plans.api_comparison()
    other = compare_with_api(
        comparison.price,
        gpu_usd_per_month=gpu,
        output_tokens_per_month=comparison.output_tokens_per_month,
        capacity_output_tokens_per_month=None,
        prompt_per_output_token=Decimal("3.75"),
        cached_input_share=Decimal("0.5"),
    )
    assert build_api_view(other).outcome.startswith(says)


def test_page_and_terminal_show_the_same_money(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    page, text = render_html(plan), " ".join(render_text(plan).split())
    for figure in ("11,650.80", "3,942.00"):
        assert figure in page
        assert figure in text
    assert "only the bills are compared" in page
    assert "only the bills are compared" in text
    assert "utilisation-1" in page


def test_a_half_cent_is_rounded_as_on_the_bill() -> None:
    # 988.785 is stored as 988.78499999...; the bill says 988.79
    assert cents(Decimal("988.785")) == usd(988.785) == "988.79"
    assert usd_interval(Quantity(low=659.19, mid=988.785, high=1647.975)).startswith("988.79 USD")
