"""Printing of facts: shared by the commands under ``capplan facts``."""

from __future__ import annotations

import sys

import click

from capplan.cli.terminal import Shown, console
from capplan.facts import rendering
from capplan.facts.listing import Listing


def show_listing(listing: Listing, output: str) -> None:
    """Print facts of one family as ``table``, ``json`` or ``csv``."""
    if output == "json":
        click.echo(rendering.to_json({listing.name: listing.records}))
    elif output == "csv":
        click.echo(rendering.to_csv(listing))
    elif not listing.rows:
        click.echo(f"No {listing.name} match.")
    elif sys.stdout.isatty():
        console().print(Shown(rendering.to_rich_table(listing)))
    else:
        click.echo(rendering.to_plain_table(listing))
