"""Options that ``schedule``, ``simulate`` and ``load`` share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from capplan.cli.output import deliver

_PAIR = re.compile(r"\s*(\d+)\s*:\s*([0-9.]+)\s*(%?)\s*")


class BatchShares(click.ParamType[dict[int, float]]):
    """Shares of time by requests at once: ``1:0.3,8:0.5,32:0.2``."""

    name = "BATCH:SHARE,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[int, float]:
        """Parse pairs; the shares are put in proportion, so they need not sum to 1."""
        if isinstance(value, dict):
            return value
        shares: dict[int, float] = {}
        for part in str(value).split(","):
            match = _PAIR.fullmatch(part)
            if match is None:
                self.fail(f"{part.strip()!r} is not BATCH:SHARE, as in 1:0.3,8:0.5", param, ctx)
            batch, share = int(match[1]), _number(match[2])
            if batch < 1 or share is None or share <= 0:
                self.fail(f"{part.strip()!r}: expected a batch and a share above 0", param, ctx)
            if batch in shares:
                self.fail(f"{batch} requests at once stand there twice", param, ctx)
            shares[batch] = share
        return shares


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def plan_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--option``, ``--service``, and ``--profile`` and ``--calibration`` of a plan."""
    path = click.Path(path_type=Path)
    made_with = "That a plan was made with."
    for option in (
        click.option("--calibration", "calibrations", multiple=True, type=path, help=made_with),
        click.option("--profile", "profiles", multiple=True, type=path, help=made_with),
        click.option("--service", help="Of a plan of several services: this one's replicas."),
        click.option(
            "--option", "rank", type=click.IntRange(min=1), help="Option of a plan, by rank."
        ),
    ):
        command = option(command)
    return command


def to_file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format table|json`` and ``--output``."""
    to_file = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write here instead of to the terminal.",
    )
    as_format = click.option(
        "--format",
        "fmt",
        type=click.Choice(["table", "json"]),
        help="Default: json for a file that ends so, else table.",
    )
    return as_format(to_file(command))


def deliver_value(value: BaseModel, text: str, fmt: str | None, output: Path | None) -> None:
    """Write a value as text or as JSON, to a file or the terminal."""
    ends_in_json = output is not None and output.suffix.lower() == ".json"
    as_json = fmt == "json" if fmt is not None else ends_in_json
    deliver(value.model_dump_json(indent=1) + "\n" if as_json else text, output)
