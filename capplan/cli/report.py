"""``capplan report``: render a plan file."""

from __future__ import annotations

from pathlib import Path

import click

from capplan.cli.output import chosen_format, deliver_plan, output_options
from capplan.reporting.render import Format

_EXAMPLES = """\b
Examples:
  capplan report plan.json
  capplan report plan.json -o report.html
  capplan report plan.json --format csv -o options.csv
  capplan report plan.json --format focus --month 2027-01 -o estimate.csv
"""


@click.command("report", epilog=_EXAMPLES)
@click.argument("plan_file", metavar="PLAN.json", type=click.Path(path_type=Path))
@click.option(
    "--month",
    metavar="YYYY-MM",
    help="Month of --format focus; the one after the plan was made by default.",
)
@output_options
def command(plan_file: Path, fmt: Format | None, output: Path | None, month: str | None) -> int:
    """Render a plan file as HTML, table, CSV, JSON or FOCUS-shaped rows."""
    from capplan.reporting.plan_file import load_plan

    chosen = chosen_format(fmt, output)
    if month is not None and chosen != "focus":
        raise click.UsageError("--month belongs to --format focus.")
    deliver_plan(load_plan(plan_file), chosen, output, month=month)
    return 0
