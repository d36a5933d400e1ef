"""Fleets later, with spares, on spot, under a commitment: checked by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from capplan.economics.bill import Tariff
from capplan.economics.outlook import (
    Fleet,
    first_month_above,
    grow,
    with_spares,
)
from capplan.errors import RequestError


def fleet(**changes: object) -> Fleet:
    """Two replicas of 4 GPUs on one node of 8 at 20 USD/h: 14,600 USD a month."""
    values: dict[str, object] = {
        "replicas": 2,
        "gpus_per_replica": 4,
        "replica_tokens_per_s": 1000.0,
        "utilisation_limit": 0.6,
        "mean_tokens_per_s": 500.0,
        "peak_tokens_per_s": 1000.0,
        "tariff": Tariff(Decimal(20), 8),
    }
    return Fleet(**{**values, **changes})  # type: ignore[arg-type]


# ---- growth


def test_growth_worked_by_hand() -> None:
    # 1,000 of 1,200 tokens/s: 1.1 holds, 1.21 does not; 2,000 at 1.1**8 = 2.14
    found = grow(fleet(), 0.10, 8, budget_usd=20_000)
    assert found.outgrown_in_month == 2
    assert found.full_in_month == 8
    now, first, second = found.months[:3]
    assert (now.replicas, first.replicas, second.replicas) == (2, 2, 3)
    assert (first.gpus_paid, second.gpus_paid) == (8, 16)
    assert now.usd_per_month == pytest.approx(14_600)
    assert second.usd_per_month == pytest.approx(29_200)
    assert found.over_budget_in_month == 2
    assert second.planned_fleet_utilisation_at_peak == pytest.approx(1210 / 2000)
    tokens = 500 * 1.21 * 730 * 3600
    assert second.usd_per_million_output_tokens == pytest.approx(29_200 / tokens * 1e6)


def test_no_growth_never_outgrows_and_shrinking_needs_fewer() -> None:
    still = grow(fleet(), 0.0, 24, 1e6)
    assert still.outgrown_in_month is None
    assert still.full_in_month is None
    assert {one.replicas for one in still.months} == {2}
    shrinking = grow(fleet(), -0.1, 24, 1e6)
    assert shrinking.outgrown_in_month is None
    assert [one.replicas for one in shrinking.months][-1] == 1


def test_a_fleet_filled_to_its_limit_is_outgrown_in_the_first_month() -> None:
    assert first_month_above(1200.0, 1200.0, 1e-6) == 1
    assert first_month_above(1200.0, 1200.0, 0.0) is None
    assert first_month_above(1201.0, 1200.0, 0.0) == 0


@pytest.mark.parametrize("growth", [0.003, 0.03, 0.08, 0.25, 1.0])
def test_the_closed_form_is_the_first_month_that_the_table_shows(growth: float) -> None:
    found = grow(fleet(), growth, 120 if growth < 0.1 else 20, 1e12)
    above = [
        one.month
        for one in found.months
        if one.planned_fleet_utilisation_at_peak > found.utilisation_limit
    ]
    assert above
    assert found.outgrown_in_month == above[0]
    more = [one.month for one in found.months if one.replicas > found.planned_replicas]
    assert more[0] == found.outgrown_in_month


def test_the_interval_of_the_capacity_is_one_of_months() -> None:
    # limits of 900, 1,200 and 1,800 tokens/s: below 1,000, then 1.1**2 and 1.1**7
    found = grow(fleet(capacity_factors=(0.75, 1.5)), 0.10, 1, 1e6)
    assert found.outgrown_in_month_at_low_capacity == 0
    assert found.outgrown_in_month == 2
    assert found.outgrown_in_month_at_high_capacity == 7


def test_more_load_is_never_cheaper() -> None:
    bills = [one.usd_per_month for one in grow(fleet(), 0.07, 60, 1e12).months]
    assert bills == sorted(bills)


@pytest.mark.parametrize("growth", [-1.0, -2.0, 10.1, float("nan"), float("inf")])
def test_a_growth_that_is_none_is_refused(growth: float) -> None:
    with pytest.raises(RequestError, match="is none, expected"):
        grow(fleet(), growth, 12, 1e6)


def test_the_month_may_lie_beyond_those_listed() -> None:
    # ln(1.2) / ln(1.001) = 182.4
    found = grow(fleet(), 0.001, 12, 1e6)
    assert found.outgrown_in_month == 183
    assert len(found.months) == 13


# ---- spares


def test_spares_are_paid_by_whole_nodes_and_never_cheaper() -> None:
    found = with_spares(fleet(), 4)
    assert [row.usd_of_spares_per_month for row in found.rows] == [
        0,
        14_600,
        14_600,
        29_200,
        29_200,
    ]
    assert [row.utilisation_at_peak for row in found.rows][:2] == [0.5, pytest.approx(1 / 3)]
    assert found.rows[0].utilisation_at_peak_one_replica_down == 1.0
    assert found.rows[1].utilisation_at_peak_one_replica_down == 0.5


def test_a_spare_on_a_node_that_is_paid_for_is_free_and_a_single_replica_has_no_rest() -> None:
    found = with_spares(fleet(replicas=1, peak_tokens_per_s=600.0), 1)
    assert found.rows[1].usd_of_spares_per_month == 0
    assert found.rows[0].utilisation_at_peak_one_replica_down is None
