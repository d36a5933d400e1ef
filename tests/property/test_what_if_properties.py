"""Whatever the fleet: more load, spares and interruptions are never cheaper."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, strategies as st

from capplan.economics.autoscaling import autoscale
from capplan.economics.bill import Tariff
from capplan.economics.blends import OtherPrice, blend_commitment, blend_spot
from capplan.economics.outlook import Fleet, grow, with_spares
from capplan.schema.arrival import DAYS_PER_WEEK, HOURS_PER_DAY
from capplan.schema.provenance import Kind, Source

NEARLY = 1e-9
STATED = Source(kind=Kind.ASSUMED, reference="stated")
cents = st.integers(1, 5000).map(lambda usd: Decimal(usd) / 100)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Fleets that are just as large as their peak needs, as a plan makes them."""
    size = draw(st.sampled_from((1, 2, 4, 8)))
    node = size * draw(st.sampled_from((1, 2, 4)))
    limit, rate = draw(st.floats(0.05, 1.0)), draw(st.floats(1.0, 1e5))
    peak = rate * draw(st.floats(0.01, 40.0))
    tariff = Tariff(draw(cents), node, share_node=draw(st.booleans()))
    one = Fleet(1, size, rate, limit, peak * draw(st.floats(0.1, 1.0)), peak, tariff)
    return Fleet(one.replicas_for(peak), size, rate, limit, one.mean_tokens_per_s, peak, tariff)


@given(fleets(), st.just(0.0) | st.floats(1e-4, 0.5))
def test_growth(fleet: Fleet, growth: float) -> None:
    found = grow(fleet, growth, 18, 1e9)
    bills = [month.usd_per_month for month in found.months]
    assert bills == sorted(bills)
    assert found.months[0].replicas == fleet.replicas
    if growth == 0:
        assert found.outgrown_in_month is None
    for month in found.months:
        if found.outgrown_in_month is None or month.month < found.outgrown_in_month:
            assert month.replicas == fleet.replicas
        else:
            assert month.replicas > fleet.replicas


@given(fleets(), st.integers(1, 6))
def test_spares(fleet: Fleet, spares: int) -> None:
    rows = with_spares(fleet, spares).rows
    bills = [row.usd_per_month for row in rows]
    used = [row.utilisation_at_peak for row in rows]
    assert bills == sorted(bills)
    assert used == sorted(used, reverse=True)
    assert rows[0].usd_of_spares_per_month == 0


@given(
    fleets(),
    st.lists(st.floats(0.0, 1.0), min_size=HOURS_PER_DAY, max_size=HOURS_PER_DAY),
    st.floats(0.0, 1440.0),
)
def test_autoscaling(fleet: Fleet, shape: list[float], lag: float) -> None:
    load = np.tile(np.array([1.0, *shape[1:]]), DAYS_PER_WEEK)
    load *= fleet.peak_tokens_per_s
    found = autoscale(fleet, load, scale_up_lag_minutes=lag)
    at_once = autoscale(fleet, load)
    assert found.gpu_hours_per_month <= found.fixed_gpu_hours_per_month * (1 + NEARLY)
    assert at_once.gpu_hours_per_month <= found.gpu_hours_per_month * (1 + NEARLY)
    assert found.most_replicas == fleet.replicas
    assert found.least_replicas >= 1


@given(fleets(), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0), cents)
def test_spot(fleet: Fleet, share: float, one: float, other: float, usd: Decimal) -> None:
    price = OtherPrice(usd, STATED)
    bills = [
        blend_spot(fleet, share, overhead, price).usd_per_month
        for overhead in sorted((one, other))
    ]
    assert bills[0] <= bills[1]
    none = blend_spot(fleet, 0.0, other, price)
    assert none.usd_per_month == none.planned_usd_per_month


@given(fleets(), st.floats(0.0, 1.0), cents)
def test_commitments(fleet: Fleet, share: float, usd: Decimal) -> None:
    found = blend_commitment(fleet, share, OtherPrice(usd, STATED))
    assert 0 <= found.committed_nodes <= found.nodes
    same = blend_commitment(fleet, share, OtherPrice(fleet.tariff.usd_per_gpu_hour, STATED))
    assert same.usd_per_month == pytest.approx(same.planned_usd_per_month, rel=1e-6)
    dearer = blend_commitment(fleet, share, OtherPrice(usd * 2, STATED))
    assert found.usd_per_month <= dearer.usd_per_month
