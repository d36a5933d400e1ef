"""A month's bill adds up to the last digit, and says what each part of it pays for."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from capplan.economics.bill import (
    MONTH_HOURS,
    Tariff,
    energy_usd_per_gpu_hour,
    monthly_bill,
    node_hours,
    nodes_for,
    rent_usd,
    spread_usd_per_hour,
)
from capplan.economics.decimals import exact, to_cents
from capplan.economics.tokens import usd_per_million_tokens
from capplan.errors import RequestError
from capplan.schema.price import BillItem, MonthlyBill

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=80)
settings.load_profile("repeatable")

H100_NODE = Decimal("55.04")
"""AWS p5.48xlarge on demand, 2026-09-25."""

prices = st.decimals("0.01", "150", places=6)
replica_counts = st.integers(1, 60)
shapes = st.sampled_from([(1, 1), (1, 8), (2, 8), (4, 8), (8, 8), (3, 7), (2, 3), (1, 6)])
hours = st.decimals("1", "744", places=2)


def test_a_month_is_730_hours_unless_others_are_stated() -> None:
    assert MONTH_HOURS == 730
    assert node_hours(1) == 730
    assert node_hours(2) == 1460
    assert rent_usd(1, "4.50", 180) == Decimal("810.00")
    assert rent_usd(1, 4.5, 180) == 810


def test_hours_and_utilisation_are_different_things() -> None:
    # 180 business hours at full use: the same tokens an hour, a quarter of the month paid for
    assert usd_per_million_tokens("4.50", 1000, 1) * 2 == usd_per_million_tokens("4.50", 1000, 0.5)
    assert rent_usd(1, "4.50", 180) < rent_usd(1, "4.50", 730) / 4


@pytest.mark.parametrize("hours_per_month", [0, -1, "nan", "inf", "many"])
def test_hours_that_are_none_are_refused(hours_per_month: float | str) -> None:
    with pytest.raises(RequestError):
        node_hours(1, hours_per_month)


def test_whole_nodes_are_paid_for_and_idle_gpus_are_a_line_of_their_own() -> None:
    bill = monthly_bill(3, 2, Tariff(H100_NODE, 8))
    assert (bill.nodes, bill.gpus_paid, bill.gpus_in_use) == (1, 8, 6)
    assert bill.total_usd == Decimal("40179.20")
    assert bill.usd(BillItem.IDLE_GPUS) == Decimal("10044.80")
    assert bill.usd(BillItem.GPUS_IN_USE) == Decimal("30134.40")


def test_a_shared_node_is_paid_for_by_the_gpu() -> None:
    bill = monthly_bill(3, 2, Tariff(H100_NODE, 8, share_node=True))
    assert (bill.nodes, bill.gpus_paid) == (None, 6)
    assert bill.total_usd == Decimal("30134.40")
    assert bill.usd(BillItem.IDLE_GPUS) == 0


def test_a_reservation_is_paid_for_when_nothing_is_served() -> None:
    reserved = Tariff(
        Decimal("16.80"), 8, Decimal(180), always_on=True, term_months=12, upfront_share=Decimal(1)
    )
    bill = monthly_bill(1, 8, reserved)
    assert (bill.paid_hours, bill.serving_hours) == (730, 180)
    assert bill.total_usd == Decimal("12264.00")
    assert bill.upfront_usd == 12 * bill.total_usd
    assert reserved.usd_per_serving_gpu_hour == Decimal("2.1") * 730 / 180


@pytest.mark.parametrize(
    ("served", "paid"), [(180, 730), (672, 672), (720, 720), (729, 730), (730, 730), (744, 744)]
)
def test_a_reservation_pays_for_the_month_however_its_hours_are_counted(
    served: int, paid: int
) -> None:
    tariff = Tariff(Decimal(1), 1, serving_hours=Decimal(served), always_on=True)
    assert tariff.paid_hours == paid
    assert Tariff(Decimal(1), 1, serving_hours=Decimal(served)).paid_hours == served


def test_what_is_due_on_the_first_day_is_spread_over_the_term() -> None:
    # a year is 12 * 730 h: 87,600 USD are 10 an hour
    assert spread_usd_per_hour(5, 87_600, 12) == (15, Decimal(2) / 3)
    assert spread_usd_per_hour(0, "262800", 36) == (10, 1)
    assert spread_usd_per_hour("4.50", 0, 12) == (Decimal("4.50"), 0)
    for hourly, upfront, term in ((0, 0, 12), (-1, 100_000, 12), (1, -1, 12), (1, 1, 0)):
        with pytest.raises(RequestError):
            spread_usd_per_hour(hourly, upfront, term)


@pytest.mark.parametrize("hours", [180, 672, 730, 744])
def test_what_is_due_on_the_first_day_does_not_hang_on_the_month(hours: int) -> None:
    # 3 years of two nodes, 500,000 USD each, all of it at once
    price, share = spread_usd_per_hour(0, 500_000, 36)
    tariff = Tariff(price, 8, Decimal(hours), always_on=True, term_months=36, upfront_share=share)
    assert monthly_bill(16, 1, tariff).upfront_usd == 1_000_000


def test_more_nodes_than_the_replicas_need_are_idle_ones() -> None:
    bill = monthly_bill(1, 1, Tariff(Decimal(8), 8), least_nodes=2)
    assert (bill.nodes, bill.gpus_paid) == (2, 16)
    assert bill.usd(BillItem.IDLE_GPUS) == 15 * 730


@pytest.mark.parametrize(
    ("replicas", "price"),
    [(1, "0"), (1, "-2.5"), (0, "2.5"), (1, "nan"), (1, "1e20"), (1, "1e40")],
)
def test_what_is_no_bill_is_refused(replicas: int, price: str) -> None:
    with pytest.raises(RequestError):
        monthly_bill(replicas, 1, Tariff(Decimal(price), 1))


def test_electricity_is_refused_where_a_figure_is_none() -> None:
    for watts, usd, pue in ((0, 1, 1), (700, -1, 1), (700, 1, 0.9)):
        with pytest.raises(RequestError):
            energy_usd_per_gpu_hour(watts, usd, pue)


def test_electricity_of_a_700_watt_gpu() -> None:
    hour = energy_usd_per_gpu_hour(700, "0.12", "1.3")
    assert hour == Decimal("0.1092")
    bill = monthly_bill(3, 1, Tariff(Decimal("0.50"), 1, energy_usd_per_gpu_hour=hour))
    assert bill.usd(BillItem.ELECTRICITY) == Decimal("239.15")  # 239.148 to the cent
    assert bill.total_usd == Decimal("1334.15")


def test_a_replica_larger_than_the_node_has_no_bill() -> None:
    with pytest.raises(RequestError, match="does not fit"):
        nodes_for(1, 8, 4)


@given(replicas=replica_counts, shape=shapes, price=prices, hours=hours, shared=st.booleans())
def test_the_lines_add_up_exactly_also_in_cents(
    replicas: int, shape: tuple[int, int], price: Decimal, hours: Decimal, shared: bool
) -> None:
    tariff = Tariff(price, shape[1], hours, share_node=shared, energy_usd_per_gpu_hour=price / 97)
    bill = monthly_bill(replicas, shape[0], tariff)
    lines = [line.usd for line in bill.lines]
    assert sum(lines) == bill.total_usd
    assert sum(map(to_cents, lines)) == to_cents(bill.total_usd)
    assert all(usd > 0 for usd in lines)


@given(replicas=replica_counts, shape=shapes, price=prices, hours=hours)
def test_the_rent_is_the_product_and_a_plan_file_keeps_it(
    replicas: int, shape: tuple[int, int], price: Decimal, hours: Decimal
) -> None:
    bill = monthly_bill(replicas, shape[0], Tariff(price, shape[1], hours))
    assert bill.nodes is not None
    assert bill.total_usd == bill.nodes * price * hours
    assert MonthlyBill.model_validate_json(bill.model_dump_json()) == bill


@given(replicas=replica_counts, shape=shapes, price=prices)
def test_more_replicas_never_cost_less_and_sharing_never_costs_more(
    replicas: int, shape: tuple[int, int], price: Decimal
) -> None:
    def total(count: int, *, shared: bool) -> Decimal:
        return monthly_bill(count, shape[0], Tariff(price, shape[1], share_node=shared)).total_usd

    assert total(replicas, shared=False) <= total(replicas + 1, shared=False)
    # a third of a node is rounded in the eighth decimal
    assert total(replicas, shared=True) <= total(replicas, shared=False) + Decimal("1e-8")


def test_a_bill_that_does_not_add_up_is_no_bill() -> None:
    bill = monthly_bill(1, 1, Tariff(H100_NODE, 8))
    with pytest.raises(ValueError, match="add up"):
        MonthlyBill(**{**dict(bill), "total_usd": bill.total_usd + 1})


def test_a_float_counts_as_the_number_it_prints_as() -> None:
    assert exact(0.1) == Decimal("0.1")
    assert exact(1.06) * 730 == Decimal("773.80")
    assert 1.06 * 730 > 773.80  # the same in binary fractions: over a budget of 773.80
