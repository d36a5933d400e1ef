"""Mistakes that a checker finds before the program runs; each line names what mypy calls it."""

from __future__ import annotations

import capplan

workload = capplan.Workload(requests_per_second=2)  # error: call-arg
request = capplan.PlanRequest(
    targets=("Qwen/Qwen3-32B",),
    budget_usd_per_month="20000",  # error: arg-type
    workload=capplan.Workload(requests_per_s=2),
)
plan = capplan.recommend(request)
cost = plan.options[0].cost  # error: attr-defined
plan.figure("bars")  # error: arg-type
plan.to_focus(month=12)  # error: arg-type
total: int = plan.options[0].usd_per_month  # error: assignment
bill_usd = plan.options[0].bill.total_usd  # error: union-attr
capplan.plan_everything(request)  # error: attr-defined
