from __future__ import annotations

import pytest

from capplan.reporting import formatting as fmt
from capplan.schema.quantity import Quantity


def q(low: float, mid: float, high: float) -> Quantity:
    return Quantity(low=low, mid=mid, high=high)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (11651.4, "11,651 USD"),
        (412.5, "412.50 USD"),
        (1.87, "1.87 USD"),
        (0.0042, "0.0042 USD"),
        (0.0, "0.00 USD"),
    ],
)
def test_money_keeps_cents_only_where_they_matter(value: float, text: str) -> None:
    assert fmt.usd_unit(value) == text


def test_an_interval_is_written_with_the_decimals_of_its_middle() -> None:
    assert fmt.usd_interval(q(1.7111, 1.8712, 2.0589)) == "1.87 USD (1.71-2.06)"
    assert fmt.milliseconds_interval(q(14.2, 17.1, 20.8)) == "17 ms (14-21)"
    assert fmt.factor_interval(q(1.306, 1.43, 1.561)) == "1.43x (1.31-1.56)"


def test_a_spread_that_does_not_show_is_left_out() -> None:
    assert fmt.usd_interval(Quantity.exact(11651)) == "11,651 USD"
    assert fmt.factor_interval(q(1.4299, 1.43, 1.4301)) == "1.43x"


def test_ends_a_decade_apart_keep_their_own_precision() -> None:
    assert fmt.number_interval(q(0.02, 4.0, 90.0)) == "4.00 (0.020-90)"


def test_a_negative_end_is_joined_by_a_word() -> None:
    assert fmt.percent_interval(q(-0.05, 0.03, 0.12)) == "3 % (-5 to 12 %)"


def test_nothing_is_ever_minus_zero() -> None:
    assert fmt.percent_interval(q(-0.001, 0.02, 0.04)) == "2 % (0 to 4 %)"
    assert fmt.percent(-0.0) == "0 %"


@pytest.mark.parametrize(
    ("value", "text"), [(0.46, "46 %"), (0.004, "0.4 %"), (1.0, "100 %"), (-0.15, "-15 %")]
)
def test_percent(value: float, text: str) -> None:
    assert fmt.percent(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(6.42, "6.4 ms"), (17.2, "17 ms"), (600.0, "600 ms"), (1340.0, "1.3 s")]
)
def test_latency_turns_to_seconds_at_one_second(value: float, text: str) -> None:
    assert fmt.milliseconds(value) == text


def test_seconds_keep_their_interval_in_seconds() -> None:
    assert fmt.milliseconds_interval(q(900, 1340, 2100)) == "1.3 s (0.9-2.1)"


def test_gigabytes_are_decimal() -> None:
    assert fmt.gigabytes(65.5e9) == "65.5 GB"
    assert fmt.tokens_per_s(2410.4) == "2,410 tokens/s"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.994, "99 %"),
        (0.995, "99.5 %"),
        (0.9995, "99.95 %"),
        (0.99999, "99.999 %"),
        (-0.9997, "-99.97 %"),
        (1.0, "100 %"),
        (0.1 * 3 + 0.7, "100 %"),
        (1.0 - 1e-13, "100 %"),
        (1.004, "100 %"),
    ],
)
def test_what_is_less_than_all_is_never_rounded_up_to_all(share: float, text: str) -> None:
    assert fmt.percent(share) == text
    if share < 1.0 - 1e-9:
        assert "100" not in fmt.fine_percent(share)


@pytest.mark.parametrize(
    ("low", "mid", "high", "text"),
    [
        (0.97, 0.99, 0.9996, "99 % (97-99.96 %)"),
        (0.9, 0.9996, 1.2, "99.96 % (90-120 %)"),
        (0.01, 0.5, 0.9996, "50 % (1.0-99.96 %)"),
    ],
)
def test_ends_of_an_interval_below_the_whole_stay_below_it(
    low: float, mid: float, high: float, text: str
) -> None:
    assert fmt.percent_interval(q(low, mid, high)) == text
