"""What ``capplan cost`` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from capplan.reporting import formatting as fmt

_CENT, _TINY = Decimal("0.01"), Decimal("0.000001")
_LABELS = {
    "usd_per_million_output": "a million output tokens (prompts free)",
    "usd_per_million_input": "a million prompt tokens (answers free)",
    "usd_per_million_total": "a million tokens, prompt and output",
    "split_usd_per_million_input": "a million prompt tokens, at their share of the bill",
    "split_usd_per_million_output": "a million output tokens, at the rest of the bill",
}


def cost_text(result: Mapping[str, Any]) -> str:
    """Return the bill, then the price of a token by every denominator and by utilisation."""
    return "\n".join([*_bill(result), *(_tokens(result) if "tokens" in result else ())])


def cost_json(result: Mapping[str, Any]) -> str:
    """Return the same as JSON; amounts are plain numbers."""
    return json.dumps(result, indent=2, default=float)


def _bill(result: Mapping[str, Any]) -> list[str]:
    nodes, gpus = result["nodes"], result["gpus_per_node"]
    hours = f"{_plain(result['paid_hours_per_month'])} h"
    noun = "node" if nodes == 1 else "nodes"
    price = f"{_price(result['usd_per_node_hour'])} USD/h"
    lines = [f"{_usd(result['usd_per_month'])} USD a month: {nodes:,} {noun} x {hours} x {price}"]
    if gpus > 1:
        lines.append(f"  {gpus} GPUs a node: {_price(result['usd_per_gpu_hour'])} USD a GPU-hour")
    idle = nodes * gpus - result["gpus_in_use"]
    if idle:
        usd = _usd(result["usd_per_month_by_line"]["idle_gpus"])
        lines.append(
            f"  {usd} USD of it a month for GPUs that stand idle ({idle} of {nodes * gpus})"
        )
    if result["term_months"] is not None:
        lines.append(f"  {_commitment(result)}")
    return lines


def _commitment(result: Mapping[str, Any]) -> str:
    text = f"reserved for {result['term_months']} months, every hour of them paid for"
    if result["hours_per_month"] != result["paid_hours_per_month"]:
        text += f" ({_plain(result['hours_per_month'])} h a month served)"
    if result["upfront_usd"]:
        text += f"; {_usd(result['upfront_usd'])} USD due on the first day, in the hourly price"
    return text


def _tokens(result: Mapping[str, Any]) -> list[str]:
    tokens = result["tokens"]
    prompts = tokens["usd_per_million_input"] is not None
    used = fmt.fine_percent(float(result["utilisation"]))
    lines = [f"At {used} utilisation, the whole bill over"]
    lines += [
        f"  {_number(usd):>10} USD  {_LABELS[name]}"
        for name, usd in tokens.items()
        if usd is not None and (prompts or name == "usd_per_million_output")
    ]
    if prompts:
        lines.append("Each carries the whole bill: never add them up, but for the split pair.")
    lines.append("USD a million output tokens by utilisation:")
    lines += [
        f"  {fmt.percent(float(share)):>6}  {_number(usd):>10}"
        for share, usd in result["usd_per_million_output_by_utilisation"].items()
    ]
    return lines


def _plain(hours: Decimal) -> str:
    return f"{float(hours):,.10g}"


def _number(usd: Decimal) -> str:
    """Return a price of tokens; of one too small for decimals its figures."""
    return f"{usd:.3g}" if 0 < usd < _TINY else fmt.number(float(usd), 4)


def _price(usd: Decimal) -> str:
    """Return a price of an hour with what it has beyond cents: the bill is its product."""
    shown = usd.quantize(_TINY)
    return _usd(usd) if shown == shown.quantize(_CENT) else f"{shown.normalize():,f}"


def _usd(amount: Decimal) -> str:
    """Return cents, and what is left of an amount below one."""
    if 0 < amount < _TINY:
        return f"{amount:.3g}"
    return fmt.cents(amount) if amount >= 1 else fmt.usd(amount)
