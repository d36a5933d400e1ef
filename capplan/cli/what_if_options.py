"""What ``capplan what-if`` takes: factors, growth, and options that belong together."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from capplan.cli.numbers import USD_AN_HOUR, Share

if TYPE_CHECKING:
    from capplan.api.answers import Questions

_PERCENT = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*(%?)")
_FILE = click.Path(path_type=Path, dir_okay=False)


class Factors(click.ParamType[tuple[str, tuple[float, ...]]]):
    """``load=0.5,1,2``."""

    name = "NAME=F,F,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[float, ...]]:
        """Split a name from its factors."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        try:
            factors = tuple(float(part) for part in text.split(","))
        except ValueError:
            factors = ()
        if not equals or not factors:
            self.fail(f"{value!r} is not NAME=F,F,..., as in load=0.5,1,2", param, ctx)
        return name.strip(), factors


class Percent(click.ParamType[float]):
    """Per cent as a fraction: ``8%`` and ``8`` are 0.08."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse; the sign may be left out."""
        if isinstance(value, float):
            return value
        match = _PERCENT.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a number of per cent, such as 8 or 8%", param, ctx)
        return float(match[1]) / 100


_OPTIONS = (
    click.option("--by", type=Percent(), help="Move each assumption by so much; 20% by default."),
    click.option(
        "--set",
        "factors",
        multiple=True,
        type=Factors(),
        help="Factors on acceptance, price, load, prompt, output, lengths or overhead; "
        "repeatable: all combinations.",
    ),
    click.option("--growth", type=Percent(), help="Of the load a month: 8%."),
    click.option(
        "--months", type=click.IntRange(1, 120), default=24, show_default=True, help="To list."
    ),
    click.option(
        "--autoscale", is_flag=True, help="Replicas by the hours of the workload's shape."
    ),
    click.option(
        "--scale-up-lag-minutes",
        type=click.FloatRange(0, 1440),
        help="From the start of a replica until it serves.",
    ),
    click.option("--spares", type=click.IntRange(1, 100), help="Spare replicas, N+1 and on."),
    click.option("--spot-share", type=Share(above_zero=True), help="Of the load on spot GPUs."),
    click.option(
        "--spot-price",
        type=USD_AN_HOUR,
        help="USD a GPU-hour; default: the provider's, if known.",
    ),
    click.option(
        "--interruption-overhead",
        type=Share(),
        help="Spot capacity needed on top for restarts; yours to know.",
    ),
    click.option("--commit-share", type=Share(above_zero=True), help="Of the nodes, committed."),
    click.option(
        "--commit-price",
        type=USD_AN_HOUR,
        help="USD a GPU-hour; default: the provider's lowest, if known.",
    ),
    click.option(
        "--option", "rank", type=click.IntRange(1), default=1, show_default=True, help="Of PLAN."
    ),
    click.option("--service", help="Of several services: of this one's replicas alone."),
    click.option("--profile", "profiles", multiple=True, type=_FILE, help="PLAN was made with."),
    click.option(
        "--calibration", "calibrations", multiple=True, type=_FILE, help="PLAN was made with."
    ),
    click.option(
        "--price-file", "price_files", multiple=True, type=_FILE, help="PLAN was made with."
    ),
    click.option(
        "--price-file-only", "price_file_only", is_flag=True, help="No other price is used."
    ),
)


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what may be asked, and what the plan was made with."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def questions_of(options: dict[str, Any]) -> Questions:
    """Return what is asked.

    Raises
    ------
    click.UsageError
        If an option lacks the one it belongs to, or a factor is named twice.
    """
    from capplan.api.answers import Commitment, Questions, Spot

    _check(options)
    share, committed = options["spot_share"], options["commit_share"]
    return Questions(
        move_by=options["by"],
        factors=dict(options["factors"]) or None,
        growth_per_month=options["growth"],
        months=options["months"],
        autoscale=options["autoscale"],
        scale_up_lag_minutes=options["scale_up_lag_minutes"] or 0.0,
        spares=options["spares"],
        spot=share
        and Spot(
            float(share),
            float(options["interruption_overhead"]),
            _exact(options["spot_price"]),
        ),
        commitment=committed and Commitment(float(committed), _exact(options["commit_price"])),
    )


def _exact(usd: float | None) -> Decimal | None:
    return None if usd is None else Decimal(repr(usd))


_BELONGS = (
    ("scale_up_lag_minutes", "autoscale"),
    ("spot_price", "spot_share"),
    ("interruption_overhead", "spot_share"),
    ("commit_price", "commit_share"),
)


def _check(options: dict[str, Any]) -> None:
    for name, owner in _BELONGS:
        if options[name] is not None and not options[owner]:
            flag, missing = (f"--{one.replace('_', '-')}" for one in (name, owner))
            raise click.UsageError(f"{flag} belongs to {missing}, which is missing.")
    if options["spot_share"] and options["interruption_overhead"] is None:
        raise click.UsageError(
            "--spot-share needs --interruption-overhead: the spot capacity that restarts take, "
            "0 to 1. No list price says it; 0 if you know of none."
        )
    names = [name for name, _ in options["factors"]]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.UsageError(f"--set {twice} stands there twice; write all its factors in one.")
