"""The length that the estimator picks for an unseen task: what is lost against the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capplan.estimate.lengths import extrapolate_length
from capplan.estimate.round_transfer import NOISE, transfer_round_ratio
from capplan.estimate.uncertainty import LogEstimate
from capplan.validation.modes.forward import Series, fall_of_others
from capplan.validation.rows import PublishedRows
from capplan.validation.runs import (
    Run,
    by_key,
    by_machine,
    length_series,
    speculative_runs,
    text_of_run,
)
from capplan.validation.scoring import Scored

_LEAST_LENGTHS = 2
_OFF = 1.0
"""Speedup without speculation, always a candidate."""


def predict(rows: PublishedRows) -> Sequence[Scored]:
    """Choose N for every task that was run at several, and score the regret.

    Of the task itself only tokens a round at the shortest length are given; what rounds cost comes
    from other tasks of the machine. Where it has none, as in a sweep over N on one prompt set, the
    shortest and the longest run of the sweep are given instead. The measured value is
    the speedup of the best length (or 1, speculation off), the predicted one the measured speedup
    of the length chosen: the error is what the choice loses. The interval is that of the chosen
    length's own prediction.
    """
    runs = speculative_runs(rows)
    machines, series = by_machine(runs), length_series(rows)
    scored = []
    for sweep in by_key(runs, (run.cell for run in runs)).values():
        if len({run.setting.num_speculative_tokens for run in sweep} - {None}) < _LEAST_LENGTHS:
            continue
        found = _choose(sweep, machines[sweep[0].machine], series)
        if found is not None:
            scored.append(found)
    return scored


def _choose(sweep: Sequence[Run], machine: Sequence[Run], series: Series) -> Scored | None:
    predicted = [(_predict(run, sweep, machine, series), run) for run in sweep]
    known = [(found, run) for found, run in predicted if found is not None]
    if len(known) < len(sweep) or all(run.speedup == found.mid for found, run in known):
        return None  # something cannot be predicted, or everything was given
    found, chosen = max(known, key=lambda pair: pair[0].mid)
    best = max(_OFF, *(run.speedup for run in sweep))
    speculates = found.mid > _OFF
    low, high = found.interval_90() if speculates else (_OFF, _OFF)
    return Scored(
        source=chosen.source,
        measured=best,
        predicted=chosen.speedup if speculates else _OFF,
        low=low,
        high=high,
        is_speedup=True,
        label=chosen.label if speculates else f"off instead of {chosen.label}",
    )


def _predict(
    run: Run, sweep: Sequence[Run], machine: Sequence[Run], series: Series
) -> LogEstimate | None:
    length, own = run.setting.num_speculative_tokens, series.get(text_of_run(run))
    if own is None or length is None or int(length) not in own.lengths:
        return None
    given = [one for one in machine if one.setting.task != run.setting.task]
    known = own.up_to(own.lengths[0] + 1)
    if all(one.setting.drafting != run.setting.drafting for one in given):
        given = _ends(sweep)
        if run in given:
            return LogEstimate(run.speedup, NOISE.sd, NOISE.degrees)
        known = own.only([one.setting.num_speculative_tokens for one in given])
    tokens = extrapolate_length(known, int(length), fall_of_others(run, series))
    wanted = replace(run.setting, tokens_per_round=tokens.mid)
    ratio = transfer_round_ratio([one.measured_round for one in given], wanted)
    return None if ratio is None else ratio.divided_into(tokens)


def _ends(sweep: Sequence[Run]) -> list[Run]:
    ordered = sorted(sweep, key=lambda run: run.setting.num_speculative_tokens or 0)
    return [ordered[0], ordered[-1]]
