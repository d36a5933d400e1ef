"""What is to be minded about prices, on stderr."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.price_doubts import doubts
from capplan.facts.price_file import load_price_file
from capplan.schema.plan import PlanRequest
from capplan.schema.price import PriceRow, Purchase
from capplan.schema.provenance import Kind, Source

_MOST = 3


def say_doubts(found: Sequence[str]) -> None:
    """Say the first few doubts and count the rest."""
    for doubt in found[:_MOST]:
        click.echo(f"Mind: {doubt}", err=True)
    if len(found) > _MOST:
        click.echo(f"Mind: {len(found) - _MOST} more prices look like that.", err=True)


def note_prices(catalog: Catalog, request: PlanRequest, paths: Sequence[Path]) -> None:
    """Say which of the user's own prices the filters leave out, and which of them look wrong."""
    rows = [row for path in paths for row in load_price_file(path, catalog)]
    left_out: Counter[str] = Counter()
    for row in rows:
        if row.purchase not in request.purchases:
            left_out[f"--purchase {row.purchase.value}"] += 1
        elif row.tier not in request.price_tiers:
            left_out[f"--tier {row.tier!r}"] += 1
    for flag, count in left_out.items():
        said = "1 row" if count == 1 else f"{count} rows"
        click.echo(f"Note: {said} of the price file not used; add {flag}.", err=True)
    say_doubts(doubts([*rows, *_stated(catalog, request)], load_catalog().prices))


def _stated(catalog: Catalog, request: PlanRequest) -> list[PriceRow]:
    """Return the prices of ``--gpu-price`` whose GPU the catalogue has."""
    known = {gpu.id for gpu in catalog.gpus}
    return [
        PriceRow(
            provider="--gpu-price",
            instance=gpu,
            gpu=gpu,
            gpu_count=1,
            region="own",
            purchase=Purchase.ON_DEMAND,
            tier="own",
            usd_per_hour=usd,
            source=Source(kind=Kind.ASSUMED, reference="stated with the request (--gpu-price)"),
        )
        for gpu, usd in request.gpu_price_usd_per_hour.items()
        if gpu in known
    ]
