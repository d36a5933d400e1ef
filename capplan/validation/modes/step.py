"""Speedup where tokens a round are given: the round ratio comes from the other rows."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.estimate.round_transfer import transfer_round_ratio
from capplan.estimate.uncertainty import LogEstimate
from capplan.validation.rows import PublishedRows
from capplan.validation.runs import Run, by_machine, others, speculative_runs
from capplan.validation.scoring import Scored


def predict(rows: PublishedRows) -> Sequence[Scored]:
    """Leave each run out and predict it from those of its target, GPU, engine and batch."""
    scored = []
    for group in by_machine(speculative_runs(rows)).values():
        for run in group:
            found = _predict(run, group)
            if found is not None:
                scored.append(speedup_scored(run, found))
    return scored


def _predict(run: Run, group: Sequence[Run]) -> LogEstimate | None:
    measured = [one.measured_round for one in others(run, group)]
    ratio = transfer_round_ratio(measured, run.setting)
    if ratio is None:
        return None
    return ratio.divided_into(LogEstimate(run.setting.tokens_per_round, 0.0))


def speedup_scored(run: Run, found: LogEstimate) -> Scored:
    """Put the prediction of a run beside its speedup."""
    low, high = found.interval_90()
    return Scored(
        source=run.source,
        measured=run.speedup,
        predicted=found.mid,
        low=low,
        high=high,
        is_speedup=True,
        label=run.label,
    )
