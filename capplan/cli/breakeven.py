"""``capplan breakeven``: GPUs by the hour against an API by the token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from capplan.cli.numbers import ApiPriceText, Number, Share
from capplan.schema.price import ApiComparison, ApiPrice

_EXAMPLES = """\b
Examples:
  capplan breakeven --plan plan.json
  capplan breakeven --plan plan.json --api groq:qwen/qwen3-32b --cached-share 0.5
  capplan breakeven --plan plan.json --api-price in=0.10,out=0.40,cached=0.02
  capplan breakeven --usd-per-month 3285 --output-tokens-per-month 2e9 \\
      --prompt-per-output 4 --api-price in=0.10,out=0.40
"""


@click.command("breakeven", epilog=_EXAMPLES)
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False), help="A plan file."
)
@click.option(
    "--option", "rank", type=click.IntRange(1), default=1, show_default=True, help="Of the plan."
)
@click.option("--usd-per-month", type=Number("bill"), help="Without a plan: the whole GPU bill.")
@click.option("--output-tokens-per-month", type=Number("token count"), help="And its tokens.")
@click.option(
    "--prompt-per-output",
    type=Number("ratio"),
    help="Prompt tokens that come with one output token.",
)
@click.option(
    "--capacity-tokens-per-month",
    type=Number("token count"),
    help="Output tokens that those GPUs can make at most.",
)
@click.option("--api", "apis", multiple=True, help="Hosted LLM: MODEL or PROVIDER:MODEL.")
@click.option(
    "--api-price",
    "api_prices",
    multiple=True,
    type=ApiPriceText(),
    help="A price of your own: in=USD,out=USD[,cached=USD] per million tokens.",
)
@click.option("--cached-share", type=Share(), help="Share of the prompts charged as cached input.")
@click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def command(**options: Any) -> None:
    """Compare a month's GPU bill with what an API charges for the same tokens.

    The GPU bill is for every hour paid for, busy or not, and does not depend on the tokens; the
    API bill does. Cached prompts lower the API's bill only. Without --api and --api-price the
    hosted LLMs that bear the target's name are taken.
    """
    found = _of_plan(options) if options["plan_file"] is not None else _of_figures(options)
    if not found:
        raise click.UsageError(
            "No API is known that serves an LLM of this name: name one with --api, or state "
            "--api-price in=USD,out=USD."
        )
    if options["output"] == "json":
        comparisons = [comparison.model_dump(mode="json") for comparison in found]
        click.echo(json.dumps({"schema_version": 1, "comparisons": comparisons}, indent=2))
        return
    click.echo(_text(found))


def _of_plan(options: dict[str, Any]) -> Sequence[ApiComparison]:
    from capplan import api
    from capplan.planning.api_comparison import compare_option

    given = ("usd_per_month", "output_tokens_per_month", "prompt_per_output")
    if any(options[name] is not None for name in (*given, "capacity_tokens_per_month")):
        raise click.UsageError("Give either --plan or the figures of a bill, not both.")
    plan = api.load_plan(options["plan_file"])
    names, prices, share = options["apis"], options["api_prices"], options["cached_share"]
    found: list[ApiComparison] = []
    if names or not prices:
        rank = options["rank"]
        found.extend(api.compare_with_apis(plan, names, rank=rank, cached_input_share=share))
    if prices:
        option = api.ranked_option(plan, options["rank"])
        found.extend(compare_option(option, plan.request, prices, share))
    return found


def _of_figures(options: dict[str, Any]) -> Sequence[ApiComparison]:
    from capplan.economics.breakeven import compare_with_api

    usd, tokens = options["usd_per_month"], options["output_tokens_per_month"]
    if usd is None or tokens is None:
        raise click.UsageError(
            "Give --plan FILE, or --usd-per-month with --output-tokens-per-month."
        )
    return [
        compare_with_api(
            price,
            gpu_usd_per_month=usd,
            output_tokens_per_month=tokens,
            capacity_output_tokens_per_month=options["capacity_tokens_per_month"],
            prompt_per_output_token=options["prompt_per_output"] or 0,
            cached_input_share=options["cached_share"] or Decimal(0),
        )
        for price in (*_listed(options["apis"]), *options["api_prices"])
    ]


def _listed(names: Sequence[str]) -> list[ApiPrice]:
    from capplan.facts.api_prices import current_api_prices, find_api_prices
    from capplan.facts.catalog import load_catalog

    if not names:
        return []
    table = current_api_prices(load_catalog().api_prices, datetime.now(UTC))
    return [price for name in names for price in find_api_prices(table.prices, name)]


def _text(found: Sequence[ApiComparison]) -> str:
    from capplan.reporting.api_view import CAVEAT, build_api_view

    first = found[0]
    output, prompt = first.output_tokens_per_month, first.prompt_tokens_per_month
    lines = [
        f"A month: {float(output) / 1e6:,.1f} M output and {float(prompt) / 1e6:,.1f} M prompt "
        "tokens. GPUs: every hour paid for, busy or not."
    ]
    for comparison in found:
        view = build_api_view(comparison)
        lines += [
            "",
            f"{view.api} ({view.price} USD a million) [{view.source}]",
            f"  {view.inequality}: {view.outcome}",
            f"  a million output tokens with their prompts: GPUs {view.gpu_usd_per_million}, "
            f"API {view.api_usd_per_million} USD",
            f"  equal at {view.crossing}",
        ]
    return "\n".join([*lines, "", CAVEAT])
