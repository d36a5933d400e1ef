"""``capplan report``: render a plan file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

_EXAMPLES = """\b
Examples:
  capplan report plan.json
  capplan report plan.json -o report.html
  capplan report plan.json --format csv -o options.csv
"""
_FORMATS = ("table", "html", "csv", "json")


@click.command("report", epilog=_EXAMPLES)
@click.argument("plan_file", metavar="PLAN.json", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "fmt",
    type=click.Choice(_FORMATS),
    help="Default: from the suffix of --output, else table.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write here instead of to the terminal.",
)
def command(plan_file: Path, fmt: str | None, output: Path | None) -> int:
    """Render a plan file as HTML, table, CSV or JSON."""
    from capplan import api
    from capplan.files import write_atomic

    chosen = fmt or _format_of(output)
    if chosen == "html" and output is None and sys.stdout.isatty():
        raise click.UsageError("An HTML report needs a file: add -o report.html")
    text = api.render(api.load_plan(plan_file), chosen)
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomic(output, text)
        click.echo(f"Written to {output}", err=True)
    return 0


def _format_of(output: Path | None) -> str:
    suffix = output.suffix.lower().lstrip(".") if output is not None else ""
    return suffix if suffix in _FORMATS else "table"
