"""``capplan validate``: predicted against measured, on published measurements."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from capplan.validation.registry import MODES, NAMES

_EXAMPLES = """\b
Examples:
  capplan validate
  capplan validate --mode step --residuals 10
  capplan validate ./my-measurements --format json
"""
_MODES = "\b\nModes:\n" + "\n".join(f"  {name:<18}{mode.summary}" for name, mode in MODES.items())


@click.command("validate", epilog=f"{_MODES}\n\n{_EXAMPLES}")
@click.argument(
    "folder", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option("--mode", "modes", multiple=True, type=click.Choice(NAMES), help="Only this mode.")
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print.",
)
@click.option("--all-quality", is_flag=True, help="Also rows of a quality other than ok.")
@click.option(
    "--residuals",
    type=click.IntRange(min=0),
    default=0,
    metavar="COUNT",
    help="List this many of the worst rows of each mode.",
)
def command(
    folder: Path | None, modes: tuple[str, ...], fmt: str, all_quality: bool, residuals: int
) -> int:
    """Compare estimates with published measurements: error, bias, sign, coverage.

    FOLDER has the format of models_db/published, which is the default. Nothing that a row says of
    its own result enters the prediction of it.
    """
    from capplan.api.validation import validate
    from capplan.validation.text import render_json, render_table

    checked = validate(folder, modes=modes or NAMES, all_quality=all_quality)
    for problem in checked.problems:
        click.echo(f"Warning: {problem}", err=True)
    text = (
        render_json(checked.modes)
        if fmt == "json"
        else render_table(checked.modes, residuals=residuals)
    )
    sys.stdout.write(text)
    return 0
