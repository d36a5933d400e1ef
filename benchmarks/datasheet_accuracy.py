"""How far the planner's speedups are from published ones, tokens per round being given.

Nothing of the scored source is used: the factors of a round are fitted anew without it. Beside it
stand the factors that know every source; those of vLLM are what plans use.

Run: ``python benchmarks/datasheet_accuracy.py``
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.curves import curve_from_alpha
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.engines import load_engine
from capplan.planning.drafting import Drafting
from capplan.planning.grid import Grid
from capplan.planning.hardware import HardwareChoice, evaluate_catalogue
from capplan.planning.heads import head_spec
from capplan.planning.inputs import PlanInputs
from capplan.resources import models_db_dir
from capplan.schema.engine import EngineConstants
from capplan.schema.plan import PlanRequest
from capplan.schema.provenance import Kind, Source
from capplan.schema.workload import Workload
from capplan.validation.folder import read_published
from capplan.validation.round_constants import PlannedRounds
from capplan.validation.specs import Specs

TENSOR_PARALLEL = {
    "meta-llama/Llama-3.1-8B-Instruct": 1,
    "meta-llama/Llama-3.3-70B-Instruct": 4,
    "Qwen/Qwen3-30B-A3B-Instruct-2507": 4,
}
LARGE_TP = 8
GPUS = {"specbundle": "h200-sxm-141gb", "vllm20780": "h100-sxm-80gb"}
ENGINES = {"specbundle": "sglang", "vllm20780": "vllm"}
DRAFTS = {
    "EAGLE-1 head": "yuhuili/EAGLE-LLaMA3.1-Instruct-8B",
    "EAGLE-3 head": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
}
SPELLING = re.compile(r"Specforge|Spec for ge")
PREAMBLE = """\
Tokens per round as published; SpecBundle (H200) does not publish tensor parallelism: 1 is assumed
for 8B, 4 for 70B and 30B-A3B, 8 for larger targets. Its speedups include prefill. The GPU of vLLM
issue 20780 (H100) is inferred. SpecBundle ran SGLang: a round takes the factors of that engine, a
step the constants of vLLM.
"inside": share of rows within the 95 % interval that a plan states for the round ratio.
Each line: factors fitted without the scored source | with it.
"""
Group = tuple[str, str, str]
Row = tuple[int, int, float, float]
"""Batch, N, tokens per round, measured speedup."""


def published(catalog: Catalog) -> dict[Group, list[Row]]:
    """Return chains by (target, draft, GPU), as far as the catalogue knows the target."""
    by_name = {llm.id.rpartition("/")[2]: llm.id for llm in catalog.llms}
    groups: defaultdict[Group, list[Row]] = defaultdict(list)
    with (models_db_dir() / "published/speedup.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            target, gpu = by_name.get(row["target"]), GPUS.get(row["source_key"])
            usable = row["quality"] == "ok" and "chain" in row["method"]
            if target is not None and gpu is not None and usable:
                draft = DRAFTS.get(row["draft"], SPELLING.sub("SpecForge", row["draft"]))
                tau, measured = float(row["tau"]), float(row["measured_speedup"])
                at = int(row["batch_size"]), int(row["N"])
                groups[target, draft, gpu].append((*at, tau, measured))
    return dict(sorted(groups.items()))


def evaluate(
    catalog: Catalog, group: Group, tensor_parallel: int, engine: EngineConstants
) -> Grid | None:
    """Evaluate one pairing on one GPU group; None if its head or the head's size is unknown."""
    target, gpu = catalog.llm(group[0]), catalog.gpu(group[2])
    pairing = next((p for p in catalog.pairings_for(target.id) if p.draft == group[1]), None)
    head = head_spec(target, pairing) if pairing is not None else None
    if pairing is None or head is None:
        return None
    # what a round costs does not depend on what it yields: any curve serves
    curve = curve_from_alpha(0.5, Source(kind=Kind.ASSUMED, reference="placeholder"))
    workload = Workload(prompt_tokens=300, output_tokens=500)
    request = PlanRequest(targets=(target.id,), budget_usd_per_month=1, workload=workload)
    choice = HardwareChoice(gpu.id, gpu.name, gpu.memory_bytes, tensor_parallel, gpu)
    drafting = Drafting(pairing.method, pairing.draft, head, curve)
    inputs = PlanInputs({}, {}, (), (), (), engine, ())
    return evaluate_catalogue(target, drafting, [choice], inputs, request).grid


def compare(grid: Grid, rows: list[Row]) -> NDArray[np.float64]:
    """Return (relative error of the speedup, 1 where the interval holds the measured one)."""
    outcomes = []
    for batch, n, tau, measured in rows:
        at = 0, n - 1, list(grid.batches).index(batch)
        error = tau / float(grid.round_ratio[at]) / measured - 1.0
        # a speedup that is too high is a round that is too cheap
        reach = grid.round_log_up if error > 0 else grid.round_log_down
        outcomes.append((error, abs(np.log1p(error)) <= float(reach[at])))
    return np.array(outcomes, dtype=float)


def summary(outcomes: NDArray[np.float64]) -> str:
    """Return mean absolute error, bias and coverage as a line."""
    errors, inside = outcomes.T
    return (
        f"{len(errors):>4} rows  MAPE {np.abs(errors).mean():5.1%}  bias {errors.mean():6.1%}  "
        f"inside {inside.mean():4.0%}"
    )


def fitted(
    engine_id: str, engine: EngineConstants, planned: PlannedRounds, left_out: str | None
) -> EngineConstants:
    """Return constants with the round factors of an engine, one source left out or none."""
    own = engine.model_copy(update={"id": engine_id})
    return own.model_copy(update={"rounds": planned.constants(own, left_out)})


def main() -> None:
    """Print one line a pairing, and one for all."""
    catalog, shipped = load_catalog(), load_engine("vllm")
    specs = Specs(catalog.llms, catalog.gpus, catalog.pairings)
    rows_read = read_published(models_db_dir() / "published").sound()
    planned = PlannedRounds.of(rows_read, specs, shipped)
    engines = {
        gpu: [fitted(ENGINES[source], shipped, planned, out) for out in (source, None)]
        for source, gpu in GPUS.items()
    }
    print(PREAMBLE)
    everything: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for (target, draft, gpu), rows in published(catalog).items():
        tp = TENSOR_PARALLEL.get(target, LARGE_TP)
        print(f"{target} + {draft}")
        grids = [evaluate(catalog, (target, draft, gpu), tp, one) for one in engines[gpu]]
        if grids[0] is None or grids[1] is None:
            print("    not evaluated: the catalogue does not know this head or its size")
            continue
        everything.append((compare(grids[0], rows), compare(grids[1], rows)))
        print(f"    {gpu}, TP {tp}, batch {rows[0][0]}: {both(*everything[-1])}")
    print(f"\nAll: {both(*(np.concatenate(part) for part in zip(*everything, strict=True)))}")


def both(left_out: NDArray[np.float64], shipped: NDArray[np.float64]) -> str:
    """Return both summaries on a line."""
    return f"{summary(left_out)} | {summary(shipped).partition('rows')[2].strip()}"


if __name__ == "__main__":
    main()
