"""Shares of a fleet at another price: checked by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from capplan.economics.bill import Tariff
from capplan.economics.blends import OtherPrice, blend_commitment, blend_spot
from capplan.economics.outlook import Fleet
from capplan.schema.provenance import Kind, Source

STATED = Source(kind=Kind.ASSUMED, reference="stated")
TEN = Fleet(
    replicas=10,
    gpus_per_replica=1,
    replica_tokens_per_s=1000.0,
    utilisation_limit=0.6,
    mean_tokens_per_s=500.0,
    peak_tokens_per_s=6000.0,
    tariff=Tariff(Decimal(2), 1),
)
"""Ten replicas of one GPU at 2 USD/h, filled to the limit."""


def price(usd: str) -> OtherPrice:
    return OtherPrice(Decimal(usd), STATED)


# ---- spot


def test_a_spot_blend_worked_by_hand() -> None:
    # half of ten on demand; the other five and 5 % of them, rounded up, at half the price
    found = blend_spot(TEN, 0.5, 0.05, price("1"))
    assert (found.on_demand_replicas, found.spot_replicas) == (5, 6)
    assert found.usd_per_month == pytest.approx(5 * 2 * 730 + 6 * 730)
    assert found.saved_usd_per_month == pytest.approx(14_600 - 11_680)
    assert found.break_even_interruption_overhead == pytest.approx(1.0)
    assert found.peak_served_without_spot == pytest.approx(5 / 6)


def test_all_on_spot_keeps_nothing_on_demand_and_a_small_share_keeps_everything() -> None:
    all_spot = blend_spot(TEN, 1.0, 0.0, price("1"))
    assert (all_spot.on_demand_replicas, all_spot.spot_replicas) == (0, 10)
    assert all_spot.on_demand_usd_per_month == 0
    assert all_spot.peak_served_without_spot == 0
    none = blend_spot(TEN, 0.0, 0.5, price("1"))
    assert none.usd_per_month == none.planned_usd_per_month
    assert none.spot_replicas == 0


def test_more_interruptions_are_never_cheaper() -> None:
    bills = [
        blend_spot(TEN, 0.7, overhead, price("1.1")).usd_per_month
        for overhead in (0.0, 0.01, 0.1, 0.3, 0.5, 1.0)
    ]
    assert bills == sorted(bills)
    assert bills[-1] > bills[0]


# ---- commitment


def test_a_commitment_worked_by_hand() -> None:
    found = blend_commitment(TEN, 0.75, price("1.5"))
    assert (found.nodes, found.committed_nodes) == (10, 7)
    assert found.usd_per_month == pytest.approx((7 * 1.5 + 3 * 2) * 730)
    assert found.break_even_hours_per_month == pytest.approx(547.5)
    assert found.nodes_worth_committing == 10


def test_only_nodes_that_are_needed_long_enough_are_worth_committing() -> None:
    # needed in 4, 3, 2 and 1 of four hours: 730, 547.5, 365 and 182.5 a month
    found = blend_commitment(replace(TEN, replicas=4), 1.0, price("1.2"), [1, 2, 3, 4])
    assert found.break_even_hours_per_month == pytest.approx(438)
    assert found.nodes_worth_committing == 2


def test_a_fleet_that_serves_a_third_of_the_month_pays_a_commitment_around_the_clock() -> None:
    day = replace(TEN, tariff=Tariff(Decimal(2), 1, serving_hours=Decimal(240)))
    found = blend_commitment(day, 1.0, price("1"))
    assert found.planned_usd_per_month == pytest.approx(10 * 2 * 240)
    assert found.usd_per_month == pytest.approx(10 * 730)
    assert found.nodes_worth_committing == 0


def test_shared_nodes_are_committed_to_by_the_replica() -> None:
    shared = replace(
        TEN,
        replicas=2,
        gpus_per_replica=4,
        tariff=Tariff(Decimal(20), 8, share_node=True),
    )
    found = blend_commitment(shared, 0.5, price("2"))
    assert (found.nodes, found.committed_nodes) == (2, 1)
    assert found.usd_per_month == pytest.approx(4 * 2 * 730 + 4 * 2.5 * 730)
