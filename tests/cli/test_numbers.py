"""Numbers as people type them."""

from __future__ import annotations

from decimal import Decimal

import click
import pytest

from capplan.cli.numbers import (
    RATE,
    THROUGHPUT,
    TOKENS,
    USD_A_MONTH,
    USD_AN_HOUR,
    ApiPriceText,
    Number,
    TokenCount,
)


@pytest.mark.parametrize(
    ("typed", "tokens"),
    [("32768", 32768), ("32,768", 32768), ("32k", 32000), ("32K", 32768), ("1.5k", 1500)],
)
def test_token_counts_are_read_as_vllm_reads_them(typed: str, tokens: int) -> None:
    assert TokenCount().convert(typed, None, None) == tokens


@pytest.mark.parametrize("typed", ["", "0", "-1", "1.5", "32 GB", "many", "nan"])
def test_anything_else_is_refused(typed: str) -> None:
    with pytest.raises(click.BadParameter, match="not a count of tokens"):
        TokenCount().convert(typed, None, None)


@pytest.mark.parametrize(
    ("typed", "usd"),
    [
        *(("20000", 20_000), ("20k", 20_000), ("1.5m", 1.5e6), ("$5,000", 5000)),
        *(("5,000 USD", 5000), ("US$ 5k", 5000), ("usd 12", 12), ("5k/month", 5000)),
        *(("$664.30 a month", 664.3), ("5000 per month", 5000)),
    ],
)
def test_dollars_are_read_as_people_write_them(typed: str, usd: float) -> None:
    assert USD_A_MONTH.convert(typed, None, None) == pytest.approx(usd)


@pytest.mark.parametrize("typed", ["A$5", "5 EUR", "5€", "₹500", "500 cad"])
def test_other_currencies_are_not_dollars(typed: str) -> None:
    with pytest.raises(click.BadParameter, match="amounts are in USD"):
        USD_A_MONTH.convert(typed, None, None)


@pytest.mark.parametrize("typed", ["0", "-5", "$-5", "5.000,00", "5 000", "five", "$", "", "1e14"])
def test_what_is_no_amount_is_refused(typed: str) -> None:
    with pytest.raises(click.BadParameter):
        USD_A_MONTH.convert(typed, None, None)


@pytest.mark.parametrize(
    ("kind", "typed", "number"),
    [
        *((USD_AN_HOUR, "$2.50/h", 2.5), (USD_AN_HOUR, "2.5 USD an hour", 2.5)),
        *((TOKENS, "2B", 2e9), (TOKENS, "500M", 5e8), (TOKENS, "1.5t", 1.5e12)),
        *((THROUGHPUT, "1k", 1000), (THROUGHPUT, "700 tokens/s", 700)),
        *((RATE, "6/min", 0.1), (RATE, "86400/day", 1), (RATE, "300/m", 5)),
    ],
)
def test_every_option_takes_the_units_of_its_kind(kind: Number, typed: str, number: float) -> None:
    assert kind.convert(typed, None, None) == pytest.approx(number)


def test_an_hourly_price_has_no_thousands_letter() -> None:
    with pytest.raises(click.BadParameter, match="is not a price"):
        USD_AN_HOUR.convert("2.5k", None, None)


def test_prices_of_an_api_may_bear_dollar_signs_but_no_decimal_comma() -> None:
    price = ApiPriceText().convert("in=$0.10, out=0.40 USD", None, None)
    assert (price.input_usd_per_million_tokens, price.output_usd_per_million_tokens) == (
        Decimal("0.10"),
        Decimal("0.40"),
    )
    with pytest.raises(click.BadParameter, match=r"write in=0\.10, not in=0,10"):
        ApiPriceText().convert("in=0,10,out=0,40", None, None)
