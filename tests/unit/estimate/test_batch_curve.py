"""Speedup between two measured batches."""

from __future__ import annotations

import pytest

from capplan.estimate.batch_curve import SCATTER, BatchPoint, scatter_of, speedup_between

ONE, MANY = BatchPoint(1, 2.0), BatchPoint(64, 0.8)


def test_the_ends_are_given_back() -> None:
    assert speedup_between(ONE, MANY, 1).mid == pytest.approx(2.0)
    assert speedup_between(ONE, MANY, 64).mid == pytest.approx(0.8)


def test_time_a_token_moves_evenly_with_the_logarithm_of_the_batch() -> None:
    assert 1 / speedup_between(ONE, MANY, 8).mid == pytest.approx((1 / 2.0 + 1 / 0.8) / 2)


def test_the_interval_is_widest_between_the_ends_and_grows_beyond() -> None:
    at = {b: speedup_between(ONE, MANY, b).log_sd for b in (1, 8, 64, 256)}
    assert at[1] < at[8] > at[64] < at[256]
    assert speedup_between(ONE, MANY, 256).mid == pytest.approx(0.8)


def test_smooth_curves_narrow_and_ragged_ones_widen_the_scatter() -> None:
    smooth = [[ONE, BatchPoint(8, speedup_between(ONE, MANY, 8).mid), MANY]] * 20
    ragged = [[ONE, BatchPoint(8, 2.6), MANY]] * 20
    assert scatter_of(smooth) < SCATTER < scatter_of(ragged)
    assert scatter_of([]) == pytest.approx(SCATTER)
