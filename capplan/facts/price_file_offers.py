"""A row of a price file to offers: whole nodes, in US dollars an hour."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal

from capplan.facts.catalog import Catalog
from capplan.facts.price_file_gpu import gpu_and_count
from capplan.facts.price_file_rows import (
    CURRENCY,
    GPU_HOUR,
    NODE_HOUR,
    PRICE_FIELDS,
    UPFRONT_USD,
)
from capplan.facts.prices import COMMITMENT, PRICE_OF, commitment, decimal_cell
from capplan.facts.rows import Row, build
from capplan.schema.price import PriceRow, Purchase, spread_over_term
from capplan.schema.provenance import Kind, Source

_DEFAULTS = {"provider": "own", "region": "any", "tier": "list"}


def offers_of(row: Row, catalog: Catalog) -> Iterator[PriceRow]:
    """Yield the offers of one row: one for each price in it.

    Raises
    ------
    FactsError
        If the row is wrong; the message names file and line.
    """
    if row.cells[CURRENCY].upper() not in ("", "USD"):
        raise row.error(CURRENCY, "USD: convert the price first, at a rate and day of your own")
    column = _price_column(row)
    gpu, told = gpu_and_count(row, catalog)
    if told is None and column != GPU_HOUR:
        raise row.error("gpu_count", "the GPUs of the node, a whole number from 1")
    count = told or 1
    shared: dict[str, object] = {
        **{name: row.cells[name] or default for name, default in _DEFAULTS.items()},
        "gpu": gpu,
        "gpu_count": count,
        "any_count": told is None,
        "instance": row.cells["instance"] or _instance(catalog.gpu(gpu).name, count),
        "source": _source(row),
        "note": row.cells["note"],
    }
    for purchase, usd in _offers(row, column, count).items():
        term = _term(row, usd) if purchase is Purchase.RESERVED else {}
        values = {**shared, "purchase": purchase, "usd_per_hour": usd, **term}
        yield build(PriceRow, row, values)


def _price_column(row: Row) -> str:
    """Return the column that has the price, the first of those of models_db."""
    filled = [column for column in PRICE_FIELDS if row.cells[column]]
    given = [column for column in filled if column in (GPU_HOUR, NODE_HOUR)]
    if given and len(filled) > 1:
        raise row.error(filled[1], f"nothing, as {filled[0]} gives the price already")
    if not filled and row.cells[UPFRONT_USD]:
        return NODE_HOUR
    if not filled:
        raise row.error(GPU_HOUR, "a price")
    return filled[0]


def _offers(row: Row, column: str, count: int) -> dict[Purchase, Decimal]:
    """Return what the row offers, by the way it is bought, a whole node each."""
    if column not in (GPU_HOUR, NODE_HOUR):
        if row.cells["purchase"]:
            raise row.error("purchase", "nothing: the price's column says how it is bought")
        cells = {p: _usd(row, name) for p, name in PRICE_OF.items()}
    else:
        usd = _usd(row, column)
        if usd is None and row.cells[UPFRONT_USD]:
            usd = Decimal(0)
        cells = {_purchase(row): None if usd is None else usd * _factor(column, count)}
    offers = {purchase: usd for purchase, usd in cells.items() if usd is not None}
    stray = [name for name in (*COMMITMENT, UPFRONT_USD) if row.cells[name]]
    if stray and Purchase.RESERVED not in offers:
        raise row.error(stray[0], "nothing: only a reserved price has a commitment")
    return offers


def _factor(column: str, count: int) -> int:
    return count if column == GPU_HOUR else 1


def _usd(row: Row, column: str) -> Decimal | None:
    """Return a price; nothing an hour only where all of it is paid on the first day."""
    usd = decimal_cell(row, column)
    if usd is not None and (usd < 0 or (not usd and not row.cells[UPFRONT_USD])):
        raise row.error(column, "a price above 0")
    return usd


def _term(row: Row, usd_per_hour: Decimal) -> dict[str, object]:
    """Return the commitment; an amount due on the first day is spread over its hours."""
    upfront = decimal_cell(row, UPFRONT_USD)
    if upfront is None:
        return dict(commitment(row))
    months = decimal_cell(row, "term_months")
    if upfront <= 0 or row.cells["upfront_share"]:
        raise row.error(UPFRONT_USD, "an amount above 0, and upfront_share left out")
    if months is None or months < 1 or months != int(months):
        raise row.error("term_months", "a whole number of months")
    usd, share = spread_over_term(usd_per_hour, upfront, int(months))
    return {"usd_per_hour": usd, "term_months": int(months), "upfront_share": share}


def _purchase(row: Row) -> Purchase:
    try:
        return Purchase(row.cells["purchase"] or Purchase.ON_DEMAND)
    except ValueError:
        raise row.error("purchase", " or ".join(kind.value for kind in Purchase)) from None


def _source(row: Row) -> Source:
    dated = row.cells["as_of"]
    try:
        day = date.fromisoformat(dated).isoformat() if dated else None
    except ValueError:
        raise row.error("as_of", "a day such as 2026-11-29, or nothing") from None
    cited = row.cells["source"]
    return Source(
        kind=Kind.CITED if cited else Kind.ASSUMED,
        reference=cited or f"price file {row.path.name}, line {row.line}",
        date=day,
    )


def _instance(gpu_name: str, count: int) -> str:
    return f"{count} x {gpu_name}" if count > 1 else gpu_name
