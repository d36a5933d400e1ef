"""How far estimates are from published measurements: the figures of docs/method, as bounds."""

from __future__ import annotations

from functools import cache

import pytest

from capplan.api.validation import validate
from capplan.validation.scoring import ModeResult

BOUNDS = {
    # mode: (mean absolute error, absolute bias)
    "step": (0.025, 0.005),
    "forward": (0.050, 0.010),
    "verify": (0.015, 0.005),
    "batch": (0.070, 0.040),
    "acceptance": (0.010, 0.005),
    "choose_n": (0.004, 0.004),
}


@cache
def result(mode: str) -> ModeResult:
    return validate(modes=[mode]).modes[mode]


@pytest.mark.parametrize("mode", BOUNDS)
def test_errors_stay_within_their_bounds(mode: str) -> None:
    error, bias = BOUNDS[mode]
    assert result(mode).pooled.mape <= error
    assert abs(result(mode).pooled.bias) <= bias


@pytest.mark.parametrize("mode", BOUNDS)
def test_nominal_90_percent_intervals_cover_85_to_95(mode: str) -> None:
    assert 0.85 <= result(mode).pooled.coverage <= 0.95


@pytest.mark.parametrize("mode", ["step", "forward", "choose_n"])
def test_the_side_of_one_is_right(mode: str) -> None:
    sign = result(mode).pooled.sign_accuracy
    assert sign is not None
    assert sign >= 0.97


def test_every_row_that_can_be_predicted_is() -> None:
    assert result("step").pooled.n == 710
    assert result("step").sets["specbundle"].n == 369
    assert result("step").sets["eagle2"].n == 169
    assert result("verify").pooled.n == 89
    assert result("choose_n").pooled.n == 76


def test_the_seventh_position_from_the_third_and_the_fifth() -> None:
    found = result("acceptance").sets["specbundle"]
    assert found.n == 87
    assert found.mape <= 0.010
