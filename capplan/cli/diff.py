"""``capplan diff``: what changed between two profiles or two plans."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click

from capplan.cli.examples import examples
from capplan.cli.output import deliver

_EXAMPLES = examples(
    "diff monday.json friday.json",
    "diff monday.json friday.json --plan plan.json --fail-over 5",
    "diff monday.json friday.json --by context --by hour",
    "diff old-plan.json new-plan.json --format markdown --fail-over 10",
)
_FILE = click.Path(path_type=Path, dir_okay=False)
_PERCENT = 100.0
_SUFFIXES = {".json": "json", ".md": "markdown"}


@click.command("diff", epilog=_EXAMPLES)
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@click.option("--plan", type=_FILE, help="Of two profiles: say whether this plan still stands.")
@click.option(
    "--length",
    "lengths",
    type=click.IntRange(1, 16),
    multiple=True,
    help="N to compare acceptance at; repeatable. Default: the plan's, else 1, 3 and 5.",
)
@click.option(
    "--by",
    type=click.Choice(["context", "hour"]),
    multiple=True,
    help="Also show each profile by context, or by hour with its trend.",
)
@click.option(
    "--fail-over",
    "percent",
    type=click.FloatRange(0),
    metavar="PERCENT",
    help="Exit with 1 if the bill rose (plans) or the speedup fell (profiles) by more.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["mid", "certain"]),
    default="mid",
    show_default=True,
    help="mid: the middle is above PERCENT and the change is certain; certain: all of the "
    "interval is above PERCENT.",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["text", "json", "markdown"]),
    help="Default: from the suffix of --output, else text.",
)
@click.option("-o", "--output", type=_FILE, help="Write here instead of to the terminal.")
def command(
    before: Path,
    after: Path,
    plan: Path | None,
    lengths: tuple[int, ...],
    by: tuple[Literal["context", "hour"], ...],
    percent: float | None,
    fail_on: Literal["mid", "certain"],
    fmt: str | None,
    output: Path | None,
) -> None:
    """Say what changed from BEFORE to AFTER: two profiles, or two plans.

    Of profiles: acceptance, step times, speedup, memory, versions, the check of the text. A
    figure is called changed only where its interval leaves out no change; the intervals hold for
    all figures together. Of plans: the bill, cause by cause, to the cent; of plans of several
    services each cause with the services that it is about.
    """
    from capplan.api.comparing import DiffWishes, diff
    from capplan.reporting.diff_text import render_diff

    wishes = DiffWishes(
        lengths=lengths,
        by=by,
        fail_over=None if percent is None else percent / _PERCENT,
        rule=fail_on,
    )
    found = diff(before, after, plan, wishes)
    chosen = fmt or _SUFFIXES.get(output.suffix.lower() if output else "", "text")
    if chosen == "json":
        text = found.model_dump_json(indent=1) + "\n"
    else:
        text = render_diff(found, markdown=chosen == "markdown")
    deliver(text, output)
    if found.gate is not None and found.gate.failed:
        sys.exit(1)
