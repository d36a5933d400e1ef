"""Reproduce ``rounds`` of models_db/engines/vllm.yaml from published runs.

Run from the repository: python tools/fit_round_constants.py [SOURCE LEFT OUT]
"""

from __future__ import annotations

import sys

from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.resources import models_db_dir
from capplan.schema.engine import ROUND_TERMS
from capplan.validation.folder import read_published
from capplan.validation.round_constants import PlannedRounds
from capplan.validation.specs import Specs


def main() -> None:
    """Fit to every source, or to all but the one named."""
    catalog, engine = load_catalog(), load_engine("vllm")
    specs = Specs(catalog.llms, catalog.gpus, catalog.pairings)
    rows = read_published(models_db_dir() / "published").sound()
    left_out = sys.argv[1] if len(sys.argv) > 1 else None
    rounds = PlannedRounds.of(rows, specs, engine).constants(engine, left_out)
    print("rounds:")
    for name, values in (("values", rounds.values), ("log_sd", rounds.log_sd)):
        shown = ", ".join(f"{term}: {values[term]:.3g}" for term in ROUND_TERMS)
        print(f"  {name}: {{{shown}}}")
    print(f"  scatter_dense: {rounds.scatter_dense}\n  scatter_moe: {rounds.scatter_moe}")


if __name__ == "__main__":
    main()
