"""A user's own prices: CSV or JSON, beside the shipped rows or instead of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from capplan.errors import FactsError
from capplan.facts.catalog import Catalog
from capplan.facts.price_file_offers import offers_of
from capplan.facts.price_file_rows import REMEDY, read_price_rows
from capplan.facts.prices import PRICE_COLUMNS, PRICE_OF
from capplan.files.spreadsheets import inert
from capplan.schema.price import PriceRow

_Key = tuple[object, ...]


def load_price_file(path: Path, catalog: Catalog) -> tuple[PriceRow, ...]:
    """Load a price file: the columns of models_db, or the lean ``gpu,usd_per_gpu_hour``.

    A price by the GPU without ``gpu_count`` and without an instance type that has one holds for
    any number of GPUs.

    Raises
    ------
    FactsError
        If the file cannot be read or a row is wrong; the message names file and line.
    """
    found: dict[_Key, int] = {}
    prices = []
    for row in read_price_rows(path):
        for price in offers_of(row, catalog):
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


def with_price_files(
    catalog: Catalog, paths: Iterable[Path | str] | Path | str, *, only: bool = False
) -> Catalog:
    """Return the catalogue with the prices of files; the last to name an offer is used.

    Parameters
    ----------
    catalog
        Facts to start from.
    paths
        Price files, or one.
    only
        Leave the catalogue's own prices out.

    Raises
    ------
    FactsError
        If a file cannot be read or a row is wrong; the message names file and line.
    """
    every = [paths] if isinstance(paths, Path | str) else paths
    files = [(path, load_price_file(path, catalog)) for path in map(Path, every)]
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
    writer.writerows(
        {column: inert(cell) for column, cell in line.items()} for line in lines.values()
    )
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
