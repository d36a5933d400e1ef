"""Time to the first token inside a serving loop; one LLM on one GPU left out of both fits."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.estimate.pooling import PooledFit, Work
from capplan.estimate.serving import TTFT_SCATTER, tpot_work, ttft_work
from capplan.validation.rows import PublishedRows
from capplan.validation.scoring import Scored
from capplan.validation.serving_rows import (
    ServingStep,
    fit_tpot,
    fit_ttft,
    machines_left_out,
    serving_steps,
)
from capplan.validation.specs import Specs

_Z_90 = 1.645


def predict(rows: PublishedRows, specs: Specs) -> Sequence[Scored]:
    """Predict each LLM on each GPU from the others of the same engine."""
    steps = [step for step in serving_steps(rows, specs) if step.ttft_s is not None]
    scored = []
    for held, kept in machines_left_out(steps):
        tpot = fit_tpot(kept)
        same_engine = [step for step in kept if step.scored]
        fit = fit_ttft([_work(step, tpot) for step in same_engine], same_engine)
        for step in held:
            found = fit.predict(_work(step, tpot), TTFT_SCATTER)
            low, high = found.interval(_Z_90)
            measured = step.ttft_s or 0.0
            scored.append(Scored(step.source, measured, found.value, low, high, False, step.label))
    return scored


def _work(step: ServingStep, tpot: PooledFit) -> Work:
    return ttft_work(step.setting, tpot.predict(tpot_work(step.setting)).value)
