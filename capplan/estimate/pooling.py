"""Fit a sum of terms whose efficiencies are shared, in part, between machines.

A measured time is taken as ``sum over terms of work * factor``: bytes over a data-sheet bandwidth,
FLOPs over a peak, layers. The logarithm of each factor is a common value plus one deviation a
group that the measurement belongs to (its engine, its engine on this GPU, its number format ...),
and each deviation is drawn towards 0 by how much such groups usually differ. A group with many
measurements speaks for itself, one with few borrows from its relatives, and one with none is
predicted from them with an interval that says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Group = tuple[str, ...]

_MAX_STEPS = 60
_MAX_LOG_STEP = 1.0
_CONVERGED = 1e-3
_ROBUST_AT = 2.5
"""Residuals beyond this many standard deviations count less and less (Cauchy weights): published
tables hold rows that their own neighbours contradict."""


@dataclass(frozen=True)
class Factor:
    """What is known of a term's factor before any measurement."""

    name: str
    typical: float
    """Positive; an inverse efficiency, or seconds a unit."""
    log_sd: float
    """Standard deviation of its logarithm; 0.25 is about +-25 %."""


@dataclass(frozen=True)
class Work:
    """What one step has to do.

    Attributes
    ----------
    amounts
        One value a factor, >= 0, in seconds a unit factor.
    groups
        A tuple a factor: the groups whose deviation applies, each with the standard deviation of
        its logarithm.
    """

    amounts: tuple[float, ...]
    groups: tuple[tuple[tuple[Group, float], ...], ...]


@dataclass(frozen=True)
class Prediction:
    """A predicted time and the relative standard error of one measurement of it."""

    value: float
    relative_se: float

    def interval(self, z: float) -> tuple[float, float]:
        """Return the interval of ``z`` standard errors, log-normal."""
        spread = float(np.exp(z * self.relative_se))
        return self.value / spread, self.value * spread


@dataclass(frozen=True)
class PooledFit:
    """Factors fitted to measurements; make one with :func:`fit_pooled`."""

    factors: tuple[Factor, ...]
    positions: Mapping[tuple[int, Group], int]
    """Where the deviation of (factor, group) stands; the empty group is the factor itself."""
    deviations: Floats
    covariance: Floats
    noise: float

    def predict(self, work: Work, scatter: float | None = None) -> Prediction:
        """Predict one time; groups never measured add their whole spread to the error.

        Parameters
        ----------
        work
            What is done.
        scatter
            Relative scatter about the model where this is predicted; the fit's own by default.
        """
        noise = self.noise if scatter is None else scatter
        terms = self.terms(work)
        total = float(terms.sum())
        share = terms / total if total > 0 else terms
        gradient = share @ _design(work, self.positions, len(self.deviations))
        variance = float(gradient @ self.covariance @ gradient) + noise**2
        for index, groups in enumerate(work.groups):
            unseen = sum(sd**2 for group, sd in groups if (index, group) not in self.positions)
            variance += float(share[index]) ** 2 * unseen
        return Prediction(total, float(np.sqrt(variance)))

    def terms(self, work: Work) -> Floats:
        """Return the predicted time of each term."""
        design = _design(work, self.positions, len(self.deviations))
        result: Floats = np.array(work.amounts) * np.exp(
            _typical(self.factors) + design @ self.deviations
        )
        return result

    def factor(self, name: str, *groups: Group) -> float:
        """Return the fitted factor of a term for measurements in these groups."""
        index = next(i for i, factor in enumerate(self.factors) if factor.name == name)
        at = [self.positions[key] for key in [(index, g) for g in ((), *groups)] if key in self]
        return float(self.factors[index].typical * np.exp(self.deviations[at].sum()))

    def __contains__(self, key: tuple[int, Group]) -> bool:
        """Whether the deviation of (factor, group) was fitted."""
        return key in self.positions


def fit_pooled(
    factors: Sequence[Factor],
    works: Sequence[Work],
    seconds: Sequence[float],
    noise: float = 0.04,
    start: PooledFit | None = None,
) -> PooledFit:
    """Fit to measured times: the most probable factors, by Gauss-Newton on log residuals.

    Parameters
    ----------
    factors
        The terms.
    works, seconds
        What was done and how long it took, > 0; may be empty (all factors typical).
    noise
        Relative scatter of one measurement about a perfect model.
    start
        A fit to similar data, to begin from; it changes the time taken, not the result.
    """
    positions, spreads = _positions(factors, works)
    theta = _begin(start, positions)
    if not works:
        prior: Floats = np.diag(spreads**2)
        return PooledFit(tuple(factors), positions, theta, prior, noise)
    problem = _Problem.of(factors, works, seconds, positions, spreads, noise)
    hessian: Floats = np.diag(problem.precision)
    for _ in range(_MAX_STEPS):
        hessian, gradient = problem.newton(theta)
        step = np.linalg.solve(hessian, gradient)
        largest = float(np.abs(step).max())
        theta = theta - step * min(1.0, _MAX_LOG_STEP / max(largest, _MAX_LOG_STEP))
        if largest < _CONVERGED:
            break
    covariance: Floats = np.asarray(np.linalg.inv(hessian), dtype=np.float64)
    return PooledFit(tuple(factors), positions, theta, covariance, noise)


@dataclass(frozen=True)
class _Problem:
    """The measurements as arrays; a row of ``member`` is one (measurement, factor)."""

    amounts: Floats
    measured: Floats
    typical: Floats
    member: NDArray[np.float64]
    precision: Floats
    noise: float

    @classmethod
    def of(
        cls,
        factors: Sequence[Factor],
        works: Sequence[Work],
        seconds: Sequence[float],
        positions: Mapping[tuple[int, Group], int],
        spreads: Floats,
        noise: float,
    ) -> _Problem:
        return cls(
            amounts=np.array([work.amounts for work in works]),
            measured=np.log(np.asarray(seconds, dtype=float)),
            typical=_typical(factors),
            member=np.concatenate([_design(work, positions, len(spreads)) for work in works]),
            precision=1.0 / spreads**2,
            noise=noise,
        )

    def newton(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return Hessian and gradient of the log posterior, robustly weighted."""
        rows, terms_count = self.amounts.shape
        logs = (self.member @ theta).reshape(rows, terms_count)
        terms = self.amounts * np.exp(self.typical + logs)
        total = terms.sum(axis=1)
        residual = np.log(total) - self.measured
        weight = 1.0 / (1.0 + (residual / (_ROBUST_AT * self.noise)) ** 2) / self.noise**2
        share = (terms / total[:, None]).reshape(-1, 1)
        slope = (share * self.member).reshape(rows, terms_count, -1).sum(axis=1)
        hessian = (slope.T * weight) @ slope + np.diag(self.precision)
        return hessian, slope.T @ (weight * residual) + self.precision * theta


def _typical(factors: Sequence[Factor]) -> Floats:
    result: Floats = np.log(np.array([factor.typical for factor in factors], dtype=np.float64))
    return result


def _positions(
    factors: Sequence[Factor], works: Sequence[Work]
) -> tuple[dict[tuple[int, Group], int], Floats]:
    positions: dict[tuple[int, Group], int] = {}
    spreads: list[float] = []
    for index, factor in enumerate(factors):
        positions[index, ()] = len(spreads)
        spreads.append(factor.log_sd)
    for work in works:
        for index, groups in enumerate(work.groups):
            for group, spread in groups:
                if (index, group) not in positions:
                    positions[index, group] = len(spreads)
                    spreads.append(spread)
    return positions, np.array(spreads)


def _design(work: Work, positions: Mapping[tuple[int, Group], int], width: int) -> Floats:
    design = np.zeros((len(work.amounts), width))
    for index, groups in enumerate(work.groups):
        design[index, positions[index, ()]] = 1.0
        for group, _ in groups:
            at = positions.get((index, group))
            if at is not None:
                design[index, at] = 1.0
    return design


def _begin(start: PooledFit | None, positions: Mapping[tuple[int, Group], int]) -> Floats:
    theta = np.zeros(len(positions))
    if start is not None:
        for key, at in positions.items():
            if key in start.positions:
                theta[at] = start.deviations[start.positions[key]]
    return theta
