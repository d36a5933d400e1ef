"""Speedup of an unseen task at an unseen length, from what other tasks cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from capplan.estimate.lengths import FallPrior, LengthSeries, extrapolate_length, pooled_fall
from capplan.estimate.round_transfer import transfer_round_ratio
from capplan.estimate.uncertainty import LogEstimate
from capplan.validation.modes.step import speedup_scored
from capplan.validation.rows import PublishedRows
from capplan.validation.runs import (
    PairText,
    Run,
    by_machine,
    length_series,
    speculative_runs,
    text_of_run,
)
from capplan.validation.scoring import Scored

Series = Mapping[PairText, LengthSeries]


def predict(rows: PublishedRows) -> Sequence[Scored]:
    """Predict each run whose text has tokens a round at a smaller N, from other tasks' rounds.

    Of the task itself nothing is used but tokens a round at smaller N. Of other tasks everything
    is known: their rounds on the same machine, and how their acceptance falls with the length.
    """
    series = length_series(rows)
    scored = []
    for group in by_machine(speculative_runs(rows)).values():
        for run in group:
            found = predict_unseen(run, group, series)
            if found is not None:
                scored.append(speedup_scored(run, found))
    return scored


def predict_unseen(run: Run, group: Sequence[Run], series: Series) -> LogEstimate | None:
    """Predict the speedup of a run as if its task and its length had never been run."""
    tokens = unseen_tokens(run, series)
    if tokens is None:
        return None
    measured = [one.measured_round for one in group if one.setting.task != run.setting.task]
    wanted = replace(run.setting, tokens_per_round=tokens.mid)
    ratio = transfer_round_ratio(measured, wanted)
    return None if ratio is None else ratio.divided_into(tokens)


def unseen_tokens(run: Run, series: Series) -> LogEstimate | None:
    """Predict tokens a round of a run from the smaller lengths of its text alone."""
    length = run.setting.num_speculative_tokens
    own = series.get(text_of_run(run))
    if own is None or length is None or int(length) not in own.lengths:
        return None
    shorter = own.up_to(int(length))
    if not shorter.lengths:
        return None
    return extrapolate_length(shorter, int(length), fall_of_others(run, series))


def fall_of_others(run: Run, series: Series) -> FallPrior:
    """Return how acceptance falls with the length on the pair's other tasks."""
    text = text_of_run(run)
    return pooled_fall(
        [
            found
            for key, found in series.items()
            if (key.source, key.pair, key.method) == (text.source, text.pair, text.method)
            and key.text[0] != text.text[0]
        ]
    )
