"""``capplan prices``: list, check and refresh what GPUs cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click

from capplan.cli.examples import examples
from capplan.cli.facts_output import show_listing
from capplan.cli.price_notes import say_doubts
from capplan.cli.recommend_prices import chosen_catalog
from capplan.facts import listing
from capplan.facts.catalog import load_catalog
from capplan.facts.lookup import resolve
from capplan.facts.price_age import ages
from capplan.facts.price_doubts import doubts
from capplan.facts.price_file import load_price_file, price_file_text
from capplan.schema.price import PriceRow, Purchase

_EXAMPLES = """\b
Examples:
  capplan prices list --gpu h100-sxm-80gb
  capplan prices check my-prices.csv
  capplan prices refresh -o prices.csv
  capplan recommend --target qwen3-32b --budget 20000 --price-file prices.csv
"""

_FILE = click.Path(path_type=Path, dir_okay=False)


class _Day(click.ParamType[str]):
    """A day, as in 2026-11-29."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return date.fromisoformat(str(value)).isoformat()
        except ValueError:
            self.fail(f"{value!r} is not a day, such as 2026-11-29", param, ctx)


@click.group("prices", epilog=_EXAMPLES)
def command() -> None:
    """List, check and refresh what GPUs cost. Plans use the shipped prices and --price-file."""


@command.command(
    "list",
    epilog=examples(
        "prices list --gpu h100-sxm-80gb",
        "prices list --price-file my-prices.csv --price-file-only",
    ),
)
@click.option("--gpu", help="Only this GPU.")
@click.option("--provider", help="Only this provider.")
@click.option(
    "--purchase", type=click.Choice([p.value for p in Purchase]), help="How it is bought."
)
@click.option("--price-file", "files", multiple=True, type=_FILE, help="Your prices as well.")
@click.option("--price-file-only", "only", is_flag=True, help="Only those of --price-file.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="How to print.",
)
def list_prices(
    gpu: str | None,
    provider: str | None,
    purchase: str | None,
    files: Sequence[Path],
    *,
    only: bool,
    output: str,
) -> None:
    """List GPU offers, the cheapest GPU hour first; stale and undated ones are warned about."""
    catalog = chosen_catalog(files, only=only)
    known = (price.provider for price in catalog.prices)
    chosen = catalog.prices_for(
        catalog.gpu(gpu).id if gpu else None,
        providers=[resolve(provider, known, "provider")] if provider else [],
        purchases=[Purchase(purchase)] if purchase else [],
    )
    show_listing(listing.price_listing(chosen), output)
    click.echo(f"Prices: {catalog.price_origin}.", err=True)
    _warn(chosen)


@command.command(epilog=examples("prices check my-prices.csv"))
@click.argument("files", nargs=-1, required=True, type=_FILE)
def check(files: Sequence[Path]) -> None:
    """Check price files: every row, its GPU, its date, its size beside known prices.

    Exit code 1 at the first bad row; a doubt about a price is said and stops nothing.
    """
    catalog = load_catalog()
    for path in files:
        prices = load_price_file(path, catalog)
        kinds = Counter(f"{price.purchase.value}, {price.tier}" for price in prices)
        said = "; ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        offers = "1 offer" if len(prices) == 1 else f"{len(prices)} offers"
        click.echo(f"{path}: {offers} ({said}).")
        _warn(prices)
        say_doubts(doubts(prices, catalog.prices))


@command.command(
    epilog=examples(
        "prices refresh -o prices.csv", "prices refresh --provider lambda -o lambda.csv"
    )
)
@click.option("-o", "--output", type=_FILE, required=True, help="CSV to write, for --price-file.")
@click.option("--provider", "providers", multiple=True, help="Only these; may be repeated.")
@click.option("--as-of", type=_Day(), help="Day of the tables in GPUHUNT_CATALOG_DIR, if known.")
@click.option(
    "--every-region", is_flag=True, help="Every region, not only the cheapest of an instance."
)
def refresh(
    output: Path, providers: Sequence[str], as_of: str | None, *, every_region: bool
) -> None:
    """Fetch today's offers through gpuhunt. Offers whose GPU is not certain are left out.

    GPUHUNT_CATALOG_DIR names a folder to read instead of the network.
    """
    from capplan.facts.price_refresh import refresh_prices
    from capplan.files import write_atomic

    def say(name: str, done: int, total: int) -> None:
        click.echo(f"[{done + 1}/{total}] {name}", err=True)

    found = refresh_prices(
        load_catalog(),
        providers=providers,
        every_region=every_region,
        as_of=as_of,
        on_provider=say,
    )
    write_atomic(output, price_file_text(found.prices))
    for skipped in found.skipped:
        click.echo(
            f"Left out: {skipped.count} x {skipped.reason}, e.g. {skipped.example}", err=True
        )
    click.echo(f"{len(found.prices)} offers of {found.origin} written to {output}", err=True)
    click.echo(f"Use them with: capplan recommend --price-file {output} ...", err=True)
    _warn(found.prices)


def _warn(prices: Sequence[PriceRow]) -> None:
    for warning in ages(prices, datetime.now(UTC).date()).warnings():
        click.echo(f"Mind: {warning}", err=True)
