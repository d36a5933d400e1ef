"""How fast plans are searched: evaluations a second, the whole catalogue, a grid of what-ifs.

Run: ``python benchmarks/search.py [--format json]``

An evaluation is what a plan computes of one candidate (target, way to draft, GPU, tensor-parallel
size, N, batch, offer): its memory, its step time, its speedup and its dollars a token, through the
functions that ``capplan.recommend`` calls. Points on hardware on which nothing fits are not
counted. Seconds are those of one core (CPU time of this one thread); wall time stands beside
them, and the load of the machine, which a busy one shows in both.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from capplan.api.collecting import paused_collection
from capplan.api.plans import plan_inputs
from capplan.api.what_if import whatif
from capplan.facts.catalog import load_catalog
from capplan.planning.planner import Found, Outcome, find, written
from capplan.planning.scenarios import ScenarioGrid
from capplan.schema.plan import PlanRequest
from capplan.schema.price import Purchase
from capplan.schema.workload import Workload

SHARES = (4, 2, 1)
"""Every fourth target, every second, all."""
LONGEST = 16
WHAT_IF_TARGET = "meta-llama/Llama-3.1-8B-Instruct"
WHAT_IF = ScenarioGrid(
    acceptance=(0.6, 0.8, 1.0, 1.1, 1.2),
    price=(0.7, 0.85, 1.0, 1.15, 1.3),
    load=(0.5, 1.0, 2.0, 4.0, 8.0),
    lengths=(0.5, 1.0, 2.0, 4.0),
    overhead=(1.0, 2.0),
)
PEERS = (
    "aiconfigurator 0.12.0, `cli default` (Llama-3.1-70B, 8 GPUs, vLLM tables, quiet machine): "
    "5-39 kept rows a second of its own search time; 13-63 s a search with start-up",
    "aiconfigurator-core 0.12.0, EngineHandle.decode_step_latency: 64,000-76,000 step "
    "evaluations a second, one a call (benchmarks/against_aiconfigurator.py measures it)",
)
"""Measured by this project with the released wheels on a 2-core machine, 2026-11; neither counts
memory or money, and neither search speculates over drafts, so they are orders of magnitude."""
CATALOGUE = """
import json, sys
from capplan.api.plans import recommend
from capplan.schema.plan import PlanRequest
plan = recommend(PlanRequest.model_validate_json(sys.argv[1]))
print(json.dumps({"options": len(plan.options), "candidates": plan.candidates}))
"""


@dataclass(frozen=True)
class Span:
    """Seconds of one piece of work, the best of a few repeats."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class Search:
    """One search over some of the targets."""

    targets: int
    evaluations: int
    candidates: int
    options: int
    evaluated: Span
    """Drafts, memory, times, dollars, order: up to the ranked list."""
    written: Span
    """Finalists written out with intervals, bills and load curves."""


def timed(work: Callable[[], Any]) -> tuple[Any, Span]:
    """Return what a piece of work gives, and how long it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = work()
    return found, Span(time.process_time() - cpu, time.perf_counter() - wall)


def best(spans: list[Span]) -> Span:
    """Return the least seconds of each kind."""
    return Span(min(span.cpu_s for span in spans), min(span.wall_s for span in spans))


def catalogue_request(every: int = 1) -> PlanRequest:
    """Return a request for some of the targets under every price that is shipped."""
    catalog = load_catalog()
    return PlanRequest(
        targets=tuple(llm.id for llm in catalog.llms[::every]),
        budget_usd_per_month=1e6,
        workload=Workload(requests_per_s=2.0),
        max_num_speculative_tokens=LONGEST,
        purchases=tuple(Purchase),
        price_tiers=tuple(sorted({row.tier for row in catalog.prices})),
    )


def search_speed(every: int, repeats: int) -> Search:
    """Search some of the targets a few times."""
    request, inputs = plan_inputs(catalogue_request(every))
    searched, wrote = [], []
    for _ in range(repeats):
        with paused_collection():
            found, span = timed(lambda: find(inputs, request))
            searched.append(span)
            outcome, span = timed(lambda found=found: written(found, request))
            wrote.append(span)
    assert isinstance(found, Found)
    assert isinstance(outcome, Outcome)
    return Search(
        len(request.targets),
        found.evaluations,
        found.candidates,
        len(outcome.options),
        best(searched),
        best(wrote),
    )


def whole_process(repeats: int) -> dict[str, Any]:
    """Plan the whole catalogue in a process of its own, its start included."""
    command = [sys.executable, "-c", CATALOGUE, catalogue_request().model_dump_json()]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    spans, said = [], b""
    for _ in range(repeats):
        before, wall = os.times(), time.perf_counter()
        done = subprocess.run(command, env=environment, check=True, capture_output=True)
        after, said = os.times(), done.stdout
        cpu = after.children_user + after.children_system
        cpu -= before.children_user + before.children_system
        spans.append(Span(cpu, time.perf_counter() - wall))
    return {**json.loads(said), **asdict(best(spans))}


def what_if_speed(repeats: int) -> dict[str, Any]:
    """Search a grid of what-ifs on one plan."""
    request = PlanRequest(
        targets=(WHAT_IF_TARGET,),
        budget_usd_per_month=20_000,
        workload=Workload(requests_per_s=20.0, prompt_tokens=1000, output_tokens=300),
    )
    runs = [timed(lambda: whatif(request, WHAT_IF)) for _ in range(repeats)]
    rows = runs[0][0].rows
    changed = sum(row.choice_changes for row in rows)
    spans = best([span for _, span in runs])
    return {"scenarios": len(rows), "choice_changes": changed, **asdict(spans)}


def measure(repeats: int) -> dict[str, Any]:
    """Return every figure."""
    searches = [search_speed(every, repeats) for every in SHARES]
    whole = searches[-1]
    evaluated, both = whole.evaluated, whole.evaluated.cpu_s + whole.written.cpu_s
    return {
        "evaluations_per_second": whole.evaluations / evaluated.cpu_s,
        "evaluations_per_second_wall": whole.evaluations / evaluated.wall_s,
        "evaluations_per_second_with_options_written": whole.evaluations / both,
        "catalogue": whole_process(repeats),
        "scaling": [asdict(one) for one in searches],
        "what_if": what_if_speed(repeats),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "load_average_1_min": os.getloadavg()[0],
            "python": platform.python_version(),
        },
        "peers": list(PEERS),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def as_text(found: dict[str, Any]) -> str:
    """Return the figures as a table."""
    machine, whole, what_if = found["machine"], found["catalogue"], found["what_if"]
    busy = machine["load_average_1_min"] > machine["cores"]
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}, "
        f"load average {machine['load_average_1_min']:.1f}"
        + (": the machine was shared" if busy else ""),
        "",
        f"evaluations a second, one core  {found['evaluations_per_second']:>12,.0f}",
        f"  by wall time                  {found['evaluations_per_second_wall']:>12,.0f}",
        "  options written out, too      "
        f"{found['evaluations_per_second_with_options_written']:>12,.0f}",
        "",
        "targets  evaluations  options  evaluated CPU s  written CPU s  CPU us/evaluation",
    ]
    for one in found["scaling"]:
        cpu, wrote = one["evaluated"]["cpu_s"], one["written"]["cpu_s"]
        lines.append(
            f"{one['targets']:>7}  {one['evaluations']:>11,}  {one['options']:>7,}  "
            f"{cpu:>15.2f}  {wrote:>13.2f}  {cpu / one['evaluations'] * 1e6:>17.3f}"
        )
    lines += [
        "",
        f"whole catalogue in a new process: {whole['wall_s']:.2f} s wall, {whole['cpu_s']:.2f} s "
        f"CPU ({whole['candidates']:,} candidates, {whole['options']:,} options)",
        f"{what_if['scenarios']:,} what-ifs: {what_if['wall_s']:.2f} s wall, "
        f"{what_if['cpu_s']:.2f} s CPU ({what_if['choice_changes']} change the choice)",
        "",
        "for comparison:",
        *(f"- {peer}" for peer in found["peers"]),
    ]
    return "\n".join(lines)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    found = measure(asked.repeats)
    print(json.dumps(found, indent=2) if asked.format == "json" else as_text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
