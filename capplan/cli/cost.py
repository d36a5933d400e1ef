"""``capplan cost``: a price an hour as a month's bill and as dollars a million tokens."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import click

from capplan.cli.numbers import Number, Share
from capplan.economics.bill import Tariff, monthly_bill, node_hours
from capplan.economics.decimals import exact
from capplan.economics.tokens import TokenPrices, token_prices, utilisation_curve
from capplan.reporting import formatting as fmt

_EXAMPLES = """\b
Examples:
  capplan cost --usd-per-hour 4.50 --hours-per-month 180
  capplan cost --usd-per-hour 2.5 --output-tokens-per-s 700 --utilisation 0.1
  capplan cost --usd-per-hour 31.46 --output-tokens-per-s 475 --total-tokens-per-s 9977 \\
      --utilisation 1 --input-share 0.4
"""


@click.command("cost", epilog=_EXAMPLES)
@click.option(
    "--usd-per-hour", type=Number("price"), required=True, help="USD an hour of one node or GPU."
)
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option(
    "--hours-per-month",
    type=Number("number of hours"),
    default=730,
    show_default=True,
    help="Hours paid for in a month.",
)
@click.option("--output-tokens-per-s", type=Number("throughput"), help="Of all nodes, when busy.")
@click.option("--input-tokens-per-s", type=Number("throughput"), help="Prompt tokens of that run.")
@click.option("--total-tokens-per-s", type=Number("throughput"), help="Or prompt and output.")
@click.option(
    "--utilisation",
    type=Share(),
    help="Share of that throughput used in the paid hours; asked for with a throughput.",
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
    text = json.dumps(_numbers(result), indent=2) if options["output"] == "json" else _text(result)
    click.echo(text)


def _result(options: dict[str, Any]) -> dict[str, Any]:
    hours = exact(options["hours_per_month"])
    price = exact(options["usd_per_hour"])
    bill = monthly_bill(options["nodes"], 1, Tariff(price, 1, serving_hours=hours))
    result: dict[str, Any] = {
        "hours_per_month": hours,
        "nodes": options["nodes"],
        "node_hours": node_hours(options["nodes"], hours),
        "usd_per_month": bill.total_usd,
    }
    prices = _token_prices(options, price * options["nodes"])
    if prices is not None:
        result |= {"utilisation": options["utilisation"], "tokens": vars(prices)}
        curve = utilisation_curve(price * options["nodes"], options["output_tokens_per_s"])
        result["usd_per_million_output_by_utilisation"] = {f"{used:f}": usd for used, usd in curve}
    return result


def _token_prices(options: dict[str, Any], usd_per_hour: Decimal) -> TokenPrices | None:
    output, given, total = (
        options[f"{kind}_tokens_per_s"] for kind in ("output", "input", "total")
    )
    if output is None:
        if given or total or options["utilisation"] or options["input_share"]:
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


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbers(inner) for name, inner in value.items()}
    return float(value) if isinstance(value, Decimal) else value


_LABELS = {
    "usd_per_million_output": "a million output tokens (prompts free)",
    "usd_per_million_input": "a million prompt tokens (answers free)",
    "usd_per_million_total": "a million tokens, prompt and output",
    "split_usd_per_million_input": "a million prompt tokens, at their share of the bill",
    "split_usd_per_million_output": "a million output tokens, at the rest of the bill",
}


def _text(result: dict[str, Any]) -> str:
    nodes, hours = result["nodes"], f"{float(result['hours_per_month']):,.10g}"
    lines = [
        f"{fmt.cents(result['usd_per_month'])} USD a month: {nodes} x {hours} hours "
        f"= {float(result['node_hours']):,.10g}"
    ]
    if "tokens" not in result:
        return lines[0]
    prompts = result["tokens"]["usd_per_million_input"] is not None
    lines.append(
        f"At {fmt.percent(float(result['utilisation']))} utilisation, the whole bill over"
    )
    lines += [
        f"  {fmt.number(float(usd), 4):>10} USD  {_LABELS[name]}"
        for name, usd in result["tokens"].items()
        if usd is not None and (prompts or name == "usd_per_million_output")
    ]
    if prompts:
        lines.append("Each carries the whole bill: never add them up, but for the split pair.")
    lines.append("USD a million output tokens by utilisation:")
    lines += [
        f"  {fmt.percent(float(used)):>6}  {fmt.number(float(usd), 4):>10}"
        for used, usd in result["usd_per_million_output_by_utilisation"].items()
    ]
    return "\n".join(lines)
