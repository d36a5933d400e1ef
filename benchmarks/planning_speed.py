"""How fast the search is over every target of the shipped catalogue.

Run: ``python benchmarks/planning_speed.py``
"""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.planning import hardware
from capplan.planning.evaluate import Grid, evaluate
from capplan.planning.inputs import PlanInputs
from capplan.planning.planner import search
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Workload


def main() -> None:
    """Print seconds, candidates and evaluated points of one search a target."""
    started = time.perf_counter()
    catalog = load_catalog()
    print(f"catalogue loaded in {time.perf_counter() - started:.2f} s")
    inputs = PlanInputs(
        gpus={gpu.id: gpu for gpu in catalog.gpus},
        llms={llm.id: llm for llm in catalog.llms},
        pairings=catalog.pairings,
        acceptance=catalog.acceptance,
        prices=catalog.prices,
        engine=load_engine("vllm"),
        machines=(),
    )
    counter = Counter()
    candidates = options = 0
    slowest, slowest_target = 0.0, ""
    started = time.perf_counter()
    for llm in catalog.llms:
        request = PlanRequest(
            targets=(llm.id,),
            budget_usd_per_month=1e6,
            workload=Workload(requests_per_s=2.0),
            max_num_speculative_tokens=16,
        )
        before = time.perf_counter()
        with patch.object(hardware, "evaluate", counter.evaluate):
            outcome = search(inputs, request)
        spent = time.perf_counter() - before
        candidates += outcome.candidates
        options += len(outcome.options)
        if spent > slowest:
            slowest, slowest_target = spent, llm.id
    total = time.perf_counter() - started
    print(
        f"{len(catalog.llms)} targets, {candidates:,} candidates (draft x N x GPU x TP x offer), "
        f"{options:,} options written out\n"
        f"{total:.2f} s in all, {total / len(catalog.llms) * 1e3:.0f} ms a target, "
        f"slowest {slowest * 1e3:.0f} ms ({slowest_target})\n"
        f"{counter.points:,} points (hardware x N x batch), {counter.points / total:,.0f} a second"
    )


class Counter:
    """Evaluates as the planner does, and counts the points."""

    def __init__(self) -> None:
        self.points = 0

    def evaluate(self, *arguments: Any) -> Grid:
        """Evaluate and count."""
        grid = evaluate(*arguments)
        self.points += grid.tpot_s.size
        return grid


if __name__ == "__main__":
    main()
