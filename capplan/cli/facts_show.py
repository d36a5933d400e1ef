"""``capplan facts show``: one id or path, with the derivation of its figures."""

from __future__ import annotations

import shutil
import sys

import click

from capplan.cli.facts_output import show_listing
from capplan.facts import rendering
from capplan.facts.catalog import load_catalog
from capplan.facts.contributed_row import to_row
from capplan.facts.derivation import to_text
from capplan.facts.shown import Shown, show as find

_NARROWEST, _WIDEST = 60, 120
"""Columns between which text is wrapped to the terminal."""

_EXAMPLES = """\b
Examples:
  capplan facts show h200-sxm-141gb   all that models_db knows of a GPU
  capplan facts show qwen3-32b        an LLM with its pairings and acceptance
  capplan facts show ./my-checkpoint  derived from config.json and weight files
  capplan facts show ./my-checkpoint --format json
  capplan facts show ./my-checkpoint --format csv > models_db/models/my-checkpoint.csv
  capplan facts show mistralai/Ministral-8B-Instruct-2410 --online
"""


@click.command(epilog=_EXAMPLES)
@click.argument("name", metavar="DIRECTORY|ID")
@click.option(
    "--online", is_flag=True, help="Ask the hub for ids not on this machine; never for weights."
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="How to print; csv is the LLM's row of models_db.",
)
def show(name: str, online: bool, output: str) -> None:
    """Show all that is known of an LLM, GPU, head, provider or claim.

    A directory with a config.json (or an id in the local Hugging Face cache) is read as it is:
    each figure is printed with the sum or the field that gave it.
    """
    found = find(load_catalog, name, online=online)
    if output == "json":
        click.echo(rendering.to_json(found.content()))
    elif output == "csv":
        _print_row(found, name)
    else:
        _print_table(found)


def _print_row(found: Shown, name: str) -> None:
    if found.llm is None:
        raise click.UsageError(f"--format csv prints an LLM's row of models_db; {name} is no LLM.")
    click.echo(to_row(found.llm))


def _print_table(found: Shown) -> None:
    if found.llm is not None and found.lines:
        click.echo(_title(found.llm.spec.id, found.llm.spec.source.reference))
        click.echo(to_text(found.lines, _width()))
    elif (record := found.words()) is not None:
        click.echo(rendering.to_lines(record))
    for part in found.listings:
        click.echo(f"\n{part.name} ({len(part.rows)})")
        show_listing(part, "table")


def _width() -> int | None:
    """Return the terminal's columns, None where the text goes elsewhere and is not wrapped."""
    if not sys.stdout.isatty():
        return None
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))


def _title(name: str, reference: str) -> str:
    return f"{name}\n({reference})\n"
