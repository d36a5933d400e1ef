"""Speedup from its halves, and intervals that cover what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.speculation import guide_speedup, round_ratio
from capplan.estimate.uncertainty import Z_95, combine_relative, ratio_of_sums


def test_the_guides_own_worked_example() -> None:
    assert float(guide_speedup(0.8, 5, 0.05)) == pytest.approx(3.2)


def test_the_guide_leaves_out_exactly_the_bonus_token() -> None:
    # free drafts and free verification: a round emits accepted + 1, the guide counts accepted
    accepted_a_round = 0.6 * 4
    assert float(guide_speedup(0.6, 4, 0.0)) == pytest.approx(accepted_a_round)
    tokens_per_round = 1 + accepted_a_round
    assert tokens_per_round / float(round_ratio(4, 0.0, 1.0, 1.0, 0.0)) == pytest.approx(3.4)


def test_the_guide_calls_a_gain_a_loss_where_the_bonus_decides() -> None:
    # accept .4 of 1 drafted: the guide says .38, a free verification makes 1.4/1.05
    assert float(guide_speedup(0.4, 1, 0.05)) < 1
    assert 1.4 / float(round_ratio(1, 0.05, 1.0, 1.0, 0.0)) > 1


def test_a_round_by_hand() -> None:
    # 3 drafts of 1 ms, verification 11 ms, 0.5 ms of bookkeeping, decode 10 ms
    assert float(round_ratio(3, 1e-3, 11e-3, 10e-3, 0.5e-3)) == pytest.approx(1.45)


def test_without_drafts_a_round_is_a_decode_step_and_costs_no_overhead() -> None:
    assert float(round_ratio(0, 1e-3, 11e-3, 10e-3, 5e-3)) == 1.0


def simulate(rng: np.random.Generator, requests: int, rounds: int) -> np.ndarray:
    """Emitted tokens of each round, N = 4; each request has its own acceptance."""
    alpha = rng.beta(6, 3, size=(requests, 1, 1))
    accepted = np.cumprod(rng.random((requests, rounds, 4)) < alpha, axis=2).sum(axis=2)
    return accepted + 1.0


def test_intervals_clustered_by_request_cover_and_naive_ones_do_not() -> None:
    rng = np.random.default_rng(7)
    truth = simulate(rng, 20_000, 50).mean()
    clustered = naive = 0
    trials = 600
    for _ in range(trials):
        tokens = simulate(rng, 40, 50)
        tau, relative = ratio_of_sums(tokens.sum(axis=1), np.full(40, 50.0))
        clustered += abs(tau - truth) <= Z_95 * relative * tau
        naive += abs(tau - truth) <= Z_95 * tokens.std(ddof=1) / np.sqrt(tokens.size)
    assert 0.91 <= clustered / trials <= 0.98
    assert naive / trials < 0.75


def test_one_request_has_no_spread() -> None:
    tau, error = ratio_of_sums(np.array([30.0]), np.array([10.0]))
    assert (tau, error) == (3.0, float("inf"))


def test_equal_requests_have_no_error_and_no_rounds_no_ratio() -> None:
    assert ratio_of_sums(np.array([6.0, 9.0]), np.array([2.0, 3.0])) == (3.0, 0.0)
    assert np.isnan(ratio_of_sums(np.zeros(3), np.zeros(3))[0])


def test_errors_of_independent_factors_add_in_quadrature() -> None:
    assert combine_relative(0.03, 0.04) == pytest.approx(0.05)
    assert combine_relative() == 0.0
