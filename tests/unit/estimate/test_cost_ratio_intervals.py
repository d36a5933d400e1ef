"""A cost ratio is known no better than the two step times it is made of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capplan.estimate.planned_round import RoundFactors, cost_ratio
from capplan.schema.engine import ROUND_TERMS
from capplan.schema.quantity import Quantity

NO_LAUNCH = Quantity.exact(0.0)


def factors(**log_sd: float) -> RoundFactors:
    spread = dict.fromkeys(ROUND_TERMS, 0.0) | log_sd
    return RoundFactors(dict.fromkeys(ROUND_TERMS, 1.0), spread, 0.06)


def interval(fixed: Quantity, of: RoundFactors, **how: float) -> tuple[float, float, float]:
    low, mid, high = cost_ratio(
        np.array(1e-3), np.array(10e-3), fixed, of, is_head=False, relative_se=how.get("se", 0.0)
    )
    return float(low), float(mid), float(high)


def test_a_measured_ratio_is_as_uncertain_as_its_two_fits() -> None:
    low, mid, high = interval(NO_LAUNCH, factors(), se=0.05)
    assert mid == pytest.approx(0.1)
    assert high / mid == pytest.approx(math.exp(1.96 * 0.05))
    assert low / mid == pytest.approx(math.exp(-1.96 * 0.05))


def test_planted_errors_of_both_fits_lie_within_the_interval_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    trials, of_draft, of_step = 2_000, 0.03, 0.04
    draft_s = 1e-3 * np.exp(rng.normal(0.0, of_draft, trials))
    decode_s = 10e-3 * np.exp(rng.normal(0.0, of_step, trials))
    low, _, high = cost_ratio(
        draft_s,
        decode_s,
        NO_LAUNCH,
        factors(),
        is_head=False,
        relative_se=math.hypot(of_draft, of_step),
    )
    held = float(np.mean((low <= 0.1) & (high >= 0.1)))
    assert held == pytest.approx(0.95, abs=0.015)


def test_the_passs_factor_and_its_launch_add_up_in_quadrature() -> None:
    launch = Quantity(low=0.1e-3, mid=0.4e-3, high=1.2e-3)
    alone = interval(launch, factors())
    assert alone == pytest.approx((0.11, 0.14, 0.22))
    spread = factors(draft=0.2)
    expected = math.exp(0.2**2 / 2)
    low, mid, high = interval(launch, spread)
    assert mid == pytest.approx((1e-3 * expected + 0.4e-3) / 10e-3)
    upward = math.hypot(0.1 * (math.exp(1.96 * 0.2) - expected), 0.08)
    downward = math.hypot(0.1 * (expected - math.exp(-1.96 * 0.2)), 0.03)
    assert (high - mid, mid - low) == pytest.approx((upward, downward))


def test_an_interval_ends_above_nothing_and_a_pass_that_costs_nothing_has_none() -> None:
    low, mid, _ = interval(Quantity(low=0.0, mid=5e-3, high=9e-3), factors(), se=1.0)
    assert low == pytest.approx(0.1 * mid)
    nothing = cost_ratio(
        np.array(0.0), np.array(1.0), NO_LAUNCH, factors(), is_head=True, relative_se=0.1
    )
    assert [float(end) for end in nothing] == [0.0, 0.0, 0.0]
