from __future__ import annotations

import pytest

from capplan.estimate.framework_tax import framework_tax


@pytest.mark.parametrize(
    ("concurrency", "baseline_ms", "idle_ms"), [(2, 14.374, 15.317), (189, 77.164, 93.820)]
)
def test_both_measured_points_are_met(
    concurrency: float, baseline_ms: float, idle_ms: float
) -> None:
    assert baseline_ms * (1 + framework_tax(concurrency).mid) == pytest.approx(idle_ms)


def test_the_tax_grows_with_the_load_between_the_two_and_not_beyond() -> None:
    taxes = [framework_tax(c).mid for c in (1, 2, 8, 32, 189, 1000)]
    assert taxes == sorted(taxes)
    assert taxes[0] == taxes[1]
    assert taxes[-1] == taxes[-2]


def test_one_source_leaves_a_wide_interval_and_more_so_beyond_its_points() -> None:
    inside, beyond = framework_tax(32), framework_tax(2000)
    assert inside.low > 0
    assert inside.high / inside.low > 8
    assert beyond.high / beyond.low > inside.high / inside.low
    alone, two = framework_tax(1), framework_tax(2)
    assert alone.high / alone.low > two.high / two.low
    assert framework_tax(0.5) == alone  # no fewer requests than one
