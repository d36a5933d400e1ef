"""Where a rendered plan goes: options, format and delivery, the same for every command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from capplan.reporting.render import FORMATS, Format

if TYPE_CHECKING:
    from capplan.schema.plan import Plan

_TABLE_SUFFIXES = ("", "txt", "log", "out")
"""Files of plain text; names without a suffix too, as /dev/stdout."""


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format`` and ``--output``."""
    to_file = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write here instead of to the terminal.",
    )
    as_format = click.option(
        "--format",
        "fmt",
        type=click.Choice(FORMATS),
        help="Default: from the suffix of --output, else table.",
    )
    return as_format(to_file(command))


def chosen_format(fmt: Format | None, output: Path | None) -> Format:
    """Return the format asked for, else the one that the file's suffix names, else a table.

    Raises
    ------
    click.UsageError
        For an HTML page, megabytes long, on a terminal; for a suffix that promises another format.
    """
    chosen = fmt if fmt is not None else _format_named_by(output)
    if chosen == "html" and output is None and sys.stdout.isatty():
        raise click.UsageError("An HTML report needs a file: add -o report.html")
    return chosen


def _format_named_by(output: Path | None) -> Format:
    suffix = output.suffix.lower().lstrip(".") if output is not None else ""
    if suffix in _TABLE_SUFFIXES:
        return "table"
    named = next((known for known in FORMATS if known == suffix), None)
    if named is None:
        raise click.UsageError(
            f"-o {output}: no format is called {suffix!r}; end it in .html, .json, .csv or .txt, "
            "or add --format."
        )
    return named


def deliver_plan(
    plan: Plan, fmt: Format, output: Path | None, *, month: str | None = None
) -> None:
    """Write a plan in one of the formats; FOCUS rows as Parquet where the file is called so."""
    from capplan.api.plans import render

    if fmt != "focus":
        deliver(render(plan, fmt), output)
        return
    from capplan.economics.focus import focus_rows
    from capplan.reporting.focus_file import focus_csv, write_focus

    rows = focus_rows(plan, month)
    if output is None:
        deliver(focus_csv(rows), None)
        return
    write_focus(output, rows)
    click.echo(f"Written to {output}: an estimate in FOCUS columns, nothing is billed", err=True)


def deliver(text: str, output: Path | None) -> None:
    """Write to the file, atomically, or to standard output."""
    from capplan.files import write_atomic

    if output is None:
        sys.stdout.write(text)
        return
    write_atomic(output, text)
    click.echo(f"Written to {output}", err=True)
