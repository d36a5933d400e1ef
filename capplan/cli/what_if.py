"""``capplan what-if``: a plan in other circumstances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from capplan.cli.examples import examples
from capplan.cli.output import deliver
from capplan.cli.what_if_options import question_options, questions_of

_EXAMPLES = examples(
    "what-if plan.json",
    "what-if plan.json --by 30%",
    "what-if plan.json --set load=0.5,1,2 --set price=0.8,1 --format csv -o grid.csv",
    "what-if plan.json --growth 8% --months 24",
    "what-if plan.json --autoscale --scale-up-lag-minutes 10",
    "what-if plan.json --spares 2",
    "what-if plan.json --spot-share 0.5 --spot-price 1.25 --interruption-overhead 0.05",
    "what-if plan.json --commit-share 0.7 --commit-price 1.90",
    "what-if plan.json --service chat",
)
_SUFFIXES = {".json": "json", ".csv": "csv"}


@click.command("what-if", epilog=_EXAMPLES)
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path, dir_okay=False))
@question_options
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["table", "json", "csv"]),
    help="Default: from the suffix of --output, else table. CSV holds one question.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write here instead of to the terminal.",
)
def command(plan_file: Path, fmt: str | None, output: Path | None, **options: Any) -> None:
    """Ask what PLAN becomes in other circumstances.

    Without a question: what its bill hangs on, each assumption moved alone. Several questions may
    be asked at once. Of services on replicas of their own every answer is of the whole fleet: what
    is asked applies to each of them, and dollars add up.
    """
    from capplan.api.answers import answer_what_if
    from capplan.cli.recommend_prices import chosen_catalog
    from capplan.profiles.calibration_file import load_calibration
    from capplan.profiles.store import load_profile
    from capplan.reporting.plan_file import load_plan
    from capplan.reporting.what_if_csv import render_answers_csv
    from capplan.reporting.what_if_text import render_answers

    questions = questions_of(options)
    found = answer_what_if(
        load_plan(plan_file),
        questions,
        rank=options["rank"],
        profiles=[load_profile(path) for path in options["profiles"]],
        catalog=chosen_catalog(options["price_files"], only=options["price_file_only"]),
        calibrations=[load_calibration(path) for path in options["calibrations"]],
        name=str(plan_file),
        service=options["service"],
    )
    suffix = output.suffix.lower() if output is not None else ""
    fmt = fmt or _SUFFIXES.get(suffix, "table")
    if fmt == "json":
        text = found.model_dump_json(indent=1) + "\n"
    elif fmt == "csv":
        text = render_answers_csv(found)
    else:
        text = render_answers(found)
    deliver(text, output)
