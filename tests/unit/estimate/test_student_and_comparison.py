"""Student's t as tables print it, and two figures compared with an interval for all rows."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from capplan.estimate import student
from capplan.estimate.acceptance_changes import mean_contrast
from capplan.estimate.comparison import (
    FAMILY_ERROR,
    Contrast,
    Ratio,
    changes,
    combined,
    difference_error,
    ratio_error,
)
from capplan.estimate.student import student_quantile, two_sided_p
from capplan.schema.difference import Quality


@pytest.mark.parametrize(
    ("degrees", "error", "exact"),
    [
        (1, 0.05, 12.706205),
        (2, 0.05, 4.302653),
        (3, 0.001, 12.923979),
        (5, 0.10, 2.015048),
        (10, 0.001, 4.586894),
        (30, 0.01, 2.749996),
        (120, 0.05, 1.979930),
    ],
)
def test_quantiles_as_tabulated(degrees: float, error: float, exact: float) -> None:
    assert student_quantile(error, degrees) == pytest.approx(exact, abs=1e-6)
    assert two_sided_p(exact, degrees) == pytest.approx(error, rel=1e-5)
    assert two_sided_p(-exact, degrees) == two_sided_p(exact, degrees)


def test_one_degree_is_cauchys_distribution() -> None:
    for size in (0.1, 0.7, 1.0, 3.0, 40.0):
        assert two_sided_p(size, 1) == pytest.approx(1 - 2 / math.pi * math.atan(size), rel=1e-12)


def test_two_degrees_have_a_closed_form() -> None:
    for size in (0.05, 0.5, 2.0, 25.0):
        assert two_sided_p(size, 2) == pytest.approx(1 - size / math.sqrt(2 + size**2), rel=1e-11)


def test_the_ends_of_the_range() -> None:
    assert two_sided_p(0.0, 5) == 1.0
    assert two_sided_p(math.inf, 5) == two_sided_p(-math.inf, math.inf) == 0.0
    assert two_sided_p(1e200, 5) == 0.0  # its square is beyond a float
    assert student_quantile(0.05, 0) == student_quantile(0.05, -1) == math.inf


@pytest.mark.parametrize("degrees", [1e6, 1e9, math.inf])
def test_very_many_degrees_are_the_normal_distribution(degrees: float) -> None:
    normal = NormalDist()
    assert student_quantile(0.05, degrees) == pytest.approx(normal.inv_cdf(0.975), rel=1e-12)
    assert two_sided_p(1.5, degrees) == pytest.approx(2 * (1 - normal.cdf(1.5)), rel=1e-12)


def test_no_jump_where_the_normal_distribution_takes_over() -> None:
    below, above = student_quantile(0.01, 1e6 - 1), student_quantile(0.01, 1e6)
    assert above < below < above * (1 + 1e-5)
    assert two_sided_p(2.0, 1e6 - 1) == pytest.approx(two_sided_p(2.0, 1e6), rel=1e-5)


def test_few_terms_of_the_fraction_are_near_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = two_sided_p(1.3, 7)
    monkeypatch.setattr(student, "_TERMS", 4)
    assert two_sided_p(1.3, 7) == pytest.approx(exact, rel=1e-3)
    assert two_sided_p(1.3, 7) != exact


# ---- ratios of sums


def test_a_ratio_of_sums_and_what_each_request_adds_to_its_error() -> None:
    ratio = Ratio.of(np.array([2.0, 4.0]), np.array([1.0, 1.0]))
    assert ratio.value == 3.0
    assert ratio.parts.tolist() == [-0.5, 0.5]
    # two requests, mean 3, standard deviation sqrt(2): its standard error is 1
    assert ratio_error(ratio.parts) == (pytest.approx(1.0), 1.0)


def test_without_rounds_there_is_no_ratio() -> None:
    none = Ratio.of(np.zeros(3), np.zeros(3))
    assert math.isnan(none.value)
    assert none.parts.tolist() == [0.0, 0.0, 0.0]


def test_one_request_alone_has_no_error() -> None:
    assert ratio_error(np.array([0.0])) == (math.inf, 0.0)


def test_the_same_requests_are_compared_with_themselves() -> None:
    # requests differ by 2, and each of them gains 1: the gain has no scatter
    rounds = np.ones(3)
    before = Ratio.of(np.array([1.0, 3.0, 5.0]), rounds)
    after = Ratio.of(np.array([2.0, 4.0, 6.0]), rounds)
    assert difference_error(before, after, paired=True) == (pytest.approx(0.0), 2.0)
    error, degrees = difference_error(before, after, paired=False)
    assert error == pytest.approx(math.sqrt(2 * 4 / 3))
    assert degrees == pytest.approx(4.0)  # two errors alike: Welch gives both freedoms


def test_errors_that_add_up() -> None:
    assert combined([(3.0, 10.0), (4.0, math.inf)])[0] == 5.0
    # Welch and Satterthwaite: 25^2 / (9^2 / 10) and nothing from the error that is known
    assert combined([(3.0, 10.0), (4.0, math.inf)])[1] == pytest.approx(625 / 8.1)
    assert combined([(0.0, 4.0), (0.0, 7.0)]) == (0.0, 4.0)
    assert combined([(1.0, 0.0), (1.0, 5.0)]) == (math.inf, 0.0)
    assert combined([(math.inf, 3.0), (1.0, 5.0)]) == (math.inf, 0.0)
    assert combined([(2.0, math.inf)]) == (2.0, math.inf)


# ---- rows


def contrast(**changes_: object) -> Contrast:
    values: dict[str, object] = {
        "quality": Quality.TOKENS_PER_ROUND,
        "label": "code",
        "before": 2.0,
        "after": 2.5,
        "difference": 0.5,
        "standard_error": 0.1,
        "degrees": 10.0,
        "samples": (6, 6),
    }
    return Contrast(**{**values, **changes_})  # type: ignore[arg-type]


def test_a_row_has_its_interval_in_its_unit_and_relative() -> None:
    row = contrast().change(0.05)
    reach = 2.228139 * 0.1  # t of 10 degrees
    assert row.difference is not None
    assert row.relative is not None
    assert row.difference.low == pytest.approx(0.5 - reach, abs=1e-6)
    assert row.difference.high == pytest.approx(0.5 + reach, abs=1e-6)
    assert row.relative.mid == pytest.approx(0.25)
    assert row.relative.high == pytest.approx((0.5 + reach) / 2, abs=1e-6)
    assert row.p_value == pytest.approx(two_sided_p(5.0, 10))
    assert row.changed


def test_of_a_logarithm_the_ends_are_factors() -> None:
    row = contrast(is_log=True, difference=math.log(1.25), standard_error=0.02).change(0.05)
    reach = student_quantile(0.05, 10) * 0.02
    assert row.relative is not None
    assert row.difference is not None
    assert row.relative.mid == pytest.approx(0.25)
    assert row.relative.low == pytest.approx(1.25 * math.exp(-reach) - 1)
    assert row.difference.high == pytest.approx(2.0 * row.relative.high)


@pytest.mark.parametrize(
    "lacking", [{"degrees": 0.0}, {"standard_error": math.inf}, {"before": 0.0}]
)
def test_without_an_error_there_is_no_interval_and_no_p_value(lacking: dict[str, float]) -> None:
    row = contrast(**lacking).change(0.05)
    assert row.difference is row.relative is row.p_value is None
    assert not row.changed


def test_rounding_is_no_difference_and_a_known_difference_is_certain() -> None:
    alike = contrast(difference=1e-10).change(0.05)
    assert alike.difference is not None
    assert alike.difference.mid == 0.0
    assert alike.p_value == 1.0
    assert contrast(difference=3e-9).change(0.05).p_value != 1.0  # above 1e-9 of 2
    assert contrast(standard_error=0.0).change(0.05).p_value == 0.0


def test_every_group_has_its_part_of_the_five_per_cent() -> None:
    rows = changes([[contrast(), contrast()], [], [contrast(), contrast(after=math.nan)]])
    assert len(rows) == 3
    widths = [row.difference.high - row.difference.mid for row in rows if row.difference]
    first, second, alone = widths
    assert first == second == pytest.approx(student_quantile(FAMILY_ERROR / 4, 10) * 0.1)
    assert alone == pytest.approx(student_quantile(FAMILY_ERROR / 2, 10) * 0.1)


def test_the_mean_of_tasks_has_the_error_of_a_mean() -> None:
    rows = [contrast(), contrast(standard_error=0.2, before=4.0, after=4.1, difference=0.1)]
    mean = mean_contrast(rows, "both")
    assert mean.standard_error == pytest.approx(math.hypot(0.1, 0.2) / 2)
    assert (mean.before, mean.after, mean.difference) == pytest.approx((3.0, 3.3, 0.3))
    assert mean.samples == (12, 12)
