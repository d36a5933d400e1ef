"""What was asked of a plan, in words."""

from __future__ import annotations

from capplan.economics.bill import MONTH_HOURS
from capplan.estimate.traffic import peak_to_mean
from capplan.reporting import formatting as fmt
from capplan.reporting.memory_view import Pair
from capplan.schema.plan import Plan


def request_rows(plan: Plan) -> tuple[Pair, ...]:
    """Return budget, load and limits, a label and a text each."""
    request, load = plan.request, plan.request.workload
    rows = [
        Pair(
            "Budget" if plan.fleet is None else "Budget of the largest part",
            f"{fmt.usd_unit(request.budget_usd_per_month)} a month",
        ),
        Pair("Load", _load_text(plan)),
        *_peak_rows(plan),
        Pair("Prompt, output", f"{load.prompt_tokens:,} and {load.output_tokens:,} tokens"),
        Pair("Temperature", f"{load.temperature:g}"),
    ]
    if request.hours_per_month != MONTH_HOURS:
        rows.append(Pair("Hours a month", f"{float(request.hours_per_month):,.10g}"))
    if load.task:
        rows.append(Pair("Task", load.task))
    for name, limit in (("TPOT limit", request.slo.tpot_ms), ("TTFT limit", request.slo.ttft_ms)):
        if limit is not None:
            rows.append(Pair(name, fmt.milliseconds(limit)))
    return tuple(rows)


def _peak_rows(plan: Plan) -> tuple[Pair, ...]:
    load = plan.request.workload
    if load.arrival is None:
        return ()
    ratio = peak_to_mean(load, float(plan.request.hours_per_month))
    return (Pair("Peak", f"{ratio:.2f} times the mean; replicas and latencies are for it"),)


def _load_text(plan: Plan) -> str:
    load = plan.request.workload
    if load.requests_per_s is not None:
        return f"{load.requests_per_s:.4g} requests/s"
    if load.output_tokens_per_month is not None:
        return f"{fmt.number(load.output_tokens_per_month)} output tokens a month"
    return f"one replica at {fmt.percent(load.utilisation)} utilisation"


def moment(iso: str) -> str:
    """Return ``2026-11-29 12:00 UTC`` for a UTC time; anything else as it is."""
    day, _, time = iso.partition("T")
    utc = time.endswith(("Z", "+00:00"))
    return f"{day} {time[:5]} UTC" if utc else iso
