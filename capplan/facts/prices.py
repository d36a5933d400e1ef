"""GPU offers of models_db."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path

from capplan.facts.rows import PROVENANCE, Row, build, read_family
from capplan.schema.price import PriceRow, Purchase
from capplan.schema.provenance import Kind

PRICE_OF = {
    Purchase.ON_DEMAND: "on_demand_usd_per_hour",
    Purchase.SPOT: "spot_usd_per_hour",
    Purchase.RESERVED: "reserved_usd_per_hour",
}
"""Column of each kind of purchase: dollars an hour for the whole node."""

COMMITMENT = ("term_months", "upfront_share")
"""Columns that belong to the reserved price."""

PRICE_COLUMNS = (
    *("provider", "instance", "gpu", "gpu_count", "region"),
    *(*PRICE_OF.values(), *COMMITMENT, "tier", *PROVENANCE),
)


def load_prices(folder: Path) -> tuple[PriceRow, ...]:
    """Load offers; a row with an on-demand and a spot price becomes two.

    Raises
    ------
    FactsError
        If no file is there or a row is wrong; the message names file and line.
    """
    return tuple(price for row in read_family(folder, PRICE_COLUMNS) for price in _prices(row))


def decimal_cell(row: Row, column: str) -> Decimal | None:
    """Return an amount exactly as it is written, None for an empty cell.

    Raises
    ------
    FactsError
        If the cell is no finite number.
    """
    text = row.cells[column].strip()
    if not text:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise row.error(column, "a number, such as 2.49") from None
    if not value.is_finite():
        raise row.error(column, "a finite number")
    return value


def commitment(row: Row) -> dict[str, str]:
    """Return the cells of a reservation that are filled."""
    return {name: row.cells[name] for name in COMMITMENT if row.cells[name]}


def _prices(row: Row) -> Iterator[PriceRow]:
    shared = {name: row.required(name) for name in ("provider", "instance", "gpu", "gpu_count")}
    shared |= {name: row.required(name) for name in ("region", "tier")}
    offers = {kind: decimal_cell(row, column) for kind, column in PRICE_OF.items()}
    if not any(price is not None for price in offers.values()):
        raise row.error("on_demand_usd_per_hour", "a price: on demand, spot or reserved")
    if offers[Purchase.RESERVED] is None and commitment(row):
        raise row.error("reserved_usd_per_hour", "a price for that term")
    for purchase, usd_per_hour in offers.items():
        if usd_per_hour is not None:
            values = {**shared, "purchase": purchase, "usd_per_hour": usd_per_hour}
            values |= {"source": row.source(Kind.CITED), "note": row.cells["note"]}
            if purchase is Purchase.RESERVED:
                values |= commitment(row)
            yield build(PriceRow, row, values)
