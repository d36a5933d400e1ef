"""Price files of ``capplan recommend``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.price_file import load_price_file, with_price_files
from capplan.schema.plan import PlanRequest


def chosen_catalog(paths: Sequence[Path], *, only: bool) -> Catalog:
    """Return the shipped facts with the prices of the files.

    Raises
    ------
    click.UsageError
        If no file is given and no other price may be used.
    """
    if only and not paths:
        raise click.UsageError("--price-file-only leaves no price: add --price-file FILE.")
    return with_price_files(load_catalog(), paths, only=only)


def note_unused_prices(catalog: Catalog, request: PlanRequest, paths: Sequence[Path]) -> None:
    """Say on stderr which rows of the user's own files the filters leave out."""
    left_out: Counter[str] = Counter()
    for path in paths:
        for row in load_price_file(path, catalog):
            if row.purchase not in request.purchases:
                left_out[f"--purchase {row.purchase.value}"] += 1
            elif row.tier not in request.price_tiers:
                left_out[f"--tier {row.tier!r}"] += 1
    for flag, count in left_out.items():
        rows = "1 row" if count == 1 else f"{count} rows"
        click.echo(f"Note: {rows} of the price file not used; add {flag}.", err=True)
