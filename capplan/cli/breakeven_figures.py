"""``capplan breakeven`` without a plan: the figures of a bill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click

from capplan.cli.numbers import (
    THROUGHPUT,
    TOKENS,
    USD_A_MONTH,
    USD_AN_HOUR,
    MonthHours,
    Ratio,
    Share,
)
from capplan.economics.bill import MONTH_HOURS, rent_usd
from capplan.economics.breakeven import compare_with_api
from capplan.economics.decimals import exact
from capplan.schema.price import ApiComparison, ApiPrice
from capplan.units import SECONDS_PER_HOUR

_OPTIONS = (
    click.option("--usd-per-month", type=USD_A_MONTH, help="Without a plan: the whole GPU bill."),
    click.option("--usd-per-hour", type=USD_AN_HOUR, help="Or USD an hour of one whole node."),
    click.option("--nodes", type=click.IntRange(1), help="How many of it.  [default: 1]"),
    click.option(
        "--hours-per-month", type=MonthHours(), help="Hours paid for in a month.  [default: 730]"
    ),
    click.option(
        "--output-tokens-per-month",
        "--tokens-per-month",
        "output_tokens_per_month",
        type=TOKENS,
        help="Output tokens that are needed: 2e9, 2B, 500M.",
    ),
    click.option(
        "--capacity-tokens-per-month",
        type=TOKENS,
        help="Output tokens that those GPUs can make at most.",
    ),
    click.option(
        "--output-tokens-per-s",
        type=THROUGHPUT,
        help="Or what they make when busy, all nodes together.",
    ),
    click.option(
        "--utilisation",
        type=Share(above_zero=True),
        help="Share of that which is needed, instead of --output-tokens-per-month.",
    ),
    click.option(
        "--prompt-per-output",
        type=Ratio(),
        help="Prompt tokens that come with one output token: 3 or 3:1, 0 for none.",
    ),
)
FIGURES = (
    *("usd_per_month", "usd_per_hour", "nodes", "hours_per_month", "output_tokens_per_month"),
    *("capacity_tokens_per_month", "output_tokens_per_s", "utilisation", "prompt_per_output"),
)
"""Names of what the options give; None where not given."""


def figure_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, in their order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def of_figures(options: Mapping[str, Any]) -> list[ApiComparison]:
    """Compare the bill that the options describe with every API named.

    Raises
    ------
    click.UsageError
        If a figure is missing, given twice or impossible.
    """
    usd, capacity = _bill_usd(options), _capacity(options)
    tokens = _needed(options, capacity)
    if options["prompt_per_output"] is None:
        raise click.UsageError(
            "An API charges for prompts as well: give --prompt-per-output, such as 3:1, or 0."
        )
    if capacity is not None and tokens > capacity:
        raise click.UsageError(
            f"{tokens:,.0f} output tokens a month are more than the {capacity:,.0f} that those "
            "GPUs can make: the bill would have to be of more of them."
        )
    return [
        compare_with_api(
            price,
            gpu_usd_per_month=usd,
            output_tokens_per_month=tokens,
            capacity_output_tokens_per_month=capacity,
            prompt_per_output_token=options["prompt_per_output"],
            cached_input_share=options["cached_share"] or Decimal(0),
        )
        for price in (*_listed(options["apis"]), *options["api_prices"])
    ]


def _hours(options: Mapping[str, Any]) -> Decimal:
    hours = options["hours_per_month"]
    return MONTH_HOURS if hours is None else exact(hours)


def _bill_usd(options: Mapping[str, Any]) -> Decimal:
    month, hour = options["usd_per_month"], options["usd_per_hour"]
    if (month is None) == (hour is None):
        raise click.UsageError("Give --plan FILE, or one of --usd-per-month and --usd-per-hour.")
    if hour is not None:
        return rent_usd(options["nodes"] or 1, hour, _hours(options))
    if options["nodes"] is not None:
        raise click.UsageError("--nodes belongs to --usd-per-hour; --usd-per-month is the whole.")
    return exact(month)


def _capacity(options: Mapping[str, Any]) -> Decimal | None:
    month, second = options["capacity_tokens_per_month"], options["output_tokens_per_s"]
    if month is not None and second is not None:
        raise click.UsageError(
            "Give --capacity-tokens-per-month or --output-tokens-per-s, not both."
        )
    if second is not None:
        return exact(second) * exact(SECONDS_PER_HOUR) * _hours(options)
    return None if month is None else exact(month)


def _needed(options: Mapping[str, Any], capacity: Decimal | None) -> Decimal:
    tokens, used = options["output_tokens_per_month"], options["utilisation"]
    if (tokens is None) == (used is None):
        raise click.UsageError("Give one of --output-tokens-per-month and --utilisation.")
    if tokens is not None:
        return exact(tokens)
    if capacity is None:
        raise click.UsageError(
            "--utilisation is a share of what the GPUs can make: add --output-tokens-per-s."
        )
    return Decimal(used) * capacity


def _listed(names: Sequence[str]) -> list[ApiPrice]:
    from capplan.facts.api_prices import current_api_prices, find_api_prices
    from capplan.facts.catalog import load_catalog

    if not names:
        return []
    table = current_api_prices(load_catalog().api_prices, datetime.now(UTC))
    return [price for name in names for price in find_api_prices(table.prices, name)]
