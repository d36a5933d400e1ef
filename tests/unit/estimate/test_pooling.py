"""A sum of terms whose factors machines share in part."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.pooling import Factor, Work, fit_pooled

FACTORS = (Factor("bytes", 1.0, 0.5), Factor("layers", 1e-3, 0.5))


def work(amounts: tuple[float, float], board: str = "a") -> Work:
    groups = ((("board", board), 0.2),)
    return Work(amounts, (groups, ()))


def seconds(amounts: tuple[float, float], bytes_factor: float, layer_s: float) -> float:
    return amounts[0] * bytes_factor + amounts[1] * layer_s


SIZES = [(0.01, 1.0), (0.02, 30.0), (0.5, 10.0), (0.1, 80.0), (1.0, 2.0), (0.03, 60.0)]


def test_factors_are_recovered_where_data_determine_them() -> None:
    works = [work(size) for size in SIZES] * 5
    fit = fit_pooled(FACTORS, works, [seconds(size, 1.25, 2e-3) for size in SIZES] * 5, 0.01)
    assert fit.factor("bytes", ("board", "a")) == pytest.approx(1.25, rel=0.01)
    assert fit.factor("layers") == pytest.approx(2e-3, rel=0.01)
    assert fit.predict(work((0.2, 40.0))).value == pytest.approx(0.33, rel=0.01)


def test_without_measurements_the_typical_factors_hold_with_their_whole_spread() -> None:
    fit = fit_pooled(FACTORS, [], [], 0.04)
    found = fit.predict(work((1.0, 0.0)))
    assert found.value == 1.0
    # the factor's own 0.5, the board's 0.2 never measured, the scatter of a measurement
    assert found.relative_se == pytest.approx(np.sqrt(0.5**2 + 0.2**2 + 0.04**2))


def test_a_board_never_measured_borrows_from_its_relatives_and_is_less_certain() -> None:
    works = [work(size, board) for board in "abc" for size in SIZES]
    measured = [seconds(size, 1.25, 2e-3) for _ in "abc" for size in SIZES]
    fit = fit_pooled(FACTORS, works, measured, 0.02)
    known, unknown = fit.predict(work((1.0, 1.0))), fit.predict(work((1.0, 1.0), "d"))
    assert unknown.value == pytest.approx(known.value, rel=0.05)
    assert unknown.relative_se > 2 * known.relative_se


def test_one_row_that_contradicts_all_others_hardly_moves_the_fit() -> None:
    works = [work(size) for size in SIZES] * 4
    measured = [seconds(size, 1.25, 2e-3) for size in SIZES] * 4
    spoiled = [measured[0] * 3, *measured[1:]]
    clean, robust = (fit_pooled(FACTORS, works, m, 0.04) for m in (measured, spoiled))
    at = work((0.2, 40.0))
    assert robust.predict(at).value == pytest.approx(clean.predict(at).value, rel=0.01)


def test_a_start_changes_the_time_not_the_result() -> None:
    works = [work(size) for size in SIZES]
    measured = [seconds(size, 0.9, 5e-4) for size in SIZES]
    cold = fit_pooled(FACTORS, works, measured)
    warm = fit_pooled(FACTORS, works, measured, start=cold)
    assert warm.predict(works[2]).value == pytest.approx(cold.predict(works[2]).value, rel=1e-3)


def test_the_interval_is_log_normal_about_the_value() -> None:
    found = fit_pooled(FACTORS, [], []).predict(work((2.0, 0.0)))
    low, high = found.interval(1.645)
    assert low * high == pytest.approx(found.value**2)
    assert low < found.value < high
