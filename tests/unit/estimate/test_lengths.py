"""Tokens a round at a length that was not measured."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.acceptance import tokens_per_round_from_conditional
from capplan.estimate.lengths import (
    MEASURED_RELATIVE_SE,
    FallPrior,
    LengthSeries,
    extrapolate_length,
    falling_rates,
    length_curve,
    pooled_fall,
)


def series(first: float, exponent: float, *lengths: int) -> LengthSeries:
    tokens = tokens_per_round_from_conditional(falling_rates(first, exponent, max(lengths)))
    return LengthSeries(lengths, tuple(float(tokens[n]) for n in lengths))


def test_rates_start_at_the_first_and_fall_by_a_power_of_the_position() -> None:
    rates = falling_rates(0.8, 0.5, 4)
    assert rates == pytest.approx([0.8, 0.8 / 2**0.5, 0.8 / 3**0.5, 0.4])
    assert falling_rates(0.9, 0.0, 3) == pytest.approx([0.9] * 3)
    assert falling_rates(0.9, -0.4, 5).max() == 1.0


@pytest.mark.parametrize("exponent", [0.0, 0.15, 0.4])
@pytest.mark.parametrize("first", [0.5, 0.7, 0.85])
def test_a_series_of_that_law_is_continued_exactly(first: float, exponent: float) -> None:
    wanted = series(first, exponent, 9).tokens_per_round[0]
    found = extrapolate_length(series(first, exponent, 3, 5), 9)
    assert found.mid == pytest.approx(wanted, rel=0.02)
    low, high = found.interval_90()
    assert low <= wanted <= high


def test_one_length_needs_the_fall_of_other_texts() -> None:
    others = [series(first, 0.4, 3, 5, 7) for first in (0.6, 0.7, 0.8)]
    prior = pooled_fall(others)
    assert prior.mean == pytest.approx(0.4, abs=0.03)
    wanted = series(0.75, 0.4, 7).tokens_per_round[0]
    known = extrapolate_length(series(0.75, 0.4, 3), 7, prior)
    unknown = extrapolate_length(series(0.75, 0.4, 3), 7)
    assert known.mid == pytest.approx(wanted, rel=0.02)
    assert known.log_sd < unknown.log_sd


def test_one_length_alone_leaves_the_fall_to_what_is_published() -> None:
    # exponents of 0.15 +- 0.2, each with the first rate that gives the tokens measured at N = 3
    exponents = np.linspace(-0.4, 0.99, 140)
    weights = np.exp(-(((exponents - 0.15) / 0.2) ** 2) / 2)
    firsts = np.linspace(0.01, 0.999, 2000)
    logs = []
    for exponent in exponents:
        tokens = tokens_per_round_from_conditional(falling_rates(firsts, exponent, 9))
        logs.append(np.interp(2.3, tokens[:, 3], np.log(tokens[:, 9])))
        # every first rate is as likely: the steeper tokens rise with it, the fewer give 2.3
        weights[len(logs) - 1] *= np.interp(2.3, tokens[:, 3], np.gradient(firsts, tokens[:, 3]))
    mean = np.average(logs, weights=weights)
    spread = np.sqrt(np.average((np.array(logs) - mean) ** 2, weights=weights))
    found = extrapolate_length(LengthSeries((3,), (2.3,)), 9)
    assert found.mid == pytest.approx(np.exp(mean), rel=0.005)
    assert found.log_sd == pytest.approx(np.hypot(spread, MEASURED_RELATIVE_SE), rel=0.03)


def test_texts_at_one_length_say_nothing_of_the_fall() -> None:
    assert pooled_fall([series(0.7, 0.3, 3), series(0.6, 0.3, 3)]) == FallPrior()
    assert pooled_fall([]) == FallPrior()


def test_a_series_that_scatters_is_trusted_less() -> None:
    smooth = LengthSeries((1, 2, 3, 4, 5), (1.8, 2.35, 2.74, 3.02, 3.22))
    rough = LengthSeries((1, 2, 3, 4, 5), (1.8, 2.50, 2.60, 3.20, 3.10))
    assert extrapolate_length(rough, 7).log_sd > 2 * extrapolate_length(smooth, 7).log_sd


@pytest.mark.parametrize("tokens", [1.0, 4.0])
def test_the_ends_of_the_range_are_answered(tokens: float) -> None:
    found = extrapolate_length(LengthSeries((3,), (tokens,)), 8)
    assert 1.0 <= found.mid <= 9.0
    assert np.isfinite(found.log_sd)


def test_a_curve_through_everything_accepted_never_exceeds_what_was_drafted() -> None:
    curve, error = length_curve(LengthSeries((4,), (5.0,)), 16)
    assert (curve <= np.arange(17) + 1.0).all()
    assert curve[:5].tolist() == pytest.approx([1, 2, 3, 4, 5])
    assert error[0] == 0.0
    assert len(curve) == len(error) == 17
