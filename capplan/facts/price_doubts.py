"""Prices that look wrong beside those already known: said, never corrected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from capplan.schema.price import PriceRow

_OUT_OF_RANGE = 2
"""So many times beyond the dearest or below the cheapest known GPU hour is doubted."""
_CHANGED = Decimal("0.2")
"""Share by which an offer may differ from the known price of the same instance."""


def doubts(prices: Iterable[PriceRow], known: Sequence[PriceRow]) -> tuple[str, ...]:
    """Return what to look at again, empty for prices in the range of the known ones.

    A GPU's price in a node's column, or a node's in a GPU's, is off by the GPUs of the node; a
    price list of an earlier year is off by tens of per cent for the very same instance.

    Parameters
    ----------
    prices
        Prices to look at.
    known
        Prices of other origin to compare them with.
    """
    said = (_range_doubt(price, known) or _change_doubt(price, known) for price in prices)
    return tuple(text for text in said if text)


def _range_doubt(price: PriceRow, known: Sequence[PriceRow]) -> str | None:
    alike = [row for row in known if row.gpu == price.gpu and row.purchase is price.purchase]
    alike = alike or [row for row in known if row.gpu == price.gpu]
    if not alike:
        return None
    hours = [row.usd_per_gpu_hour for row in alike]
    low, high, this = min(hours), max(hours), price.usd_per_gpu_hour
    if low / _OUT_OF_RANGE <= this <= high * _OUT_OF_RANGE:
        return None
    return (
        f"{_named(price)} comes to {this:.2f} USD a GPU-hour; known for {price.gpu} are "
        f"{low:.2f} to {high:.2f}{_mistaken(price, low, high) or '.'}"
    )


def _mistaken(price: PriceRow, low: Decimal, high: Decimal) -> str:
    """Say which mistake would explain it."""
    this, count = price.usd_per_gpu_hour, price.gpu_count
    if count > 1 and low <= this * count <= high:
        return f": is that the price of one GPU, not of a node of {count}?"
    # nodes of eight are what clouds sell most
    if count == 1 and low <= this / 8 <= high:
        return ": is that the price of a node of 8, not of one GPU?"
    return ""


def _change_doubt(price: PriceRow, known: Sequence[PriceRow]) -> str | None:
    for row in known:
        if _same_machine(row, price):
            change = price.usd_per_hour / row.usd_per_hour - 1
            if abs(change) > _CHANGED:
                than = (
                    f"{row.usd_per_hour:f} USD an hour, known as of {row.source.date or 'no day'}"
                )
                return f"{_named(price)} is {change:+.0%} off {than}."
    return None


def _same_machine(row: PriceRow, price: PriceRow) -> bool:
    mine, other = (
        (p.provider.lower(), p.instance.lower(), p.gpu, p.gpu_count, p.purchase, p.term_months)
        for p in (price, row)
    )
    return mine == other and price.region in (row.region, "any")


def _named(price: PriceRow) -> str:
    return (
        f"{price.provider} {price.instance} ({price.purchase.value}, {price.usd_per_hour:f} USD "
        "an hour)"
    )
