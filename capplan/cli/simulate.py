"""``capplan simulate``: length controllers replayed on traces."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from capplan.cli.examples import examples
from capplan.cli.length_options import BatchShares, deliver_value, to_file_options

_EXAMPLES = examples(
    "simulate profile.json",
    "simulate profile.json --load 1:0.5,16:0.5 --order by-task",
    "simulate profile.json --controller guide --target-rate 0.6 --interval 50",
    "simulate a.json b.json --temperature 0 --format json -o controllers.json",
)
_NAMES = ("fixed", "guide", "schedule", "confidence", "clairvoyant")


@click.command("simulate", epilog=_EXAMPLES)
@click.argument("profiles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--controller",
    "controllers",
    multiple=True,
    type=click.Choice(_NAMES),
    help="May be repeated; all by default.",
)
@click.option("--load", type=BatchShares(), help="Share of time by requests at once.")
@click.option(
    "--temperature",
    "temperatures",
    multiple=True,
    type=click.FloatRange(min=0),
    help="Traced temperatures to keep; all by default.",
)
@click.option(
    "--order",
    type=click.Choice(["mixed", "by-task", "hotter"]),
    default="mixed",
    show_default=True,
    help="In which order requests come.",
)
@click.option(
    "--stream",
    type=click.IntRange(100, 100_000),
    default=2000,
    show_default=True,
    help="Requests served in a replay.",
)
@click.option(
    "--draft-sampling",
    type=click.Choice(["greedy", "probabilistic"]),
    default="greedy",
    show_default=True,
    help="How a draft model proposes.",
)
@click.option("--initial", type=click.IntRange(1, 16), default=5, help="Guide's controller: 5.")
@click.option("--least", type=click.IntRange(1, 16), default=2, help="Guide's controller: 2.")
@click.option("--most", type=click.IntRange(1, 16), default=10, help="Guide's controller: 10.")
@click.option(
    "--target-rate", type=click.FloatRange(0, 1), default=0.75, help="Guide's controller: 0.75."
)
@click.option(
    "--interval", type=click.IntRange(min=1), default=100, help="Guide's controller: 100."
)
@click.option("--seed", type=int, default=0, help="Of orders and resamples.")
@to_file_options
def command(
    profiles: tuple[Path, ...],
    controllers: tuple[str, ...],
    load: dict[int, float] | None,
    temperatures: tuple[float, ...],
    order: Literal["mixed", "by-task", "hotter"],
    stream: int,
    draft_sampling: str,
    initial: int,
    least: int,
    most: int,
    target_rate: float,
    interval: int,
    seed: int,
    fmt: str | None,
    output: Path | None,
) -> None:
    """Replay ways to choose the draft length on the traces of PROFILES of one pairing.

    A fixed N, the guide's controller (more drafts where many were accepted), a schedule by batch,
    stopping when the draft is unsure, and the bound of knowing what will be accepted. Gains are
    over the best fixed N, with an interval over the requests.
    """
    if not least <= initial <= most:
        raise click.UsageError(f"--least {least} <= --initial {initial} <= --most {most}: not so.")
    from capplan.api.replayed_controllers import SimulationWishes
    from capplan.api.simulation import simulate
    from capplan.estimate.controllers import FeedbackRule
    from capplan.reporting.simulation_text import render_simulation
    from capplan.schema.cells import DraftSampling

    wishes = SimulationWishes(
        controllers=controllers or _NAMES,
        load=load,
        temperatures=temperatures,
        order=order,
        stream=stream,
        rule=FeedbackRule(initial, least, most, target_rate, interval),
        draft_sampling=DraftSampling(draft_sampling),
        seed=seed,
    )
    found = simulate(list(profiles), wishes)
    deliver_value(found, render_simulation(found), fmt, output)
