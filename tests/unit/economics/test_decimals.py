"""Amounts as they are named and stored."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from capplan.economics.decimals import dollars, without_noise


@pytest.mark.parametrize(
    ("usd", "named"),
    [
        *((664.3, "664.30"), (3000.0, "3,000"), (Decimal("10709.1"), "10,709.10")),
        *((0.01, "0.01"), (415_313_765_800.0, "415,313,765,800"), (9.25e18, "9.25e+18")),
    ],
)
def test_what_has_to_be_paid_is_named_to_the_cent(usd: float | Decimal, named: str) -> None:
    assert dollars(usd) == named


@given(st.integers(1, 10**11))
def test_an_amount_that_is_named_is_the_amount(cents: int) -> None:
    assert Decimal(dollars(Decimal(cents) / 100).replace(",", "")) == Decimal(cents) / 100


def test_products_of_floats_are_stored_as_they_are_meant() -> None:
    product = 3 * 730 * 4.89
    assert product != 10709.1
    assert without_noise(product) == 10709.1
    assert without_noise(-1087.7000000000007) == -1087.7
