"""``capplan schedule``: draft lengths by batch, and whether they pay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from capplan.cli.examples import examples
from capplan.cli.length_options import (
    BatchShares,
    deliver_value,
    plan_options,
    to_file_options,
)

_EXAMPLES = examples(
    "schedule profile.json",
    "schedule profile.json --load 1:0.3,8:0.5,32:0.2 --temperature 0.8",
    "schedule plan.json --option 2 --context 1000 --context 8000",
    "schedule plan.json --profile h100.json --requests-at-once 24 --format json -o schedule.json",
)


@click.command("schedule", epilog=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--load", type=BatchShares(), help="Share of time by requests at once.")
@click.option(
    "--requests-at-once",
    "mean_batch",
    type=click.FloatRange(min=0, min_open=True),
    help="Mean of one replica, spread as Poisson; a plan's own by default.",
)
@plan_options
@click.option("--temperature", type=click.FloatRange(min=0), help="Of the traffic.")
@click.option("--task", help="Of the traffic, as the profile names it.")
@click.option(
    "--context",
    "contexts",
    multiple=True,
    type=click.IntRange(min=1),
    help="Tokens in each cache; planned for the first, listed for all.",
)
@click.option(
    "--max-length",
    "max_num_speculative_tokens",
    type=click.IntRange(1, 16),
    help="Largest N to consider; the plan's, or 8.",
)
@click.option(
    "--captured-tokens",
    "captured",
    type=click.IntRange(min=1),
    help="Tokens of a step that CUDA graphs reach; vLLM's default on a GPU.",
)
@click.option(
    "--merge-loss",
    type=click.FloatRange(0, 0.5),
    default=0.005,
    show_default=True,
    help="Share of the tokens a second that fewer ranges may cost.",
)
@to_file_options
def command(
    file: Path,
    rank: int | None,
    service: str | None,
    profiles: tuple[Path, ...],
    calibrations: tuple[Path, ...],
    fmt: str,
    output: Path | None,
    **wishes: Any,
) -> None:
    """Compute draft lengths by batch for vLLM from a profile or plan FILE.

    vLLM takes (batch range, N) and ships no values. N = 0 is a length like any other. Says by how
    much the schedule beats the best single length over the load, and advises the single length
    where that is not sure.
    """
    from capplan.api.adaptive import schedule
    from capplan.api.schedule_loads import ScheduleWishes
    from capplan.profiles.calibration_file import load_calibration
    from capplan.profiles.store import load_profile
    from capplan.reporting.schedule_text import render_schedule

    if wishes["load"] and wishes["mean_batch"]:
        raise click.UsageError("State the load once: --load or --requests-at-once.")
    found = schedule(
        file,
        ScheduleWishes(**wishes),
        rank=rank,
        service=service,
        profiles=[load_profile(path) for path in profiles],
        calibrations=[load_calibration(path) for path in calibrations],
    )
    deliver_value(found, render_schedule(found), fmt, output)
