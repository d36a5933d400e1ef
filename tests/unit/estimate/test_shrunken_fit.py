"""Constants drawn towards their priors, against the closed form of a problem linear in logarithms.

``predict = c1 * c2^x`` is ``log c1 + x log c2``: ridge regression gives the most probable
constants exactly, for a noise that is given; the noise is found again four times.
"""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.shrunken_fit import NOISE_FLOOR, Prior, ShrunkenFit, fit_shrunken

PRIORS = (Prior("scale", 1.5, 0.2), Prior("growth", 1.1, 0.05))
X = np.array([0.0, 1.0, 2.0, 4.0, 5.0])
MEASURED = np.array([1.30, 1.62, 1.71, 2.20, 2.31])


def fitted(count: int, priors: tuple[Prior, ...] = PRIORS) -> ShrunkenFit:
    x = X[:count]
    return fit_shrunken(lambda c: c[0] * c[1] ** x, MEASURED[:count], priors)


def ridge(count: int, noise: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return logarithms, their covariance and the scatter that they leave."""
    design = np.stack([np.ones(count), X[:count]], axis=1)
    aims = np.log(MEASURED[:count])
    precision = np.diag([1 / prior.log_sd**2 for prior in PRIORS])
    means = np.log([prior.value for prior in PRIORS])
    covariance = np.linalg.inv(design.T @ design / noise**2 + precision)
    theta = covariance @ (design.T @ aims / noise**2 + precision @ means)
    return theta, covariance, float(np.sqrt(np.mean((design @ theta - aims) ** 2)))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_fit_is_ridge_regression_with_the_noise_that_it_leaves(count: int) -> None:
    noise = 0.05
    for _ in range(4):
        theta, _, scatter = ridge(count, noise)
        noise = max(scatter * np.sqrt(count / max(count - 2, 1)), 0.005)
    _, covariance, _ = ridge(count, noise)
    found = fitted(count)
    assert found.values == pytest.approx(np.exp(theta), rel=1e-7)
    assert found.scatter == pytest.approx(scatter, rel=1e-4)
    assert found.log_se == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-5)


def test_exact_times_are_trusted_to_half_a_percent_and_no_further() -> None:
    found = fit_shrunken(lambda c: np.full(4, c[0]), np.full(4, 2.0), [Prior("a", 2.0, 0.5)])
    assert found.values[0] == pytest.approx(2.0)
    assert found.scatter == pytest.approx(0.0, abs=1e-9)
    assert NOISE_FLOOR == 0.005
    assert found.log_se[0] == pytest.approx((4 / 0.005**2 + 1 / 0.5**2) ** -0.5)


def test_a_constant_held_by_its_bound_leaves_the_other_to_itself() -> None:
    held = (Prior("scale", 1.5, 0.2, least=1.4), PRIORS[1])
    found = fitted(5, held)
    assert found.values[0] == pytest.approx(1.4, rel=1e-12)
    rest = np.log(MEASURED) - np.log(1.4)
    noise = 0.05
    for _ in range(4):
        precision = X @ X / noise**2 + 1 / 0.05**2
        growth = (X @ rest / noise**2 + np.log(1.1) / 0.05**2) / precision
        scatter = np.sqrt(np.mean((growth * X - rest) ** 2))
        noise = max(scatter * np.sqrt(5 / 3), 0.005)
    assert found.values[1] == pytest.approx(np.exp(growth), rel=1e-6)


@pytest.mark.parametrize(
    ("bounds", "value"),
    [({"most": 1.0}, 1.0), ({"least": 3.0}, 3.0), ({"least": 1.0, "most": 3.0}, 2.0)],
)
def test_a_prior_outside_its_bounds_begins_at_the_bound(
    bounds: dict[str, float], value: float
) -> None:
    prior = Prior("a", 2.0, 0.5, **bounds)
    found = fit_shrunken(lambda c: np.full(3, c[0]), np.full(3, 2.0), [prior])
    assert found.values[0] == pytest.approx(value, rel=1e-9)


def test_a_bound_that_is_reached_is_left_again_where_the_times_ask_for_it() -> None:
    # begins at its upper bound, the times lie below
    prior = Prior("a", 2.0, 5.0, most=2.0)
    found = fit_shrunken(lambda c: np.full(9, c[0]), np.full(9, 1.2), [prior])
    assert found.values[0] == pytest.approx(1.2, rel=1e-4)
    prior = Prior("a", 2.0, 5.0, least=2.0)
    found = fit_shrunken(lambda c: np.full(9, c[0]), np.full(9, 3.0), [prior])
    assert found.values[0] == pytest.approx(3.0, rel=1e-4)


def test_far_constants_are_reached_in_steps_of_an_e_fold() -> None:
    asked = []

    def predict(constants: np.ndarray) -> np.ndarray:
        asked.append(float(np.log(constants[0])))
        return np.full(9, constants[0])

    found = fit_shrunken(predict, np.full(9, np.exp(5.0)), [Prior("a", 1.0, 50.0)])
    assert found.values[0] == pytest.approx(np.exp(5.0), rel=1e-3)
    assert np.abs(np.diff(asked)).max() == pytest.approx(1.0, abs=1e-4)
