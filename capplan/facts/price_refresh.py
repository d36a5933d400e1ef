"""Today's offers through gpuhunt, as rows of models_db. What is unclear is left out and counted.

gpuhunt merges boards that share a chip: its ``A100`` is SXM and PCIe alike, at twice the
bandwidth or not. Such an offer is kept only where the instance itself says which board it has.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from capplan.errors import FactsError
from capplan.facts.catalog import Catalog
from capplan.facts.gpuhunt_tables import (
    PROVIDERS,
    SkipLog,
    Skipped,
    Tables,
    open_tables,
    warnings_counted,
)
from capplan.facts.price_boards import board_of, why_unclear
from capplan.facts.price_file_gpu import known_instance
from capplan.schema.price import PriceRow, Purchase
from capplan.schema.provenance import Source

_COUNTRY = re.compile(r"[A-Z]{2}")
_CLUSTER_FLAG = "runpod-cluster"


@dataclass(frozen=True)
class Refreshed:
    """What a refresh brought."""

    prices: tuple[PriceRow, ...]
    skipped: tuple[Skipped, ...]
    providers: tuple[str, ...]
    origin: str
    """Where gpuhunt took its offers from."""


def refresh_prices(
    catalog: Catalog,
    *,
    providers: Collection[str] = (),
    every_region: bool = False,
    as_of: str | None = None,
    on_provider: Callable[[str, int, int], None] = lambda _name, _done, _total: None,
) -> Refreshed:
    """Fetch offers and keep those whose GPU is certain.

    Parameters
    ----------
    catalog
        Its GPUs name the boards; its own offers tell which board an instance has.
    providers
        Only these, by gpuhunt's names or ours; empty for all that gpuhunt has a table of.
    every_region
        Keep every region; otherwise the cheapest one of each instance and purchase.
    as_of
        Day of the tables where they do not tell it themselves (a local folder).
    on_provider
        Called with a provider's name, how many are done and how many there are.

    Raises
    ------
    MissingPackageError
        If gpuhunt is not installed.
    FactsError
        If no table can be read.
    RequestError
        If a provider is not known.
    """
    log = SkipLog()
    rows: list[PriceRow] = []
    with warnings_counted(log):
        tables = open_tables(providers)
        names = tables.providers
        for done, name in enumerate(names):
            on_provider(name, done, len(names))
            rows.extend(_provider_rows(tables, name, catalog, as_of, log))
    if not rows:
        raise FactsError(
            f"gpuhunt brought no offer of a GPU in the catalogue ({', '.join(names)}).",
            "Look at the network, or name other providers with --provider.",
        )
    kept = rows if every_region else _cheapest_region(rows)
    return Refreshed(tuple(kept), log.skipped(), names, tables.origin)


def _known_boards(catalog: Catalog) -> Mapping[tuple[str, str], str]:
    """Return the GPU of every instance that the catalogue itself has an offer of."""
    return {(price.provider, price.instance): price.gpu for price in catalog.prices}


def _provider_rows(
    tables: Tables,
    provider: str,
    catalog: Catalog,
    as_of: str | None,
    log: SkipLog,
) -> Iterator[PriceRow]:
    ours = PROVIDERS.get(provider, provider)
    source = tables.source(provider, as_of)
    offers = tables.offers(provider)
    if not offers:
        log.add("provider without an offer", provider)
    boards = _known_boards(catalog)
    known = {gpu.id for gpu in catalog.gpus}
    for offer in offers:
        name = f"{ours} {offer.instance_name} ({offer.gpu_name}, {offer.location})"
        gpu = board_of(offer, catalog.gpu_names, boards.get((ours, offer.instance_name)))
        if _CLUSTER_FLAG in offer.flags:
            log.add("sold in clusters only", name)
        elif offer.price <= 0:
            log.add("no price", name)
        elif gpu is None:
            log.add(why_unclear(offer, catalog.gpu_names), name)
        elif gpu not in known:
            log.add("GPU is not in the catalogue", name)
        elif _other_count(catalog, ours, offer):
            log.add("not the GPUs that its instance type has", name)
        else:
            yield _row(offer, ours, gpu, source)


def _other_count(catalog: Catalog, provider: str, offer: Any) -> bool:
    instance = known_instance(catalog, provider, offer.instance_name)
    return instance is not None and instance.gpu_count != offer.gpu_count


def _row(offer: Any, provider: str, gpu: str, source: Source) -> PriceRow:
    return PriceRow(
        provider=provider,
        instance=offer.instance_name,
        gpu=gpu,
        gpu_count=offer.gpu_count,
        region=offer.location,
        purchase=Purchase.SPOT if offer.spot else Purchase.ON_DEMAND,
        tier=_tier(provider, offer.location),
        usd_per_hour=Decimal(repr(float(offer.price))),
        source=source,
        note="" if source.date else "undated",
    )


def _tier(provider: str, region: str) -> str:
    """RunPod sells hosts of third parties by country, its own by data centre."""
    if provider != "runpod":
        return "list"
    return "community" if _COUNTRY.fullmatch(region) else "secure"


def _cheapest_region(rows: Iterable[PriceRow]) -> list[PriceRow]:
    """Keep one region of each instance and purchase, and say how many were dearer."""
    groups: defaultdict[tuple[object, ...], list[PriceRow]] = defaultdict(list)
    for row in rows:
        groups[row.provider, row.instance, row.gpu_count, row.purchase, row.tier].append(row)
    return [_cheapest(group) for group in groups.values()]


def _cheapest(group: list[PriceRow]) -> PriceRow:
    ranked = sorted(group, key=lambda row: (row.usd_per_hour, row.region))
    if len(ranked) == 1:
        return ranked[0]
    dearest = ranked[-1].usd_per_hour
    note = f"cheapest of {len(ranked)} regions, up to {dearest:f} USD an hour"
    parts = [part for part in (ranked[0].note, note) if part]
    return ranked[0].model_copy(update={"note": "; ".join(parts)})
