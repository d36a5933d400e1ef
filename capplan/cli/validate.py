"""``capplan validate``: predicted against measured, on published measurements."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capplan.validation.registry import MODES, NAMES

if TYPE_CHECKING:
    from capplan.validation.scoring import ModeResult

_FIGURES = (".svg", ".html")

_EXAMPLES = """\b
Examples:
  capplan validate
  capplan validate --mode step --residuals 10
  capplan validate ./my-measurements --format json
  capplan validate --figure residuals.html
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
@click.option(
    "--figure",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.svg|.html",
    help="Also draw every row, predicted over measured; a page names each point.",
)
def command(
    folder: Path | None,
    modes: tuple[str, ...],
    fmt: str,
    all_quality: bool,
    residuals: int,
    figure: Path | None,
) -> int:
    """Compare estimates with published measurements: error, bias, sign, coverage.

    FOLDER has the format of models_db/published, which is the default. Nothing that a row says of
    its own result enters the prediction of it.
    """
    from capplan.api.validation import validate
    from capplan.cli.output import deliver
    from capplan.validation.text import render_json, render_table

    if figure is not None and figure.suffix.lower() not in _FIGURES:
        raise click.UsageError(f"--figure {figure}: expected a name that ends in .svg or .html")
    checked = validate(folder, modes=modes or NAMES, all_quality=all_quality)
    for problem in checked.problems:
        click.echo(f"Warning: {problem}", err=True)
    text = (
        render_json(checked.modes)
        if fmt == "json"
        else render_table(checked.modes, residuals=residuals)
    )
    sys.stdout.write(text)
    if figure is not None and checked.modes:
        deliver(_drawn(checked.modes, figure.suffix.lower()), figure)
    return 0


def _drawn(results: Mapping[str, ModeResult], suffix: str) -> str:
    from capplan.reporting.residuals import (
        ResidualPanel,
        ResidualPoint,
        residuals_html,
        residuals_svg,
    )

    panels = [
        ResidualPanel(
            f"{name}: {result.pooled.n} rows, error {result.pooled.mape:.1%}",
            MODES[name].summary,
            [
                ResidualPoint(
                    row.measured,
                    row.predicted,
                    row.low <= row.measured <= row.high,
                    f"{row.source}, {row.label}",
                )
                for row in result.rows
            ],
        )
        for name, result in results.items()
    ]
    return residuals_html(panels) if suffix == ".html" else residuals_svg(panels)
