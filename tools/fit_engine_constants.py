"""Reproduce the fitted constants of models_db/engines/vllm.yaml from published rows.

Run from the repository: python tools/fit_engine_constants.py
"""

from __future__ import annotations

from capplan.estimate.pooling import Factor, PooledFit
from capplan.estimate.serving import TPOT_FACTORS, TTFT_FACTORS, tpot_work, ttft_work
from capplan.facts.catalog import load_catalog
from capplan.resources import models_db_dir
from capplan.validation.folder import read_published
from capplan.validation.serving_rows import SCORED_ENGINE, fit_tpot, fit_ttft, serving_steps
from capplan.validation.specs import Specs

RATES = frozenset({"weights", "kv", "flops", "attention", "exchange"})
"""Factors that are the inverse of an efficiency."""


def _shown(fit: PooledFit, factor: Factor) -> str:
    value = fit.factor(factor.name, ("engine", SCORED_ENGINE))
    if factor.name in RATES:
        return f"  {factor.name:18s} efficiency {1 / value:.3f}"
    return f"  {factor.name:18s} {value:.3e}"


def main() -> None:
    """Fit both latencies to every row of the engine, with relatives of other engines."""
    catalog = load_catalog()
    specs = Specs(catalog.llms, catalog.gpus, catalog.pairings)
    rows = read_published(models_db_dir() / "published").sound()
    steps = serving_steps(rows, specs)
    own = [step for step in steps if step.scored]
    tpot = fit_tpot(steps)
    print(f"time per output token: {len(own)} rows of {SCORED_ENGINE}, {len(steps)} of all")
    for factor in TPOT_FACTORS:
        print(_shown(tpot, factor))
    works = [ttft_work(step.setting, tpot.predict(tpot_work(step.setting)).value) for step in own]
    ttft = fit_ttft(works, own)
    print("time to first token")
    for factor in TTFT_FACTORS:
        print(_shown(ttft, factor))
    print("errors on rows left out: capplan validate --mode serving --mode serving_ttft")


if __name__ == "__main__":
    main()
