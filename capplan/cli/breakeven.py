"""``capplan breakeven``: GPUs by the hour against an API by the token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from capplan.cli.breakeven_figures import FIGURES, figure_options, of_figures
from capplan.cli.numbers import ApiPriceText, Share
from capplan.schema.price import ApiComparison

_EXAMPLES = """\b
Examples:
  capplan breakeven --plan plan.json
  capplan breakeven --plan plan.json --compare-api groq:qwen/qwen3-32b --cached-share 0.5
  capplan breakeven --plan plan.json --api-price in=0.10,out=0.40,cached=0.02
  capplan breakeven --usd-per-month 3285 --output-tokens-per-month 2e9 \\
      --prompt-per-output 4:1 --api-price in=0.10,out=0.40
  capplan breakeven --usd-per-hour 2.69 --output-tokens-per-s 3653 --utilisation 0.3 \\
      --prompt-per-output 3:1 --api-price in=0.10,out=0.40
"""


@click.command("breakeven", epilog=_EXAMPLES)
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path, dir_okay=False), help="A plan file."
)
@click.option(
    "--option", "rank", type=click.IntRange(1), default=1, show_default=True, help="Of the plan."
)
@click.option("--service", help="Of a plan of several services: the replicas that serve this one.")
@figure_options
@click.option(
    "--compare-api", "--api", "apis", multiple=True, help="Hosted LLM: MODEL or PROVIDER:MODEL."
)
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
    API bill does. Cached prompts lower the API's bill only. Without --compare-api and --api-price
    the hosted LLMs that bear the target's name are taken.
    """
    found = _of_plan(options) if options["plan_file"] is not None else of_figures(options)
    if not found:
        raise click.UsageError(
            "No API is known that serves an LLM of this name: name one with --compare-api, or "
            "state "
            "--api-price in=USD,out=USD."
        )
    if options["output"] == "json":
        comparisons = [comparison.model_dump(mode="json") for comparison in found]
        click.echo(json.dumps({"schema_version": 1, "comparisons": comparisons}, indent=2))
        return
    click.echo(_text(found))


def _of_plan(options: dict[str, Any]) -> Sequence[ApiComparison]:
    from capplan.api.plans import compare_with_apis
    from capplan.planning.api_comparison import compare_option
    from capplan.planning.part_plans import the_part
    from capplan.reporting.plan_file import load_plan

    if any(options[name] is not None for name in FIGURES):
        raise click.UsageError("Give either --plan or the figures of a bill, not both.")
    plan = load_plan(options["plan_file"])
    names, prices, share = options["apis"], options["api_prices"], options["cached_share"]
    part = the_part(plan, options["service"], options["rank"])
    found: list[ApiComparison] = []
    if names or not prices:
        found.extend(compare_with_apis(part.plan, names, cached_input_share=share))
    if prices:
        found.extend(compare_option(part.option, part.plan.request, prices, share))
    return found


def _text(found: Sequence[ApiComparison]) -> str:
    from capplan.reporting import formatting as fmt
    from capplan.reporting.api_view import CAVEAT, build_api_view

    first = found[0]
    output, prompt = first.output_tokens_per_month, first.prompt_tokens_per_month
    lines = [
        f"A month: {fmt.number(float(output) / 1e6, 4)} M output and "
        f"{fmt.number(float(prompt) / 1e6, 4)} M prompt tokens. GPUs: every hour paid for, busy "
        "or not."
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
