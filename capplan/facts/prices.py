"""GPU offers of models_db."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capplan.facts.rows import PROVENANCE, Row, build, read_family
from capplan.schema.price import PriceRow, Purchase
from capplan.schema.provenance import Kind

PRICE_COLUMNS = (
    *("provider", "instance", "gpu", "gpu_count", "region"),
    *("on_demand_usd_per_hour", "spot_usd_per_hour", "tier", *PROVENANCE),
)


def load_prices(folder: Path) -> tuple[PriceRow, ...]:
    """Load offers; a row with an on-demand and a spot price becomes two.

    Raises
    ------
    FactsError
        If no file is there or a row is wrong; the message names file and line.
    """
    return tuple(price for row in read_family(folder, PRICE_COLUMNS) for price in _prices(row))


def _prices(row: Row) -> Iterator[PriceRow]:
    shared = {name: row.required(name) for name in ("provider", "instance", "gpu", "gpu_count")}
    shared |= {name: row.required(name) for name in ("region", "tier")}
    offers = {
        Purchase.ON_DEMAND: row.number("on_demand_usd_per_hour"),
        Purchase.SPOT: row.number("spot_usd_per_hour"),
    }
    if not any(price is not None for price in offers.values()):
        raise row.error("on_demand_usd_per_hour", "a price, on demand or spot")
    for purchase, usd_per_hour in offers.items():
        if usd_per_hour is not None:
            source = row.source(Kind.CITED)
            values = {**shared, "purchase": purchase, "usd_per_hour": usd_per_hour}
            values |= {"source": source, "note": row.cells["note"]}
            yield build(PriceRow, row, values)
