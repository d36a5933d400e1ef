"""Replicas that follow the hours: worked by hand, and never more than the fixed fleet."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from capplan.economics.autoscaling import HOURS_PER_WEEK, autoscale, needed_margin
from capplan.economics.bill import Tariff
from capplan.economics.outlook import Fleet
from capplan.errors import RequestError


def fleet(peak: float, tariff: Tariff | None = None, size: int = 1) -> Fleet:
    rate, limit = 100.0, 0.5
    return Fleet(
        replicas=int(np.ceil(peak / (rate * limit) - 1e-9)),
        gpus_per_replica=size,
        replica_tokens_per_s=rate,
        utilisation_limit=limit,
        mean_tokens_per_s=peak / 2,
        peak_tokens_per_s=peak,
        tariff=tariff or Tariff(Decimal(2), 1),
    )


def day(*loads: float) -> np.ndarray:
    """Return a week of equal days, each load lasting an equal part of the day."""
    return np.tile(np.repeat(loads, 24 // len(loads)), 7).astype(float)


def test_half_a_day_at_a_quarter_of_the_load_worked_by_hand() -> None:
    # 50 tokens/s a replica: 1 for twelve hours, 4 for twelve
    found = autoscale(fleet(200.0), day(50.0, 200.0))
    assert (found.least_replicas, found.most_replicas) == (1, 4)
    assert found.mean_replicas == pytest.approx(2.5)
    assert found.fixed_gpu_hours_per_month == pytest.approx(4 * 730)
    assert found.gpu_hours_per_month == pytest.approx(2.5 * 730)
    assert found.usd_per_month == pytest.approx(2.5 * 730 * 2)
    assert found.saved_share == pytest.approx(1.5 / 4)
    assert found.needed_margin is None
    assert found.lag_gpu_hours_per_month == 0


def test_a_lag_is_paid_for_before_each_rise() -> None:
    # one rise of 3 replicas a day, 20 minutes ahead: an hour of one GPU a day
    found = autoscale(fleet(200.0), day(50.0, 200.0), scale_up_lag_minutes=20)
    assert found.lag_gpu_hours_per_month == pytest.approx(730 / 24)
    eleven = found.hours[11]
    assert (eleven.replicas, eleven.replicas_at_end_of_hour) == (1, 4)
    longer = autoscale(fleet(200.0), day(50.0, 200.0), scale_up_lag_minutes=140)
    assert longer.lag_gpu_hours_per_month == pytest.approx(7 * 730 / 24)


def test_nodes_are_whole() -> None:
    # replicas of 4 GPUs on nodes of 8: 1 costs as much as 2
    tariff = Tariff(Decimal(16), 8)
    found = autoscale(fleet(200.0, tariff, size=4), day(50.0, 200.0))
    assert found.gpu_hours_per_month == pytest.approx((8 + 16) / 2 * 730)


def test_the_peak_within_an_hour_is_kept_in_every_hour() -> None:
    found = autoscale(fleet(200.0), day(50.0, 100.0), peak_within_hour=2.0)
    assert (found.least_replicas, found.most_replicas) == (2, 4)


def test_hours_without_load_keep_one_replica() -> None:
    found = autoscale(fleet(200.0), day(0.0, 200.0), scale_up_lag_minutes=10)
    assert found.least_replicas == 1
    assert found.needed_margin is None


@pytest.mark.parametrize("lag", [0.0, 7.0, 60.0, 95.0, 1440.0])
@pytest.mark.parametrize("size", [1, 3])
def test_never_more_gpu_hours_than_the_fixed_fleet(lag: float, size: int) -> None:
    rng = np.random.default_rng(7)
    tariff = Tariff(Decimal(16), 8)
    for _ in range(20):
        load = rng.uniform(1.0, 400.0, HOURS_PER_WEEK)
        found = autoscale(fleet(float(load.max()), tariff, size), load, 1.0, lag)
        assert found.gpu_hours_per_month <= found.fixed_gpu_hours_per_month * (1 + 1e-12)
        assert found.saved_usd_per_month >= -1e-9
        assert found.most_replicas == found.fixed_replicas


def test_a_longer_lag_is_never_cheaper() -> None:
    load = np.random.default_rng(3).uniform(1.0, 400.0, HOURS_PER_WEEK)
    one = fleet(float(load.max()))
    bills = [autoscale(one, load, 1.0, lag).usd_per_month for lag in (0, 5, 30, 60, 61, 300)]
    assert bills == sorted(bills)


def test_a_steady_load_saves_nothing_and_needs_no_margin() -> None:
    found = autoscale(fleet(200.0), day(200.0), scale_up_lag_minutes=15)
    assert found.saved_usd_per_month == pytest.approx(0.0)
    assert found.needed_margin == pytest.approx(0.0)


def test_the_margin_is_the_steepest_rise_within_the_lag() -> None:
    # from 100 to 200 between the middles of two hours: half an hour is half of it, from the foot
    load = np.full(HOURS_PER_WEEK, 100.0)
    load[50:] = 200.0
    assert needed_margin(load, 30.0) == pytest.approx(0.5)
    assert needed_margin(load, 60.0) == pytest.approx(1.0)
    assert needed_margin(load, 0.0) is None


def test_a_reservation_saves_nothing_at_night() -> None:
    tariff = Tariff(Decimal(2), 1, always_on=True)
    with pytest.raises(RequestError, match="every hour is paid for"):
        autoscale(fleet(200.0, tariff), day(50.0, 200.0))


@pytest.mark.parametrize("lag", [-1.0, 1441.0, float("nan")])
def test_a_lag_that_is_none_is_refused(lag: float) -> None:
    with pytest.raises(RequestError, match="start in"):
        autoscale(fleet(200.0), day(50.0, 200.0), scale_up_lag_minutes=lag)
