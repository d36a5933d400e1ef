"""Fitting a grid: planted coefficients come back, and the held-out error is honest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capplan.errors import ProfileError
from capplan.estimate.calibration import (
    fit_step_time,
    held_out_error,
    nonnegative_least_squares,
)
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.verdict import Stability, Verdict


def test_a_nonnegative_optimum_is_the_plain_least_squares_one() -> None:
    matrix = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    assert nonnegative_least_squares(matrix, np.array([1.0, 3.0, 5.0])).tolist() == pytest.approx(
        [1.0, 2.0]
    )


def test_a_negative_slope_becomes_zero_and_the_mean_remains() -> None:
    matrix = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    solution = nonnegative_least_squares(matrix, np.array([3.0, 2.0, 1.0]))
    assert solution.tolist() == pytest.approx([2.0, 0.0])


def test_only_negative_answers_leave_zero() -> None:
    assert nonnegative_least_squares(np.ones((3, 1)), np.full(3, -1.0)).tolist() == [0.0]


def test_no_feasible_neighbour_does_better() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        matrix, values = rng.normal(size=(9, 4)), rng.normal(size=9)
        best = nonnegative_least_squares(matrix, values)
        # Karush-Kuhn-Tucker: the gradient vanishes where x > 0 and is >= 0 where x = 0
        gradient = matrix.T @ (matrix @ best - values)
        assert (best >= 0).all()
        assert np.abs(gradient[best > 0]).max(initial=0.0) < 1e-8
        assert gradient[best == 0].min(initial=0.0) > -1e-8


@pytest.mark.parametrize(("role", "name"), [(Role.TARGET, "TARGET"), (Role.DRAFT, "DRAFT")])
def test_planted_coefficients_come_back(synthetic: Any, role: Role, name: str) -> None:
    planted = getattr(synthetic, f"{name}_TIMES")
    fitted = fit_step_time(synthetic.profile()[0], role)
    assert fitted is not None
    assert fitted.fixed_s == pytest.approx(planted.fixed)
    assert fitted.per_sequence_s == pytest.approx(planted.per_sequence)
    assert fitted.per_token_s == pytest.approx(planted.per_token)
    assert fitted.per_context_s == pytest.approx(planted.per_context)
    assert fitted.relative_se < 1e-9


def test_the_held_out_error_grows_with_the_noise(synthetic: Any) -> None:
    errors = []
    for noise in (0.0, 0.02, 0.10):
        fitted = fit_step_time(synthetic.profile(noise=noise)[0], Role.TARGET)
        assert fitted is not None
        errors.append(fitted.relative_se)
    assert errors[0] < 1e-9 < errors[1] < errors[2]
    # the error of points left out is of the size of the noise, not below it
    assert errors[2] == pytest.approx(0.10, rel=0.6)


def test_an_error_is_of_points_that_the_fit_did_not_see() -> None:
    # one outlier: in sample it would pull the fit towards itself
    matrix = np.array([[1.0, b] for b in (1.0, 2.0, 3.0, 4.0, 50.0)])
    seconds = matrix @ np.array([1.0, 1.0])
    seconds[-1] *= 2
    assert held_out_error(matrix, seconds) > 0.2


def test_a_run_that_ended_early_is_fitted_with_the_terms_that_its_points_tell(
    synthetic: Any,
) -> None:
    profile, _ = synthetic.profile()
    at_one_context = [
        cell
        for cell in profile.timing
        if cell.role is Role.TARGET and cell.context == profile.timing[0].context
    ]
    corners = {1: (1, 16), 9: (1, 16)}
    few = tuple(
        cell for cell in at_one_context if cell.batch in corners.get(cell.tokens_per_sequence, ())
    )
    assert len(few) == 4
    whole = fit_step_time(profile, Role.TARGET)
    fitted = fit_step_time(profile.model_copy(update={"timing": few}), Role.TARGET)
    assert whole is not None
    assert fitted is not None
    assert fitted.per_context_s == 0  # one context alone tells nothing of it
    at = (4, 3, few[0].context)
    assert float(fitted.seconds(*at)) == pytest.approx(float(whole.seconds(*at)), rel=0.1)


def test_two_points_are_refused(synthetic: Any) -> None:
    profile, _ = synthetic.profile()
    few = tuple(c for c in profile.timing if c.role is Role.TARGET)[:2]
    with pytest.raises(ProfileError) as caught:
        fit_step_time(profile.model_copy(update={"timing": few}), Role.TARGET)
    assert "at 2 points" in caught.value.message
    assert "at least 3" in caught.value.message
    assert "--resume" in caught.value.remedy


def test_a_role_that_was_not_timed_has_no_step_time(synthetic: Any) -> None:
    assert fit_step_time(synthetic.profile(draft=None)[0], Role.DRAFT) is None


def test_invalid_cells_are_left_out(synthetic: Any) -> None:
    profile, _ = synthetic.profile()
    wrong = profile.timing[0].model_copy(
        update={"seconds": (99.0,), "verdict": Verdict(stability=Stability.INVALID)}
    )
    fitted = fit_step_time(
        profile.model_copy(update={"timing": (wrong, *profile.timing)}), Role.TARGET
    )
    assert fitted is not None
    assert fitted.fixed_s == pytest.approx(synthetic.TARGET_TIMES.fixed)


def test_the_best_measured_prefill_is_used(synthetic: Any) -> None:
    profile, _ = synthetic.profile()
    prefill = TimingCell(
        role=Role.TARGET,
        phase=Phase.PREFILL,
        batch=2,
        tokens_per_sequence=500,
        context=0,
        seconds=(0.1, 0.1, 0.3),
        verdict=synthetic.STABLE,
    )
    fitted = fit_step_time(
        profile.model_copy(update={"timing": (*profile.timing, prefill)}), Role.TARGET
    )
    assert fitted is not None
    assert fitted.prefill_s_per_token == pytest.approx(0.1 / 1000)
