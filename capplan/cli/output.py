"""Where a rendered plan goes: options, format and delivery, the same for every command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from capplan.errors import CapplanError
from capplan.reporting.render import FORMATS, Format

if TYPE_CHECKING:
    from capplan.api.reports import Evidence
    from capplan.schema.answers import PlanAnswers
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
    plan: Plan,
    fmt: Format,
    output: Path | None,
    *,
    month: str | None = None,
    evidence: Evidence | None = None,
) -> None:
    """Write a plan in one of the formats; FOCUS rows as Parquet where the file is called so.

    A page also tells what the bill hangs on, from the ``evidence`` that the plan was made with.
    """
    from capplan.api.plans import render

    if fmt == "html":
        deliver(render(plan, fmt, _answers(plan, evidence)), output, exact=True)
        return
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


def _answers(plan: Plan, evidence: Evidence | None) -> PlanAnswers | None:
    """Return what the bill hangs on; a plan whose facts are gone still has its page."""
    from capplan.api.reports import what_it_hangs_on

    try:
        return what_it_hangs_on(plan, evidence)
    except CapplanError as error:
        click.echo(f"The page does not say what the bill hangs on: {error}", err=True)
        return None


def deliver(text: str, output: Path | None, *, exact: bool = False) -> None:
    """Write to the file, atomically, or to standard output.

    ``exact`` is for a page with scripts, whose hashes it names: on its way out not even a
    character that cannot be seen is spelled out.
    """
    from capplan.cli.terminal import write_exact
    from capplan.files import write_atomic

    if output is None:
        (write_exact if exact else sys.stdout.write)(text)
        return
    write_atomic(output, text)
    click.echo(f"Written to {output}", err=True)
