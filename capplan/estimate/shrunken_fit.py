"""Fit a few positive constants to measured times, drawn towards what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NOISE_FLOOR = 0.005
"""Least relative scatter assumed: timers and clocks repeat no better (STABLE profiles drift less
than 2 %)."""
_ROUNDS, _STEPS, _HALVINGS = 4, 40, 12
_DIFFERENCE = 1e-5
_CONVERGED = 1e-7
_LARGEST_STEP = 1.0


@dataclass(frozen=True)
class Prior:
    """What is known of a constant before any measurement."""

    name: str
    value: float
    """Positive."""
    log_sd: float
    """Standard deviation of its logarithm."""
    least: float = 1e-12
    most: float = float("inf")


@dataclass(frozen=True)
class ShrunkenFit:
    """Constants with the standard error of their logarithms, in the order of the priors."""

    values: Floats
    log_se: Floats
    scatter: float
    """Root mean square of ln(predicted / measured) on the fitted points."""


def fit_shrunken(
    predict: Callable[[Floats], Floats], measured: Floats, priors: Sequence[Prior]
) -> ShrunkenFit:
    """Return the most probable constants: Gauss-Newton on log residuals, within their bounds.

    ``sum((ln predicted - ln measured)^2 / noise^2) + sum((ln value - ln prior)^2 / log_sd^2)``,
    the noise being the scatter that the fit itself leaves. Logarithms make the error relative and
    the constants positive.

    Parameters
    ----------
    predict
        Times from constants, both > 0.
    measured
        Times, > 0.
    """
    problem = _Problem(predict, np.log(measured), priors)
    theta, noise, scatter = problem.start, 0.05, 0.0
    for _ in range(_ROUNDS):
        theta = problem.minimum(theta, noise)
        scatter = float(np.sqrt(np.mean(problem.residuals(theta) ** 2)))
        freedom = max(len(measured) - len(priors), 1)
        noise = max(scatter * float(np.sqrt(len(measured) / freedom)), NOISE_FLOOR)
    hessian = problem.hessian(theta, noise)
    log_se = np.sqrt(np.diag(np.linalg.inv(hessian)))
    return ShrunkenFit(np.exp(theta), log_se, scatter)


class _Problem:
    def __init__(
        self, predict: Callable[[Floats], Floats], log_measured: Floats, priors: Sequence[Prior]
    ) -> None:
        self._predict, self._log_measured = predict, log_measured
        self._mean = np.log([prior.value for prior in priors])
        self._sd = np.array([prior.log_sd for prior in priors])
        self._least = np.log([prior.least for prior in priors])
        self._most = np.log([prior.most for prior in priors])
        self.start = self._within(self._mean)

    def _within(self, theta: Floats) -> Floats:
        result: Floats = np.clip(theta, self._least, self._most)
        return result

    def residuals(self, theta: Floats) -> Floats:
        result: Floats = np.log(self._predict(np.exp(theta))) - self._log_measured
        return result

    def _cost(self, theta: Floats, noise: float) -> float:
        likelihood = np.sum((self.residuals(theta) / noise) ** 2)
        return float(likelihood + np.sum(((theta - self._mean) / self._sd) ** 2))

    def _jacobian(self, theta: Floats) -> Floats:
        """Differentiate towards smaller constants, since efficiencies may stand at their bound."""
        here = self.residuals(theta)
        columns = []
        for index in range(len(theta)):
            moved = theta.copy()
            moved[index] -= _DIFFERENCE
            columns.append((here - self.residuals(moved)) / _DIFFERENCE)
        return np.stack(columns, axis=1)

    def hessian(self, theta: Floats, noise: float) -> Floats:
        jacobian = self._jacobian(theta)
        result: Floats = jacobian.T @ jacobian / noise**2 + np.diag(1.0 / self._sd**2)
        return result

    def minimum(self, theta: Floats, noise: float) -> Floats:
        cost = self._cost(theta, noise)
        for _ in range(_STEPS):
            step = self._step(theta, noise)
            for _ in range(_HALVINGS):
                moved = self._within(theta + step)
                moved_cost = self._cost(moved, noise)
                if moved_cost < cost:
                    break
                step = step / 2.0
            else:
                return theta
            gained = cost - moved_cost
            theta, cost = moved, moved_cost
            if gained < _CONVERGED * max(cost, 1.0):
                break
        return theta

    def _step(self, theta: Floats, noise: float) -> Floats:
        """Return the Gauss-Newton step over the constants that no bound holds back."""
        jacobian = self._jacobian(theta)
        gradient = jacobian.T @ self.residuals(theta) / noise**2
        gradient = gradient + (theta - self._mean) / self._sd**2
        held = ((theta >= self._most) & (gradient < 0)) | ((theta <= self._least) & (gradient > 0))
        free = ~held
        hessian = jacobian.T @ jacobian / noise**2 + np.diag(1.0 / self._sd**2)
        step = np.zeros_like(theta)
        if free.any():
            step[free] = -np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        result: Floats = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        return result
