"""Where a rendered plan goes: options, format and delivery, the same for every command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from capplan.reporting.render import FORMATS, Format


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
        For an HTML page, megabytes long, on a terminal.
    """
    suffix = output.suffix.lower().lstrip(".") if output is not None else ""
    named: Format = next((known for known in FORMATS if known == suffix), "table")
    chosen = fmt if fmt is not None else named
    if chosen == "html" and output is None and sys.stdout.isatty():
        raise click.UsageError("An HTML report needs a file: add -o report.html")
    return chosen


def deliver(text: str, output: Path | None) -> None:
    """Write to the file, atomically, or to standard output."""
    from capplan.files import write_atomic

    if output is None:
        sys.stdout.write(text)
        return
    write_atomic(output, text)
    click.echo(f"Written to {output}", err=True)
