"""``capplan prompts``: sets of prompts side by side, and what they are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from capplan.cli.examples import examples
from capplan.cli.length_options import deliver_value, to_file_options

_EXAMPLES = examples(
    "prompts profile.json",
    "prompts profile.json --plan plan.json",
    "prompts profile.json --length 5 --temperature 0.8 --by context",
    "prompts profile.json --plan plan.json --format json -o prompts-compared.json",
)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("prompts", epilog=_EXAMPLES)
@click.argument("profile", type=_FILE)
@click.option("--plan", type=_FILE, help="Plan whose first option is evaluated for each set.")
@click.option("--length", type=click.IntRange(1, 16), help="N. Default: the plan's, else 3.")
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    help="The nearest that was traced. Default: the plan's, else the coldest.",
)
@click.option(
    "--by",
    type=click.Choice(["context", "hour"]),
    multiple=True,
    help="Also show all prompts together by context, or by hour with its trend.",
)
@to_file_options
def command(
    profile: Path,
    plan: Path | None,
    length: int | None,
    temperature: float | None,
    by: tuple[Literal["context", "hour"], ...],
    fmt: str | None,
    output: Path | None,
) -> None:
    """Compare the prompts that PROFILE was taken with: files, categories or tasks.

    Tokens a round of each, the differences with intervals that hold for all pairs together, and
    with --plan what each is worth in dollars a month on the plan's recommended option, at the
    same load.
    """
    from capplan.api.prompt_worth import PromptWishes, compare_prompts
    from capplan.reporting.prompts_text import render_prompts

    wishes = PromptWishes(temperature, length, by)
    found = compare_prompts(profile, plan, wishes)
    deliver_value(found, render_prompts(found), fmt, output)
