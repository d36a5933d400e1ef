"""Tokens per round: published laws and their inverses."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.acceptance import (
    alpha_from_tokens_per_round,
    decaying_rates,
    fit_decay,
    tokens_per_round_from_conditional,
    tokens_per_round_iid,
)


@pytest.mark.parametrize(
    ("alpha", "n", "expected"),
    [
        (0.8, 5, 3.68928),  # (1 - .8^6) / .2
        (0.5, 3, 1.875),
        (0.0, 7, 1.0),
        (1.0, 7, 8.0),
        (0.6, 0, 1.0),
    ],
)
def test_leviathan_equation_1(alpha: float, n: int, expected: float) -> None:
    assert tokens_per_round_iid(alpha, n) == pytest.approx(expected)


def test_equal_conditional_rates_are_the_iid_law() -> None:
    curve = tokens_per_round_from_conditional(np.full(16, 0.73))
    np.testing.assert_allclose(curve, tokens_per_round_iid(0.73, np.arange(17)))


def test_conditional_rates_by_hand() -> None:
    # 1 + .8 + .8*.5 + .8*.5*.25
    assert tokens_per_round_from_conditional([0.8, 0.5, 0.25]).tolist() == pytest.approx(
        [1.0, 1.8, 2.2, 2.3]
    )


@pytest.mark.parametrize("tau", [0.99, 4.01])
def test_tokens_per_round_outside_its_range_have_no_alpha(tau: float) -> None:
    with pytest.raises(ValueError, match=r"1 \.\. N\+1 = 4"):
        alpha_from_tokens_per_round(tau, 3)


def test_one_length_fits_no_decay() -> None:
    first, ratio = fit_decay([3], [2.2])
    assert ratio == 1.0
    assert tokens_per_round_iid(first, 3) == pytest.approx(2.2)


def test_acceptance_never_rises_above_one_however_the_ratio() -> None:
    assert decaying_rates(0.9, 1.2, 4).tolist() == [0.9, 1.0, 1.0, 1.0]
