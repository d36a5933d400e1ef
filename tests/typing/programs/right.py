"""What a user writes: every line of it has a type, without capplan's own plugin settings."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import capplan

request = capplan.PlanRequest(
    targets=("Qwen/Qwen3-32B",),
    budget_usd_per_month=6000,
    workload=capplan.Workload(requests_per_s=0.5, prompt_tokens=1500, output_tokens=400),
    slo=capplan.Slo(tpot_ms=40),
    purchases=(capplan.Purchase.ON_DEMAND,),
    gpu_price_usd_per_hour={"h100-sxm-80gb": Decimal("2.10")},
)


def cheapest(plan: capplan.Plan) -> capplan.PlanOption | None:
    """Return the option with the lowest bill."""
    return min(plan.options, key=lambda option: option.usd_per_month.mid, default=None)


def lines(option: capplan.PlanOption) -> list[tuple[str, Decimal]]:
    """Return the bill line by line."""
    return [(line.item.value, line.usd) for line in option.bill.lines] if option.bill else []


profile = capplan.load_profile(Path("profile.json"))
plan = capplan.recommend(request, [profile], now=datetime(2026, 11, 30, tzinfo=UTC))
option = cheapest(plan)
if option is not None:
    method: capplan.Method = option.method
    interval: capplan.Quantity = option.usd_per_million_output_tokens
    rent: list[tuple[str, Decimal]] = lines(option)

dearest: float = plan.to_frame()["usd_per_month_mid"].max()
sentence: str = plan.verdict.sentence
svg: str = plan.figure("load", rank=1).svg
file: Path = plan.figure().save("cost.svg")
billed = [row["BilledCost"] for row in plan.to_focus("2027-01")]
steps: int = len(profile.to_frame("rounds"))
page: str = capplan.render(plan, "html")

try:
    again = capplan.load_plan("plan.json")
except capplan.CapplanError as error:
    remedy: str = str(error)
