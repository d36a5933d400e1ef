"""``capplan report``: render a plan file."""

from __future__ import annotations

from pathlib import Path

import click

from capplan.cli.output import chosen_format, deliver, output_options
from capplan.reporting.render import Format

_EXAMPLES = """\b
Examples:
  capplan report plan.json
  capplan report plan.json -o report.html
  capplan report plan.json --format csv -o options.csv
"""


@click.command("report", epilog=_EXAMPLES)
@click.argument("plan_file", metavar="PLAN.json", type=click.Path(path_type=Path))
@output_options
def command(plan_file: Path, fmt: Format | None, output: Path | None) -> int:
    """Render a plan file as HTML, table, CSV or JSON."""
    from capplan.api.plans import render
    from capplan.reporting.plan_file import load_plan

    chosen = chosen_format(fmt, output)
    deliver(render(load_plan(plan_file), chosen), output)
    return 0
