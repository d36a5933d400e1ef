"""The time of each round predicted from the runs that are not of its kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from capplan.estimate.pooling import PooledFit, Prediction, fit_pooled
from capplan.estimate.round_cost import ROUND_FACTORS, ROUND_NOISE, round_work
from capplan.validation.decode_rows import DecodeStep, decode_steps, fit_decode
from capplan.validation.round_rows import KnownRun, known_runs
from capplan.validation.rows import PublishedRows
from capplan.validation.scoring import Scored
from capplan.validation.specs import Specs

_Z_90 = 1.645


def predict_left_out(
    rows: PublishedRows, specs: Specs, key: Callable[[KnownRun], Hashable], scatter: float
) -> list[Scored]:
    """Predict each run from the runs of other keys; decode steps of its source never enter.

    Runs that mostly read others' prompts are left out: what they test is prefill.

    Parameters
    ----------
    scatter
        Relative scatter of a round about the fit, beyond what unmeasured groups add.
    """
    known, steps = known_runs(rows, specs), decode_steps(rows, specs)
    decode = {source: _decode_fit(steps, source) for source in {run.source for run in known}}
    runs = [run for run in known if run.shows_its_round(decode[run.source])]
    works = [round_work(run.machine, decode[run.source]) for run in runs]
    scored: list[Scored] = []
    for held in dict.fromkeys(key(run) for run in runs):
        kept = [i for i, run in enumerate(runs) if key(run) != held]
        ratios = [runs[i].round_ratio for i in kept]
        fit = fit_pooled(ROUND_FACTORS, [works[i] for i in kept], ratios, ROUND_NOISE)
        scored += [
            _scored(run, fit.predict(work, scatter))
            for run, work in zip(runs, works, strict=True)
            if key(run) == held
        ]
    return scored


def _scored(run: KnownRun, found: Prediction) -> Scored:
    low, high = found.interval(_Z_90)
    tau = run.tokens_per_round
    return Scored(
        run.source, run.speedup, tau / found.value, tau / high, tau / low, True, run.label
    )


def _decode_fit(steps: Sequence[DecodeStep], source: str) -> PooledFit:
    kept = [step for step in steps if step.source != source]
    return fit_decode(kept)
