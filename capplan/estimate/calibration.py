"""Fit step time to a measured grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capplan.errors import ProfileError
from capplan.estimate.fitted_step import FittedStep
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability

Floats = NDArray[np.float64]

_FEWEST_POINTS = 3
"""Two terms, and one point to leave out."""
_PRIORITY = (0, 2, 3, 1, 4)
"""Columns of a row in the order in which points are spent on them: fixed, per sequence, per token,
several rows, per context."""


def nonnegative_least_squares(matrix: Floats, values: Floats) -> Floats:
    """Return the non-negative coefficients that minimise the squared residual; exact.

    Every subset of columns is solved, which for the handful of terms of a step-time model is
    both simpler and safer than an iterative active-set method.

    Parameters
    ----------
    matrix, values
        Shapes (rows, terms) and (rows,); at most eight terms.
    """
    terms = matrix.shape[1]
    best_error, best = float((values**2).sum()), np.zeros(terms)
    for mask in range(1, 2**terms):
        chosen = [i for i in range(terms) if mask >> i & 1]
        solution = np.linalg.lstsq(matrix[:, chosen], values, rcond=None)[0]
        if (solution < 0).any():
            continue
        error = float(((matrix[:, chosen] @ solution - values) ** 2).sum())
        if error < best_error * (1 - 1e-12):
            best_error, best = error, np.zeros(terms)
            best[chosen] = solution
    return best


def _row(cell: TimingCell) -> list[float]:
    b, q, s = cell.batch, cell.tokens_per_sequence, cell.context
    return [1.0, float(b * q > 1), b, b * (q - 1.0), b * float(s)]


def fit_relative(matrix: Floats, seconds: Floats) -> Floats:
    """Fit relative errors: a 1 ms step counts as much as a 1 s step."""
    return nonnegative_least_squares(matrix / seconds[:, None], np.ones(len(seconds)))


def held_out_error(matrix: Floats, seconds: Floats) -> float:
    """Return the root mean square relative error of points left out one at a time."""
    errors = []
    for i in range(len(seconds)):
        keep = np.arange(len(seconds)) != i
        predicted = float(matrix[i] @ fit_relative(matrix[keep], seconds[keep]))
        errors.append(predicted / seconds[i] - 1.0)
    return float(np.sqrt(np.mean(np.square(errors))))


def fit_step_time(profile: Profile, role: Role) -> FittedStep | None:
    """Fit one model's step time to the profile's grid; None if the role was not timed.

    Raises
    ------
    ProfileError
        If the role was timed at fewer than three points.

    Notes
    -----
    A term that these points cannot tell (no context but one, say) stays 0, and there is always one
    point more than terms: a run that ended early has a coarser fit and a larger held-out error.
    """
    cells = [
        cell
        for cell in profile.timing
        if cell.role is role
        and cell.phase in (Phase.DECODE, Phase.VERIFY)
        and cell.verdict.stability is not Stability.INVALID
    ]
    if not cells:
        return None
    if len(cells) < _FEWEST_POINTS:
        raise ProfileError(
            f"Profile {profile.id} timed the {role.value} at {len(cells)} points; "
            f"a fit needs at least {_FEWEST_POINTS}.",
            "Measure more: capplan profile ... --resume with a larger --budget-minutes.",
        )
    matrix = np.array([_row(cell) for cell in cells])
    seconds = np.array([float(np.median(cell.seconds)) for cell in cells])
    told = _told_apart(matrix)
    values = np.zeros(matrix.shape[1])
    values[told] = fit_relative(matrix[:, told], seconds)
    fixed, several_rows, per_sequence, per_token, per_context = values
    return FittedStep(
        fixed_s=float(fixed),
        several_rows_s=float(several_rows),
        per_sequence_s=float(per_sequence),
        per_token_s=float(per_token),
        per_context_s=float(per_context),
        prefill_s_per_token=prompt_seconds_per_token(profile, role, fallback=float(per_token)),
        relative_se=held_out_error(matrix[:, told], seconds),
    )


def _told_apart(matrix: Floats) -> list[int]:
    """Return the columns that the points can tell apart, fewer than there are points."""
    told: list[int] = []
    for column in _PRIORITY:
        wider = [*told, column]
        if len(wider) < len(matrix) and np.linalg.matrix_rank(matrix[:, wider]) == len(wider):
            told = wider
    return told


def prompt_seconds_per_token(profile: Profile, role: Role, fallback: float) -> float:
    """Return the best measured prefill time a token, else a verified token's."""
    rates = [
        float(np.median(cell.seconds)) / (cell.batch * cell.tokens_per_sequence)
        for cell in profile.timing
        if cell.role is role and cell.phase is Phase.PREFILL
    ]
    return min(rates, default=fallback)
