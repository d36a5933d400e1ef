"""Tokens a round on a text, from other texts of the pair and from other pairs on that text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from capplan.estimate.task_transfer import TaskTokens, predict_task, transfer_task
from capplan.estimate.uncertainty import LogEstimate
from capplan.validation.rows import PublishedRows
from capplan.validation.runs import Key
from capplan.validation.scoring import Scored

Texts = dict[tuple[tuple[str, ...], str], float]


def predict(rows: PublishedRows) -> Sequence[Scored]:
    """Leave each text of each pair out; length, tree, temperature and source stay the same.

    Where no other pair ran the text, it is predicted from the mean of the pair's own ones.
    """
    groups: defaultdict[Key, Texts] = defaultdict(dict)
    for family in (rows.speedup, rows.throughput, rows.acceptance):
        for row in family:
            if row.tau is not None and row.tau >= 1.0 and row.task:
                where = (row.source_key, row.N, row.verify_tokens, row.temperature)
                which = (row.target, row.draft, row.method)
                groups[where].setdefault((which, row.task), row.tau)
    scored = []
    for setting, texts in groups.items():
        for pair, task in texts:
            found = _predict(texts, pair, task)
            if found is not None:
                scored.append(_scored(setting, pair, task, texts[pair, task], found))
    return scored


def _predict(texts: Texts, pair: tuple[str, ...], task: str) -> LogEstimate | None:
    others = [TaskTokens(*key, tokens) for key, tokens in texts.items() if key != (pair, task)]
    own = [one.tokens_per_round for one in others if one.pair == pair]
    if not own:
        return None
    if all(one.task != task for one in others):
        return transfer_task(own)
    return predict_task(others, pair, task)


def _scored(
    setting: Key, pair: tuple[str, ...], task: str, measured: float, found: LogEstimate
) -> Scored:
    low, high = found.interval_90()
    source, length = setting[0], setting[1]
    return Scored(
        source=str(source),
        measured=measured,
        predicted=found.mid,
        low=low,
        high=high,
        is_speedup=False,
        label=f"{task}, {', '.join(pair)}, N={length}",
    )
