"""``capplan calibrate``: fit an engine's constants on a GPU to profiles taken there."""

from __future__ import annotations

import sys
from pathlib import Path

import click

_EXAMPLES = """\b
Examples:
  capplan calibrate h100-8b.json h100-32b.json -o h100.calibration.json
  capplan recommend --target Qwen/Qwen3-32B --budget 20000 --rate 2 \\
      --calibration h100.calibration.json
"""


@click.command("calibrate", epilog=_EXAMPLES)
@click.argument("profiles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the calibration here, for recommend --calibration.",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print.",
)
def command(profiles: tuple[Path, ...], output: Path | None, fmt: str) -> int:
    """Fit an engine's efficiencies on one GPU to PROFILES taken there.

    Passes left out of the fit must be predicted better than by the shipped constants; otherwise
    nothing is written and the exit code is 1. Profiles of several LLMs of different size tell
    bandwidth from launch times, and show how far the constants carry to another LLM.
    """
    from capplan.api.calibration import calibrate
    from capplan.profiles.calibration_file import save_calibration
    from capplan.profiles.store import load_profile
    from capplan.reporting.calibration_text import render_calibration

    calibration = calibrate([load_profile(path) for path in profiles])
    if output is not None:
        save_calibration(output, calibration)
        click.echo(f"Written to {output}", err=True)
    if fmt == "json":
        sys.stdout.write(calibration.model_dump_json(indent=1) + "\n")
    else:
        sys.stdout.write(render_calibration(calibration))
    return 0
