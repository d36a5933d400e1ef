"""Options that say how capacity is paid for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from capplan.cli.numbers import MonthHours, Number, Share, Usd

Command = Callable[..., Any]

_OPTIONS = (
    click.option(
        "--price-file",
        "price_files",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        help="CSV or JSON with your prices, beside the shipped ones: gpu,usd_per_gpu_hour ...",
    ),
    click.option(
        "--price-file-only", is_flag=True, help="Use no other price than those of --price-file."
    ),
    click.option(
        "--discount",
        type=Share(below_one=True),
        default="0",
        show_default=True,
        help="Your discount on prices on demand of tier list, price files included: 0.3 or 30%.",
    ),
    click.option(
        "--hours-per-month",
        type=MonthHours(),
        default=730,
        show_default=True,
        help="Hours of a month that are paid for and served; reservations pay for all.",
    ),
    click.option(
        "--share-node",
        is_flag=True,
        help="Others pay for the rest of a node: bill only the GPUs in use.",
    ),
    click.option(
        "--electricity-usd-per-kwh",
        type=Usd("price of electricity", per=("/kwh",)),
        help="Add electricity to prices stated with --gpu-price (hardware you own).",
    ),
    click.option(
        "--pue",
        type=Number("power usage effectiveness"),
        help="Energy of the site over that of its computers, for the electricity.  [default: 1]",
    ),
    click.option(
        "--gpu-watts",
        type=Number("power"),
        help="Mean power of a GPU in service.  [default: its rated power]",
    ),
    click.option(
        "--compare-api",
        "--api",
        "compare_api",
        multiple=True,
        help="Compare the bill with a hosted LLM: MODEL or PROVIDER:MODEL.",
    ),
    click.option(
        "--cached-share",
        type=Share(),
        default="0",
        show_default=True,
        help="Share of the prompts that the API charges as cached input.",
    ),
)


def money_options(command: Command) -> Command:
    """Add the options, in their order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
