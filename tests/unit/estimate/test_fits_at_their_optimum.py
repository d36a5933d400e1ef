"""Fits at their optimum: the equation that the most probable constants solve, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from capplan.estimate import pooling
from capplan.estimate.calibration import fit_relative, held_out_error, nonnegative_least_squares
from capplan.estimate.pooling import Factor, PooledFit, Work, fit_pooled
from capplan.estimate.shrunken_fit import Prior, fit_shrunken

NOISE = 0.04


# ---- factors that machines share


def root(slope: Callable[[float], float]) -> float:
    """Return where a rising function is 0."""
    low, high = -5.0, 5.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return low


def weight(residual: float, noise: float) -> float:
    """Of one measurement: Cauchy's, a half at 2.5 standard deviations."""
    return 1 / (1 + (residual / (2.5 * noise)) ** 2) / noise**2


@pytest.mark.parametrize("misses", [(0.05,), (0.02, 0.09), (0.1, 0.12, -0.2)])
@pytest.mark.parametrize("noise", [0.04, 0.08])
def test_one_factor_is_the_most_probable_one(misses: Sequence[float], noise: float) -> None:
    works = [Work((3.0,), ((),))] * len(misses)
    seconds = [3.0 * 2.0 * math.exp(miss) for miss in misses]
    fit = fit_pooled([Factor("a", 2.0, 0.1)], works, seconds, noise)

    def slope(theta: float) -> float:  # of minus the log posterior
        return theta / 0.1**2 + sum(
            weight(theta - miss, noise) * (theta - miss) for miss in misses
        )

    theta = root(slope)
    assert math.log(fit.factor("a") / 2.0) == pytest.approx(theta, abs=5e-4)
    curvature = sum(weight(theta - miss, noise) for miss in misses) + 1 / 0.1**2
    found = fit.predict(works[0])
    assert found.value == pytest.approx(6.0 * math.exp(theta), rel=5e-4)
    assert found.relative_se == pytest.approx(math.sqrt(1 / curvature + noise**2), rel=1e-2)


def least_probable_gain(fit: PooledFit, works: Sequence[Work], seconds: Sequence[float]) -> float:
    """Return by how much moving any one deviation by 1 % raises minus the log posterior."""
    spreads = np.sqrt(np.diag(fit_pooled(fit.factors, [], []).covariance))
    own = dict(zip([(index, ()) for index in range(len(fit.factors))], spreads, strict=True))
    for work in works:
        own |= {(i, group): sd for i, pairs in enumerate(work.groups) for group, sd in pairs}

    def cost(theta: np.ndarray) -> float:
        total = sum((theta[at] / own[key]) ** 2 / 2 for key, at in fit.positions.items())
        for work, measured in zip(works, seconds, strict=True):
            terms = 0.0
            for index, factor in enumerate(fit.factors):
                keys = [(index, ()), *((index, group) for group, _ in work.groups[index])]
                logs = sum(theta[fit.positions[key]] for key in keys)
                terms += work.amounts[index] * factor.typical * math.exp(logs)
            residual = math.log(terms / measured) / (2.5 * fit.noise)
            total += 2.5**2 / 2 * math.log1p(residual**2)
        return float(total)

    here = cost(fit.deviations)
    moves = np.concatenate([np.eye(len(fit.deviations)), -np.eye(len(fit.deviations))]) * 0.01
    return min(cost(fit.deviations + move) - here for move in moves)


def test_no_deviation_is_more_probable_than_the_one_found() -> None:
    rng = np.random.default_rng(2)
    factors = [Factor("bytes", 1.0, 0.5), Factor("layers", 1e-3, 0.5)]
    works, seconds = [], []
    for board in "aabbc":
        amounts = (float(rng.uniform(0.1, 1)), float(rng.uniform(1, 500)))
        works.append(Work(amounts, (((("board", board), 0.2),), ((("engine", "e"), 0.3),))))
        seconds.append(1.3 * amounts[0] + 2e-3 * amounts[1] * float(rng.uniform(0.9, 1.2)))
    fit = fit_pooled(factors, works, seconds, NOISE)
    assert least_probable_gain(fit, works, seconds) > 0


def test_two_terms_never_measured_err_by_their_shares_of_the_time() -> None:
    # a quarter and three quarters of it, each with its own doubt and that of a group
    factors = [Factor("a", 1.0, 0.5), Factor("b", 1.0, 0.3)]
    groups = (((("board", "x"), 0.2), (("engine", "y"), 0.1)), ((("board", "x"), 0.4),))
    found = fit_pooled(factors, [], []).predict(Work((1.0, 3.0), groups))
    squares = 0.25**2 * (0.5**2 + 0.2**2 + 0.1**2) + 0.75**2 * (0.3**2 + 0.4**2)
    assert found.value == 4.0
    assert found.relative_se == pytest.approx(math.sqrt(squares + 0.04**2))
    known = fit_pooled(factors, [], []).predict(Work((1.0, 3.0), groups), scatter=0.5)
    assert known.relative_se == pytest.approx(math.sqrt(squares + 0.5**2))


def test_nothing_to_do_takes_no_time_and_errs_by_the_scatter_alone() -> None:
    found = fit_pooled([Factor("a", 1.0, 0.5)], [], []).predict(Work((0.0,), ((),)))
    assert (found.value, found.relative_se) == (0.0, 0.04)


def test_groups_that_were_not_measured_leave_a_factor_as_it_is() -> None:
    group = ("board", "a")
    works = [Work((1.0,), (((group, 0.5),),))]
    fit = fit_pooled([Factor("a", 1.0, 0.5)], works, [1.5], 0.01)
    # both deviations are drawn alike towards the logarithm of 1.5: half of it each
    assert fit.factor("a") == pytest.approx(math.sqrt(1.5), rel=1e-3)
    assert fit.factor("a", group) == pytest.approx(1.5, rel=1e-3)
    assert fit.factor("a", ("board", "b")) == fit.factor("a")


def test_a_fit_that_begins_at_its_end_takes_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    newton = pooling._Problem.newton

    def counted(problem: pooling._Problem, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        steps.append(theta)
        return newton(problem, theta)

    monkeypatch.setattr(pooling._Problem, "newton", counted)
    works = [Work((1.0,), ((),))] * 3
    cold = fit_pooled([Factor("a", 1.0, 1.0)], works, [1.4, 1.5, 1.6])
    assert 2 <= len(steps) <= 8
    steps.clear()
    warm = fit_pooled([Factor("a", 1.0, 1.0)], works, [1.4, 1.5, 1.6], start=cold)
    assert len(steps) == 1
    assert warm.factor("a") == pytest.approx(cold.factor("a"), rel=1e-3)


def test_a_factor_far_away_is_reached_in_steps_of_an_e_fold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works, seconds = [Work((1.0,), ((),))], [math.exp(9.0)]
    fit = fit_pooled([Factor("a", 1.0, 50.0)], works, seconds, 0.5)
    assert fit.factor("a") == pytest.approx(math.exp(9.0), rel=1e-2)
    monkeypatch.setattr(pooling, "_MAX_STEPS", 2)
    cut = fit_pooled([Factor("a", 1.0, 50.0)], works, seconds, 0.5)
    assert math.log(cut.factor("a")) == pytest.approx(2.0)


# ---- constants drawn towards their priors


def test_a_problem_that_one_step_solves_is_not_gone_on_with() -> None:
    calls = 0

    def predict(constants: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return constants[0] * np.ones(9)

    found = fit_shrunken(predict, np.full(9, 1.3), [Prior("a", 1.0, 0.5)])
    assert found.values[0] == pytest.approx(1.3, rel=1e-4)
    # each of four rounds: the cost, three steps of four predictions and its scatter; a round that
    # went on until nothing is gained would halve its last step twelve times
    assert calls <= 4 * (2 + 3 * 4) + 8


def test_a_constant_held_by_its_upper_bound_leaves_the_other_to_itself() -> None:
    x = np.array([0.0, 1.0, 2.0, 4.0, 5.0])
    measured = np.array([1.30, 1.62, 1.71, 2.20, 2.31])
    priors = [Prior("scale", 1.0, 0.2, most=1.2), Prior("growth", 1.1, 0.05)]
    found = fit_shrunken(lambda c: c[0] * c[1] ** x, measured, priors)
    assert found.values[0] == pytest.approx(1.2, rel=1e-12)
    rest = np.log(measured / 1.2)
    noise = 0.05
    for _ in range(4):
        precision = x @ x / noise**2 + 1 / 0.05**2
        growth = (x @ rest / noise**2 + math.log(1.1) / 0.05**2) / precision
        scatter = math.sqrt(float(np.mean((growth * x - rest) ** 2)))
        noise = max(scatter * math.sqrt(5 / 3), 0.005)
    assert found.values[1] == pytest.approx(math.exp(growth), rel=1e-6)
    assert found.scatter == pytest.approx(scatter, rel=1e-4)


# ---- terms that cannot be negative


def test_of_two_columns_the_one_that_explains_more_is_kept() -> None:
    # the second alone is exact; the first alone is not; together the first would be 0
    matrix = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    found = nonnegative_least_squares(matrix, np.array([2.0, 4.0, 6.0]))
    assert found == pytest.approx([0.0, 2.0], abs=1e-12)


def test_relative_errors_of_a_constant_by_hand() -> None:
    # sum (c / s - 1)^2 is least at sum(1 / s) / sum(1 / s^2): 1.5 / 1.25 of seconds 1 and 2
    ones = np.ones((2, 1))
    assert fit_relative(ones, np.array([1.0, 2.0])) == pytest.approx([1.2])
    # left out, 1 is foretold as 2 and 2 as 1: off by +1 and -1/2
    assert held_out_error(ones, np.array([1.0, 2.0])) == pytest.approx(math.sqrt((1 + 0.25) / 2))
