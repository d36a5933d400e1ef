"""Changes in words."""

from __future__ import annotations

from capplan.reporting.diff_words import signed_percent
from capplan.schema.difference import Interval


def test_a_change_is_shown_with_its_interval():
    assert signed_percent(Interval(low=0.012, mid=0.031, high=0.05)) == "+3.1 % (+1.2 to +5.0)"


def test_an_interval_of_two_points_is_not_spelt_out():
    far = Interval(low=-1.0, mid=0.088, high=2_667_348.5)
    assert signed_percent(far) == "+8.8 % (too few points to tell)"
