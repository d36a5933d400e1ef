"""Time per output token inside a serving loop; one LLM on one GPU left out of the fit."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.estimate.serving import tpot_work
from capplan.validation.rows import PublishedRows
from capplan.validation.scoring import Scored
from capplan.validation.serving_rows import fit_tpot, machines_left_out, serving_steps
from capplan.validation.specs import Specs

_Z_90 = 1.645


def predict(rows: PublishedRows, specs: Specs) -> Sequence[Scored]:
    """Predict each LLM on each GPU from the others; rows of other engines only help the fit."""
    steps = [step for step in serving_steps(rows, specs) if step.tpot_s is not None]
    everything = fit_tpot(steps)
    scored = []
    for held, kept in machines_left_out(steps):
        fit = fit_tpot(kept, everything)
        for step in held:
            found = fit.predict(tpot_work(step.setting))
            low, high = found.interval(_Z_90)
            measured = step.tpot_s or 0.0
            scored.append(Scored(step.source, measured, found.value, low, high, False, step.label))
    return scored
