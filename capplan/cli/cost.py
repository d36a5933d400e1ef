"""``capplan cost``: a price an hour as a month's bill and as dollars a million tokens."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from capplan.cli.cost_text import cost_json, cost_text
from capplan.cli.numbers import THROUGHPUT, USD, USD_AN_HOUR, MonthHours, Share
from capplan.economics.bill import Tariff, monthly_bill, node_hours, spread_usd_per_hour
from capplan.economics.decimals import exact
from capplan.economics.tokens import TokenPrices, token_prices, utilisation_curve

_EXAMPLES = """\b
Examples:
  capplan cost --usd-per-hour 4.50 --hours-per-month 180
  capplan cost --usd-per-hour 55.04 --gpus-per-node 8 --gpus-in-use 1
  capplan cost --usd-per-hour 2.5 --output-tokens-per-s 700 --utilisation 0.1
  capplan cost --usd-per-hour 31.46 --output-tokens-per-s 475 --total-tokens-per-s 9977 \\
      --utilisation 1 --input-share 0.4
  capplan cost --usd-per-hour 8 --gpus-per-node 8 --upfront-usd 100000 --term-months 12
"""


@click.command("cost", epilog=_EXAMPLES)
@click.option("--usd-per-hour", type=USD_AN_HOUR, help="USD an hour of one whole node.")
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option(
    "--gpus-per-node",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="GPUs that the price buys.",
)
@click.option(
    "--gpus-in-use", type=click.IntRange(1), help="Of all nodes; the rest is idle.  [default: all]"
)
@click.option(
    "--hours-per-month",
    type=MonthHours(),
    default=730,
    show_default=True,
    help="Hours served in a month; a reservation pays for all of them.",
)
@click.option("--term-months", type=click.IntRange(1), help="A reservation of so many months.")
@click.option(
    "--upfront-usd",
    type=USD,
    help="Due on its first day for one node, besides --usd-per-hour if any.",
)
@click.option("--output-tokens-per-s", type=THROUGHPUT, help="Of all nodes, when busy.")
@click.option("--input-tokens-per-s", type=THROUGHPUT, help="Prompt tokens of that run.")
@click.option("--total-tokens-per-s", type=THROUGHPUT, help="Or prompt and output.")
@click.option(
    "--utilisation",
    type=Share(above_zero=True),
    help="Share of that throughput used in the hours served; asked for with a throughput.",
)
@click.option(
    "--input-share", type=Share(), help="Split the bill: this share of it for the prompts."
)
@click.option(
    "--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def command(**options: Any) -> None:
    """Turn a price an hour into a month's bill and dollars a million tokens.

    Every price of a token says which tokens share the bill: the output, the prompt or both.
    """
    result = _result(options)
    click.echo(cost_json(result) if options["output"] == "json" else cost_text(result))


def _result(options: dict[str, Any]) -> dict[str, Any]:
    tariff, nodes = _tariff(options), options["nodes"]
    gpus = nodes * tariff.gpus_per_node
    in_use = options["gpus_in_use"] or gpus
    if in_use > gpus:
        raise click.UsageError(f"--gpus-in-use {in_use} is more than the {gpus} GPUs paid for.")
    bill = monthly_bill(in_use, 1, tariff, least_nodes=nodes)
    result: dict[str, Any] = {
        "schema_version": 1,
        "usd_per_node_hour": tariff.usd_per_node_hour,
        "usd_per_gpu_hour": tariff.usd_per_gpu_hour,
        "gpus_per_node": tariff.gpus_per_node,
        "gpus_in_use": in_use,
        "hours_per_month": tariff.serving_hours,
        "paid_hours_per_month": tariff.paid_hours,
        "nodes": nodes,
        "node_hours": node_hours(nodes, tariff.paid_hours),
        "usd_per_month": bill.total_usd,
        "usd_per_month_by_line": {line.item.value: line.usd for line in bill.lines},
        "term_months": tariff.term_months,
        "upfront_usd": bill.upfront_usd,
    }
    usd_per_hour = tariff.usd_per_serving_gpu_hour * gpus
    prices = _token_prices(options, usd_per_hour)
    if prices is not None:
        result |= {"utilisation": options["utilisation"], "tokens": vars(prices)}
        curve = utilisation_curve(usd_per_hour, options["output_tokens_per_s"])
        result["usd_per_million_output_by_utilisation"] = {f"{used:f}": usd for used, usd in curve}
    return result


def _tariff(options: dict[str, Any]) -> Tariff:
    if options["usd_per_hour"] is None and options["upfront_usd"] is None:
        raise click.UsageError("Give --usd-per-hour, or --upfront-usd where all is paid at once.")
    price, term, upfront = exact(options["usd_per_hour"] or 0), options["term_months"], Decimal(0)
    if options["upfront_usd"] is not None:
        if term is None:
            raise click.UsageError("--upfront-usd is spread over a term: add --term-months.")
        price, upfront = spread_usd_per_hour(price, options["upfront_usd"], term)
    return Tariff(
        price,
        options["gpus_per_node"],
        serving_hours=exact(options["hours_per_month"]),
        always_on=term is not None,
        term_months=term,
        upfront_share=upfront,
    )


def _token_prices(options: dict[str, Any], usd_per_hour: Decimal) -> TokenPrices | None:
    output, given, total = (
        options[f"{kind}_tokens_per_s"] for kind in ("output", "input", "total")
    )
    if output is None:
        others = (given, total, options["utilisation"], options["input_share"])
        if any(other is not None for other in others):
            raise click.UsageError("A price of tokens needs --output-tokens-per-s.")
        return None
    if options["utilisation"] is None:
        raise click.UsageError(
            "Say how much of the throughput is used: --utilisation 1 if it is busy in every "
            "hour paid for, 0.1 if a tenth of that is asked for."
        )
    if given is not None and total is not None:
        raise click.UsageError("Give --input-tokens-per-s or --total-tokens-per-s, not both.")
    if total is not None and total < output:
        raise click.UsageError("--total-tokens-per-s is less than --output-tokens-per-s.")
    prompt = exact(total) - exact(output) if total is not None else exact(given or 0)
    return token_prices(
        usd_per_hour,
        output_tokens_per_s=output,
        input_tokens_per_s=prompt,
        utilisation=options["utilisation"],
        input_share=options["input_share"],
    )
