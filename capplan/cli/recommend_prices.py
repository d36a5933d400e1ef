"""Price files of ``capplan recommend``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.price_file import with_price_files


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
