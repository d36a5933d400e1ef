"""Acceptance at every N as a curve with its interval: from published values or one assumption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.acceptance import MAX_NUM_SPECULATIVE_TOKENS, tokens_per_round_iid
from capplan.estimate.lengths import LengthSeries, length_curve
from capplan.estimate.task_transfer import transfer_task
from capplan.estimate.temperature import KEPT, drafter_of, transfer_temperature
from capplan.schema.pairing import AcceptanceFact, DraftSampleMethod
from capplan.schema.provenance import Kind, Source

Floats = NDArray[np.float64]

UNKNOWN_TEMPERATURE_RELATIVE_SE = 0.10
"""Sources that give no temperature may have been measured anywhere between 0 and 1."""
SINGLE_SOURCE_RELATIVE_SE = 0.05
"""One published value without a spread: rounding and an unknown text."""

DEFINITION = "emitted tokens a target pass, bonus token included, over all rounds"


@dataclass(frozen=True)
class AcceptanceCurve:
    """Tokens per round at N = 0 .. 16; index 0 is plain decoding and equals 1."""

    tokens_per_round: Floats
    relative_se: Floats
    definition: str
    source: Source
    draft_share: Floats = field(default_factory=lambda: np.ones(MAX_NUM_SPECULATIVE_TOKENS + 1))
    """Share of the rounds in which anything is proposed; 1 but for lookup drafts."""
    drafted: Floats = field(
        default_factory=lambda: np.arange(MAX_NUM_SPECULATIVE_TOKENS + 1, dtype=float)
    )
    """Tokens proposed in such a round; N but for lookup drafts, which may find fewer."""
    draft_sampling: DraftSampleMethod | None = None
    """How the drafts were drawn; None for lookups and where the source does not say."""

    def at(self, num_speculative_tokens: int) -> float:
        """Return tokens per round at N."""
        return float(self.tokens_per_round[num_speculative_tokens])


def curve_from_alpha(alpha: float, source: Source) -> AcceptanceCurve:
    """Return the i.i.d. curve of one assumed acceptance a token."""
    lengths = np.arange(MAX_NUM_SPECULATIVE_TOKENS + 1)
    return AcceptanceCurve(
        tokens_per_round=tokens_per_round_iid(alpha, lengths),
        relative_se=np.where(lengths > 0, SINGLE_SOURCE_RELATIVE_SE + 0.01 * lengths, 0.0),
        definition=f"{DEFINITION}; i.i.d. from one acceptance a token of {alpha:g}",
        source=source,
    )


def curve_from_facts(
    facts: Sequence[AcceptanceFact], temperature: float, task: str | None
) -> AcceptanceCurve | None:
    """Build a curve from published values of one pairing; None if there are none.

    Values at the temperature nearest to the wanted one are used and transferred; the spread
    between texts becomes the interval unless one text was asked for and is there.
    """
    if not facts:
        return None
    nearest = min(abs((fact.temperature or 0.0) - temperature) for fact in facts)
    chosen = [f for f in facts if abs((f.temperature or 0.0) - temperature) <= nearest + 1e-9]
    of_task = [f for f in chosen if task is not None and f.task.casefold() == task.casefold()]
    chosen = of_task or chosen
    lengths = sorted({fact.num_speculative_tokens for fact in chosen})
    values = {
        n: np.array([f.tokens_per_round for f in chosen if f.num_speculative_tokens == n])
        for n in lengths
    }
    series = LengthSeries(tuple(lengths), tuple(float(values[n].mean()) for n in lengths))
    curve, law_se = length_curve(series, MAX_NUM_SPECULATIVE_TOKENS)
    measured_at = float(np.mean([fact.temperature or 0.0 for fact in chosen]))
    kept = KEPT[drafter_of(chosen[0].method)]
    moved = transfer_temperature(curve, measured_at, temperature, kept)
    all_n = np.arange(MAX_NUM_SPECULATIVE_TOKENS + 1)
    # a transfer to a lower temperature must not emit more than it drafts
    curve = np.minimum(moved.tokens_per_round, all_n + 1.0)
    unknown = any(fact.temperature is None for fact in chosen)
    # what was observed was observed on the very traffic that is planned for
    own_text = bool(of_task) or _kind(chosen) is Kind.MEASURED
    spread = _run_spread(values) if own_text else _task_spread(values)
    spread = max([spread, *(fact.relative_se or 0.0 for fact in chosen)])
    relative_se = np.sqrt(
        spread**2
        + moved.relative_se**2
        + (UNKNOWN_TEMPERATURE_RELATIVE_SE if unknown else 0.0) ** 2
        + law_se**2
    )
    relative_se[0] = 0.0
    return AcceptanceCurve(
        tokens_per_round=curve,
        relative_se=relative_se,
        definition=_facts_definition(chosen, lengths, temperature, task),
        source=Source(
            kind=_kind(chosen) if measured_at == temperature else Kind.DERIVED,
            reference=_references([fact.source.reference for fact in chosen]),
            date=max((fact.source.date or "" for fact in chosen), default="") or None,
        ),
        draft_sampling=_sampling(chosen),
    )


def _sampling(facts: Sequence[AcceptanceFact]) -> DraftSampleMethod | None:
    """Return how drafts were drawn where all of the facts agree."""
    ways = {fact.draft_sampling for fact in facts}
    return ways.pop() if len(ways) == 1 else None


_FEW_REFERENCES = 3
_LENGTHS_TO_FIT = 2


def _references(references: Sequence[str]) -> str:
    """Name a few sources in full; of many rows of one source, the source and their number."""
    distinct = sorted(set(references))
    if len(distinct) <= _FEW_REFERENCES:
        return "; ".join(distinct)
    # a reference ends with its place in the source: "dashboard @commit, model/task/setting"
    by_source = Counter(reference.rpartition(", ")[0] or reference for reference in distinct)
    return "; ".join(f"{name} ({rows} rows)" for name, rows in by_source.items())


def _kind(facts: Sequence[AcceptanceFact]) -> Kind:
    """Return what a curve through the facts may claim to be: measured only if all of them were."""
    measured = all(fact.source.kind is Kind.MEASURED for fact in facts)
    return Kind.MEASURED if measured else Kind.CITED


def _run_spread(values: Mapping[int, Floats]) -> float:
    """Return the spread between runs of the very text, largest over the lengths."""
    spreads = [float(v.std(ddof=1) / v.mean()) for v in values.values() if len(v) > 1]
    return max([*spreads, SINGLE_SOURCE_RELATIVE_SE])


def _task_spread(values: Mapping[int, Floats]) -> float:
    """Return the error of an unmeasured text, from the length with most measured ones."""
    most = max(values.values(), key=len)
    return transfer_task(list(most)).log_sd


def tasks_text(tasks: Iterable[str], asked: str | None) -> str:
    """Name tasks, and the one that was asked for where it is not among them."""
    known = sorted(set(tasks))
    strange = asked is not None and asked.casefold() not in {task.casefold() for task in known}
    return ", ".join(known) + (f"; not on {asked}, of which nothing is known" if strange else "")


def _facts_definition(
    facts: Sequence[AcceptanceFact],
    lengths: Sequence[int],
    temperature: float,
    task: str | None,
) -> str:
    tasks = tasks_text((fact.task for fact in facts), task)
    temperatures = {fact.temperature for fact in facts}
    at = ", ".join(sorted("not published" if t is None else f"{t:g}" for t in temperatures))
    law = (
        "other N with a fall of acceptance typical of published drafts"
        if len(lengths) < _LENGTHS_TO_FIT
        else "other N with the fall of acceptance fitted to these"
    )
    shown = ", ".join(map(str, lengths))
    seen = "observed" if _kind(facts) is Kind.MEASURED else "published"
    return (
        f"{DEFINITION}; {seen} at N={shown} on {tasks} (temperature {at}), {law}, "
        f"brought to temperature {temperature:g}"
    )
