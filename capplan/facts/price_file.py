"""A user's own prices: CSV or JSON, beside the shipped rows or instead of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

from capplan.errors import FactsError, UnknownIdError
from capplan.facts.catalog import Catalog
from capplan.facts.price_file_rows import (
    GPU_HOUR,
    NODE_HOUR,
    PRICE_FIELDS,
    REMEDY,
    read_price_rows,
)
from capplan.facts.prices import COMMITMENT, PRICE_COLUMNS, PRICE_OF, commitment, decimal_cell
from capplan.facts.rows import Row, build
from capplan.schema.price import PriceRow, Purchase
from capplan.schema.provenance import Kind, Source

_DEFAULTS = {"provider": "own", "region": "any", "tier": "list"}
_Key = tuple[object, ...]


def load_price_file(path: Path, catalog: Catalog) -> tuple[PriceRow, ...]:
    """Load a price file: the columns of models_db, or the lean ``gpu,usd_per_gpu_hour``.

    A price by the GPU without ``gpu_count`` holds for any number of GPUs.

    Raises
    ------
    FactsError
        If the file cannot be read or a row is wrong; the message names file and line.
    """
    found: dict[_Key, int] = {}
    prices = []
    for row in read_price_rows(path):
        for price in _prices(row, catalog):
            earlier = found.setdefault(_key(price), row.line)
            if earlier != row.line:
                raise FactsError(
                    f"{row.path}:{row.line}: the same offer as on line {earlier}.",
                    "Keep one of the two, or tell them apart by provider, instance or region.",
                )
            prices.append(price)
    if not prices:
        raise FactsError(f"{path}: holds no price.", REMEDY)
    return tuple(prices)


def with_price_files(catalog: Catalog, paths: Iterable[Path], *, only: bool = False) -> Catalog:
    """Return the catalogue with the prices of files; the last to name an offer is used.

    Parameters
    ----------
    catalog
        Facts to start from.
    paths
        Price files.
    only
        Leave the catalogue's own prices out.

    Raises
    ------
    FactsError
        If a file cannot be read or a row is wrong; the message names file and line.
    """
    files = [(path, load_price_file(path, catalog)) for path in paths]
    if not files:
        return catalog
    prices = {} if only else {_key(price): price for price in catalog.prices}
    shipped = len(prices)
    for _, rows in files:
        prices |= {_key(price): price for price in rows}
    added = [f"{_offers_of(len(rows))} of {path.name}" for path, rows in files]
    own_rows = set(catalog.prices)
    unchanged = sum(price in own_rows for price in prices.values())
    own = "no other" if only else f"{unchanged} of {shipped} {catalog.price_origin}"
    return replace(
        catalog, prices=tuple(prices.values()), price_origin=f"{' and '.join(added)}; {own}"
    )


def _offers_of(count: int) -> str:
    return "1 offer" if count == 1 else f"{count} offers"


def price_file_text(prices: Iterable[PriceRow]) -> str:
    """Return rows as CSV with the columns of models_db, one line an offer and a day."""
    lines: dict[_Key, dict[str, str]] = {}
    for price in prices:
        column = PRICE_OF[price.purchase]
        shared = _shared_cells(price)
        key = (*shared.values(), price.term_months)
        line = lines.setdefault(key, {**dict.fromkeys(PRICE_COLUMNS, ""), **shared})
        line[column] = f"{price.usd_per_hour:f}"
        if price.term_months is not None:
            line |= {"term_months": str(price.term_months)}
            line |= {"upfront_share": f"{price.upfront_share:f}"}
    text = io.StringIO()
    writer = csv.DictWriter(text, PRICE_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines.values())
    return text.getvalue()


def _shared_cells(price: PriceRow) -> dict[str, str]:
    return {
        "provider": price.provider,
        "instance": price.instance,
        "gpu": price.gpu,
        "gpu_count": str(price.gpu_count),
        "region": price.region,
        "tier": price.tier,
        "source": price.source.reference,
        "as_of": price.source.date or "",
        "note": price.note,
    }


def _key(price: PriceRow) -> _Key:
    return (
        *(price.provider, price.instance, price.gpu, price.gpu_count, price.region),
        *(price.purchase, price.tier, price.term_months, price.upfront_share),
    )


def _prices(row: Row, catalog: Catalog) -> Iterator[PriceRow]:
    filled = [column for column in PRICE_FIELDS if row.cells[column]]
    by_gpu = filled == [GPU_HOUR]
    if not by_gpu and (GPU_HOUR in filled or (NODE_HOUR in filled and len(filled) > 1)):
        raise row.error(filled[1], f"nothing, as {filled[0]} gives the price already")
    if not filled:
        raise row.error(GPU_HOUR, "a price")
    gpu = _gpu(row, catalog)
    count = int(_count(row, by_gpu=by_gpu) or 1)
    shared: dict[str, object] = {
        **{name: row.cells[name] or default for name, default in _DEFAULTS.items()},
        "gpu": gpu,
        "gpu_count": count,
        "any_count": not row.cells["gpu_count"],
        "instance": row.cells["instance"] or _instance(catalog.gpu(gpu).name, count),
        "source": _source(row),
        "note": row.cells["note"],
    }
    for purchase, usd in _offers(row, filled, count).items():
        term = commitment(row) if purchase is Purchase.RESERVED else {}
        values = {**shared, **term, "purchase": purchase, "usd_per_hour": usd}
        yield build(PriceRow, row, values)


def _offers(row: Row, filled: list[str], count: int) -> dict[Purchase, Decimal | None]:
    """Return what the row offers, by the way it is bought, a whole node each."""
    if filled[0] not in (GPU_HOUR, NODE_HOUR):
        if row.cells["purchase"]:
            raise row.error("purchase", "nothing: the price's column says how it is bought")
        offers = {p: decimal_cell(row, column) for p, column in PRICE_OF.items()}
    else:
        usd = decimal_cell(row, filled[0])
        factor = count if filled[0] == GPU_HOUR else 1
        offers = {_purchase(row): None if usd is None else usd * factor}
    offers = {purchase: usd for purchase, usd in offers.items() if usd is not None}
    stray = [name for name in COMMITMENT if row.cells[name]]
    if stray and Purchase.RESERVED not in offers:
        raise row.error(stray[0], "nothing: only a reserved price has a commitment")
    return offers


def _purchase(row: Row) -> Purchase:
    try:
        return Purchase(row.cells["purchase"] or Purchase.ON_DEMAND)
    except ValueError:
        raise row.error("purchase", " or ".join(kind.value for kind in Purchase)) from None


def _count(row: Row, *, by_gpu: bool) -> Decimal | None:
    count = decimal_cell(row, "gpu_count")
    if count is None and by_gpu:
        return None
    if count is None or count < 1 or count != int(count):
        raise row.error("gpu_count", "the GPUs of the node, a whole number from 1")
    return count


def _gpu(row: Row, catalog: Catalog) -> str:
    name = row.required("gpu")
    try:
        return catalog.gpu(name).id
    except UnknownIdError as error:
        raise FactsError(
            f"{row.path}:{row.line}: column gpu: {error.message}", error.remedy
        ) from None


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
