"""Acceptance by temperature, task and method beside published measurements."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from capplan.advice.guide.sheet import (
    RUNS,
    AuditEvidence,
    Found,
    Sheet,
    contradicted,
    published,
    reproduced,
    uncheckable,
)
from capplan.estimate.acceptance import tokens_per_round_iid
from capplan.schema.audit import Finding, PublishedRun

_BOTH = 2
"""Temperatures of a pair of runs."""


def temperature_one(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Hold the guide's fall from temperature 0 to 1 to published pairs of runs."""
    pairs = _pairs(evidence.runs)
    if not pairs:
        return
    for figure, ratios in (
        ("speedup", [hot.speedup / cold.speedup for cold, hot in pairs]),
        ("acceptance", _accepted_ratios(pairs)),
    ):
        claim = f"temperature-1.0-{figure}"
        ratio = sheet[claim] / sheet[f"temperature-0.0-{figure}"]
        reason = (
            f"Its {figure} falls to {ratio:.2f} of that at temperature 0. In {len(ratios)} "
            f"published pairs of runs it fell to {min(ratios):.2f} to {max(ratios):.2f}, median "
            f"{median(ratios):.2f}"
        )
        if min(ratios) <= ratio <= max(ratios):
            yield claim, uncheckable(f"{reason}: within that range, pairing not given.", RUNS)
        else:
            yield claim, contradicted(f"{reason}.", RUNS)
    yield "config-temperature", _greedy_first(_accepted_ratios(pairs))
    hot = [run for _, run in pairs]
    least = min(hot, key=lambda run: run.speedup)
    yield (
        "rule-temperature-off",
        uncheckable(
            f"Published runs stop at temperature 1, where all {len(hot)} still gain (least "
            f"{least.speedup:g}x, batch 1). Above 1 a run at your temperature would tell.",
            RUNS,
        ),
    )


def _greedy_first(ratios: Sequence[float]) -> Finding:
    more = sum(ratio < 1 for ratio in ratios)
    reason = (
        f"In {more} of {len(ratios)} published pairs of runs more is accepted at temperature 0 "
        "than at 1."
    )
    return (reproduced if more > len(ratios) / 2 else contradicted)(reason, source=RUNS)


def _pairs(runs: Sequence[PublishedRun]) -> list[tuple[PublishedRun, PublishedRun]]:
    by_key: defaultdict[tuple[object, ...], dict[float, PublishedRun]] = defaultdict(dict)
    for run in runs:
        if run.temperature in (0.0, 1.0):
            key = (
                *(run.source_key, run.target, run.draft, run.method, run.gpu, run.task),
                *(run.load, run.num_speculative_tokens, run.is_chain),
            )
            by_key[key].setdefault(run.temperature, run)
    return [(found[0.0], found[1.0]) for found in by_key.values() if len(found) == _BOTH]


def _accepted_ratios(pairs: Sequence[tuple[PublishedRun, PublishedRun]]) -> list[float]:
    """At a fixed N accepted over drafted is in proportion to tokens a round less the bonus."""
    return [
        (hot.tokens_per_round - 1) / (cold.tokens_per_round - 1)
        for cold, hot in pairs
        if hot.tokens_per_round is not None
        and cold.tokens_per_round is not None
        and cold.tokens_per_round > 1
    ]


_TASK_PREFIX = "Spec-Bench "
_OVERALL = "Overall"


def task_order(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:  # noqa: ARG001 - EvidenceCheck
    """Ask whether maths gains least and translation most, as the guide has it."""
    tables = _spec_bench(evidence.runs)
    if not tables:
        return
    worst = Counter(min(table, key=lambda task: table[task]) for table in tables)
    best = Counter(max(table, key=lambda task: table[task]) for table in tables)
    source = published("Spec-Bench leaderboard (models_db/published/speedup.csv, specbench)")
    count = len(tables)
    heads = _maths_heads(evidence)
    maths = (
        f"Of the six tasks of Spec-Bench maths is the slowest in {worst['Math']} of {count} "
        f"method, LLM and GPU tables and the fastest in {best['Math']}.{heads}"
    )
    translation = (
        f"Of the six tasks of Spec-Bench translation is the slowest in "
        f"{worst['Translation']} of {count} method, LLM and GPU tables and the fastest in "
        f"{best['Translation']}."
    )
    refuted = {maths: worst["Math"] < count / 2, translation: best["Translation"] < count / 2}
    for reason, claims in (
        (maths, ("task-maths-acceptance", "task-maths-speedup", "tasks-worst")),
        (
            translation,
            ("task-translation-acceptance", "task-translation-speedup", "tasks-best"),
        ),
    ):
        for claim in claims:
            said = contradicted if refuted[reason] else uncheckable
            yield claim, said(reason, source)


def _spec_bench(runs: Sequence[PublishedRun]) -> list[dict[str, float]]:
    tables: defaultdict[tuple[object, ...], dict[str, float]] = defaultdict(dict)
    for run in runs:
        task = run.task.removeprefix(_TASK_PREFIX)
        if run.source_key != "specbench" or task in (run.task, _OVERALL):
            continue
        tables[run.target, run.draft, run.method, run.gpu, run.temperature][task] = run.speedup
    return [table for table in tables.values() if {"Math", "Translation"} <= set(table)]


def _maths_heads(evidence: AuditEvidence) -> str:
    """Compare math500 with the chat of mtbench, head by head, at equal N."""
    tables: defaultdict[tuple[object, ...], dict[str, float]] = defaultdict(dict)
    for fact in evidence.acceptance:
        key = (fact.target, fact.draft, fact.num_speculative_tokens, fact.temperature)
        tables[key][fact.task] = fact.tokens_per_round
    both = [t for t in tables.values() if {"math500", "mtbench"} <= set(t)]
    if not both:
        return ""
    above = sum(table["math500"] > table["mtbench"] for table in both)
    lowest = sum(min(table, key=lambda task: table[task]) == "math500" for table in both)
    return (
        f" Published EAGLE-3 heads accept more on math500 than on mtbench in {above} of "
        f"{len(both)} settings; math500 is the lowest task in {lowest or 'none'}."
    )


def eagle_acceptance(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Compare the acceptance given for EAGLE at its N with every published EAGLE chain."""
    length, claim = sheet["eagle-n"], "method-eagle-acceptance"
    rates = [
        (fact.tokens_per_round - 1) / fact.num_speculative_tokens
        for fact in evidence.acceptance
        if fact.method.value == "eagle3" and fact.num_speculative_tokens == length
    ]
    rates += [
        rate
        for run in evidence.runs
        if run.num_speculative_tokens == length and "eagle" in run.method.lower()
        if (rate := run.acceptance_rate) is not None
    ]
    rates = sorted({round(rate, 4) for rate in rates})  # some runs stand in both files
    if not rates:
        return
    as_chance = (float(tokens_per_round_iid(sheet[claim], length)) - 1) / length
    reason = (
        f"{len(rates)} published figures of EAGLE chains have at most {max(rates) * 100:.0f} % of "
        f"the drafts accepted at N = {length:g}, median {median(rates) * 100:.0f} %. Which rate "
        f"it means is not said: as the chance of each token, {sheet[claim] * 100:g} % is "
        f"{as_chance * 100:.0f} % of the drafts."
    )
    source = published("models_db/acceptance and models_db/published/speedup.csv")
    if as_chance > max(rates):
        yield claim, contradicted(reason, source, max(rates))
    else:
        yield claim, uncheckable(reason, source)
