"""Weighing similar measurements: shared parts, vague mean, interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capplan.estimate.similarity import NoisePrior, average, predict_from_similar, same
from capplan.estimate.uncertainty import LogEstimate, student_quantile_95

NOISE = NoisePrior(sd=0.02, degrees=3.0)


def test_without_shared_parts_the_prediction_is_the_mean() -> None:
    values = np.array([1.0, 1.2, 1.7])
    found = predict_from_similar(values, np.zeros((3, 3)), np.zeros(3), 0.0, NOISE)
    assert found.mean == pytest.approx(values.mean(), rel=1e-3)


def test_a_measurement_that_shares_much_outweighs_the_others() -> None:
    values = np.array([1.0, 1.0, 2.0])
    shared = 100 * same(["a", "a", "b", "b"])
    found = predict_from_similar(values, shared[:3, :3], shared[:3, 3], shared[3, 3], NOISE)
    assert found.mean == pytest.approx(2.0, abs=0.05)


def test_scatter_of_the_measurements_widens_the_prediction() -> None:
    calm, wild = np.array([1.0, 1.01, 0.99]), np.array([1.0, 1.5, 0.5])
    nothing = (np.zeros((3, 3)), np.zeros(3), 0.0, NOISE)
    assert predict_from_similar(wild, *nothing).sd > 5 * predict_from_similar(calm, *nothing).sd


def test_one_measurement_is_repeated_with_the_prior_noise() -> None:
    found = predict_from_similar(np.array([1.3]), np.zeros((1, 1)), np.zeros(1), 0.0, NOISE)
    assert found.mean == pytest.approx(1.3, rel=1e-3)
    assert found.sd == pytest.approx(NOISE.sd * np.sqrt(2), rel=0.01)


def test_evidence_prefers_the_covariance_that_explains_the_values() -> None:
    labels = ["a", "a", "a", "b", "b", "b"]
    values = np.array([1.0, 1.01, 0.99, 2.0, 2.01, 1.99])
    grouped, flat = 100 * same(labels), np.zeros((6, 6))
    wanted = 100 * np.array([1, 1, 1, 0, 0, 0.0])
    with_groups = predict_from_similar(values, grouped, wanted, 100.0, NOISE)
    without = predict_from_similar(values, flat, np.zeros(6), 0.0, NOISE)
    assert with_groups.log_evidence > without.log_evidence
    assert average([with_groups, without]).mean == pytest.approx(1.0, abs=0.02)


def test_nominal_90_percent_intervals_hold_90_percent_of_a_simulation() -> None:
    rng = np.random.default_rng(7)
    labels = ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    shared = 9.0 * same(labels)
    inside = 0
    trials = 2000
    for _ in range(trials):
        groups = np.repeat(rng.normal(0, 3 * 0.02, 3), 4)
        values = groups + rng.normal(0, 0.02, 12)
        found = predict_from_similar(values[1:], shared[1:, 1:], shared[1:, 0], 9.0, NOISE)
        reach = student_quantile_95(found.degrees) * found.sd
        inside += abs(values[0] - found.mean) <= reach
    assert inside / trials == pytest.approx(0.90, abs=0.03)


@pytest.mark.parametrize(
    ("degrees", "exact"), [(3, 2.3534), (5, 2.0150), (10, 1.8125), (30, 1.6973), (1e9, 1.6449)]
)
def test_student_quantiles_as_tabulated(degrees: float, exact: float) -> None:
    assert student_quantile_95(degrees) == pytest.approx(exact, rel=5e-5)


def test_student_quantiles_of_one_and_two_degrees_have_a_closed_form() -> None:
    # tan(0.45 pi) and 0.9 / sqrt(2 * 0.95 * 0.05)
    assert student_quantile_95(1.0) == pytest.approx(math.tan(0.45 * math.pi), rel=1e-9)
    assert student_quantile_95(2.0) == pytest.approx(0.9 / math.sqrt(2 * 0.95 * 0.05), rel=1e-9)


def test_a_ratio_of_estimates_adds_their_errors_in_quadrature() -> None:
    ratio = LogEstimate(2.0, 0.04, 6).divided_into(LogEstimate(3.0, 0.03, 20))
    assert (ratio.mid, ratio.log_sd, ratio.degrees) == (1.5, pytest.approx(0.05), 6)
    low, high = ratio.interval_90()
    assert low * high == pytest.approx(ratio.mid**2)
