"""Why an amount changed: parts by hand, and a sum that is exact to the cent."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from capplan.economics.decomposition import Factor, decompose, logarithmic_mean


def test_the_logarithmic_mean_lies_between_the_other_two() -> None:
    assert logarithmic_mean(1.0, math.e) == pytest.approx(math.e - 1)
    assert logarithmic_mean(4.0, 4.0) == 4.0
    assert logarithmic_mean(4.0, 4.0 * (1 + 1e-13)) == pytest.approx(4.0, rel=1e-12)
    for one, other in ((1.0, 3.0), (50.0, 2.0)):
        mean = logarithmic_mean(one, other)
        assert math.sqrt(one * other) < mean < (one + other) / 2
        assert mean == pytest.approx(logarithmic_mean(other, one))


def test_two_factors_by_hand() -> None:
    # 100 -> 200: price doubled, volume as it was
    found = decompose(
        Decimal(100), Decimal(200), {"price": Factor(1, 2), "volume": Factor(100, 100)}
    )
    assert found == {"price": Decimal(100), "volume": Decimal(0)}
    # 100 -> 400 by two doublings: half each; L(400, 100) ln 2 = 300 / ln 4 * ln 2 = 150
    found = decompose(
        Decimal(100), Decimal(400), {"price": Factor(1, 2), "volume": Factor(10, 20)}
    )
    assert found == {"price": Decimal(150), "volume": Decimal(150)}


def test_what_factors_leave_unexplained_is_shared_out_by_the_size_of_their_parts() -> None:
    # the factors say 100 -> 200, the bill says 210: 10 more, all of it to the one that moved
    found = decompose(Decimal(100), Decimal(210), {"price": Factor(1, 2), "volume": Factor(5, 5)})
    assert found == {"price": Decimal(110), "volume": Decimal(0)}
    # of small amounts, too: the factors say 0.30, the bill 0.40
    half = Factor(1, math.sqrt(1.3))
    found = decompose(Decimal("1.00"), Decimal("1.40"), {"a": half, "b": half})
    assert found == {"a": Decimal("0.20"), "b": Decimal("0.20")}
    # parts of opposite sign carry the same share of it, added to both
    found = decompose(Decimal(100), Decimal(110), {"up": Factor(1, 2), "down": Factor(2, 1)})
    up, down = found["up"], found["down"]
    assert up + down == 10
    assert up - Decimal(5) == -(down - Decimal(5))


def test_a_change_that_no_factor_explains_goes_to_the_first() -> None:
    found = decompose(Decimal(100), Decimal(103), {"price": Factor(2, 2), "volume": Factor(3, 3)})
    assert found == {"price": Decimal(3), "volume": Decimal(0)}
    same = decompose(Decimal(100), Decimal(100), {"price": Factor(2, 2)})
    assert same == {"price": Decimal(0)}


def test_without_factors_there_are_no_parts() -> None:
    assert decompose(Decimal(1), Decimal(2), {}) == {}


def test_cents_that_do_not_divide_go_to_the_largest_remainders() -> None:
    # a cent among three equal factors: the first of equal remainders has it
    third = Factor(1.0, 1.0001 ** (1 / 3))
    found = decompose(Decimal("100.00"), Decimal("100.01"), {"a": third, "b": third, "c": third})
    assert found == {"a": Decimal("0.01"), "b": Decimal(0), "c": Decimal(0)}
    # two cents: the first two of equal remainders
    found = decompose(
        Decimal("100.00"), Decimal("100.02"), dict.fromkeys("abc", Factor(1.0, 1.0002 ** (1 / 3)))
    )
    assert found == {"a": Decimal("0.01"), "b": Decimal("0.01"), "c": Decimal(0)}
    # parts of 0.4 and 1.6 cents: the second has more to gain, though its floor is larger
    found = decompose(
        Decimal("100.00"),
        Decimal("100.02"),
        {"a": Factor(1.0, 1.0002**0.2), "b": Factor(1.0, 1.0002**0.8)},
    )
    assert found == {"a": Decimal(0), "b": Decimal("0.02")}
    # two cents less: floors are -0.01 each, one of them is raised
    down = decompose(
        Decimal("100.01"), Decimal("99.99"), {"a": Factor(1, 0.9999), "b": third, "c": third}
    )
    assert sum(down.values()) == Decimal("-0.02")
    assert down["a"] < down["b"] == down["c"]


def test_another_quantum() -> None:
    found = decompose(
        Decimal("1.234"), Decimal("3.999"), {"a": Factor(1, 2), "b": Factor(1, 1.5)}, Decimal(1)
    )
    assert sum(found.values()) == 3  # 4 less 1
    assert all(part == int(part) for part in found.values())
