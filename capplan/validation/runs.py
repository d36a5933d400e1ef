"""Speculative runs of a folder as the estimator sees them: machine, setting, outcome."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from capplan.estimate.lengths import MAX_LENGTH, LengthSeries
from capplan.estimate.round_transfer import MeasuredRound, RoundSetting
from capplan.validation.rows import (
    AcceptanceRow,
    GoldenRow,
    PublishedRows,
    SpeedupRow,
    ThroughputRow,
)

T = TypeVar("T")
Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Run:
    """One run with its tokens a round and its speedup.

    Attributes
    ----------
    source
        Key of the source.
    machine
        Source, target, GPU, engine, batch and context: what a round ratio belongs to. The source
        is part of it, so that a row that two papers print is never predicted from its copy.
    setting
        Draft, length, task, temperature, tokens a round.
    speedup
        Measured.
    context_tokens
        Of the text, where published: its acceptance may depend on it.
    """

    source: str
    machine: Key
    setting: RoundSetting
    speedup: float
    context_tokens: float | None = None

    @property
    def label(self) -> str:
        """What the run is, for people."""
        s = self.setting
        target, gpu, load = self.machine[1], self.machine[2], self.machine[-1]
        length = "" if s.num_speculative_tokens is None else f" N={s.num_speculative_tokens:g}"
        warmth = "" if s.temperature is None else f" T={s.temperature:g}"
        where = f"{gpu} B={load:g}" if isinstance(load, float) else f"{gpu}"
        return f"{target} + {s.draft} ({s.method}){length}, {s.task}{warmth}, {where}"

    @property
    def measured_round(self) -> MeasuredRound:
        """The round ratio that the run implies."""
        return MeasuredRound(self.setting, self.setting.tokens_per_round / self.speedup)

    @property
    def cell(self) -> Key:
        """All but the length: runs of one cell differ in N alone."""
        s = self.setting
        return (self.machine, s.drafting, s.task, s.temperature)


def speculative_runs(rows: PublishedRows) -> tuple[Run, ...]:
    """Return the runs that state both tokens a round and speedup."""
    found = [_run(row, _of_speedup(row)) for row in rows.speedup]
    found += [_run(row, _of_throughput(row)) for row in rows.throughput]
    return tuple(run for run in found if run is not None)


def others(run: Run, runs: Iterable[Run]) -> list[Run]:
    """Return the runs of the same machine without the run itself or a copy of it."""
    return [
        one
        for one in runs
        if one.machine == run.machine and (one.setting, one.speedup) != (run.setting, run.speedup)
    ]


def by_key(items: Iterable[T], keys: Iterable[Key]) -> Mapping[Key, list[T]]:
    """Group items by key, in order."""
    groups: defaultdict[Key, list[T]] = defaultdict(list)
    for item, key in zip(items, keys, strict=True):
        groups[key].append(item)
    return groups


def by_machine(runs: Sequence[Run]) -> Mapping[Key, list[Run]]:
    """Group runs by machine."""
    return by_key(runs, (run.machine for run in runs))


def _of_speedup(row: SpeedupRow) -> tuple[float | None, Key]:
    speedup = row.measured_speedup
    if speedup is None and row.t_ar_ms and row.t_sd_ms:
        speedup = row.t_ar_ms / row.t_sd_ms
    machine = (row.source_key, row.target, row.gpu, row.n_gpu, row.dtype, row.context)
    return speedup, (*machine, row.batch_size)


def _of_throughput(row: ThroughputRow) -> tuple[float | None, Key]:
    engine = (row.n_gpu, row.tp, row.engine, row.dtype, row.isl, row.osl, row.load_kind, row.unit)
    machine = (row.source_key, row.target, row.gpu, *engine, row.load)
    return throughput_speedup(row), machine


def throughput_speedup(row: ThroughputRow) -> float | None:
    """Return the speedup from the two measured speeds; the printed one only without them.

    Printed ratios are sometimes wrong, and times a token divide the other way round.
    """
    if not row.baseline or not row.spec:
        return row.speedup
    is_time = row.unit.startswith("TPOT")
    return row.baseline / row.spec if is_time else row.spec / row.baseline


def _run(row: SpeedupRow | ThroughputRow, found: tuple[float | None, Key]) -> Run | None:
    speedup, machine = found
    if speedup is None or speedup <= 0 or row.tau is None or row.tau < 1:
        return None
    setting = RoundSetting(
        draft=row.draft,
        method=row.method,
        num_speculative_tokens=row.N,
        verified_tokens=row.verify_tokens,
        task=row.task,
        temperature=row.temperature,
        tokens_per_round=row.tau,
    )
    return Run(row.source_key, machine, setting, speedup, _context(row))


@dataclass(frozen=True)
class PairText:
    """A pair drafting on one text: what a series of tokens a round belongs to."""

    source: str
    pair: Key
    method: str
    text: Key


def length_series(rows: PublishedRows) -> Mapping[PairText, LengthSeries]:
    """Return tokens a round by length of every pair and text; copies in two files count once.

    A length printed twice with different values is two runs: their mean is taken.
    """
    values: defaultdict[PairText, defaultdict[int, set[float]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for key, length, tau in _all_tokens(rows):
        if length is None or tau is None or not length.is_integer():
            continue
        if 1 <= length <= MAX_LENGTH and 1 <= tau <= length + 1:
            values[key][int(length)].add(tau)
    return {
        key: LengthSeries(
            tuple(sorted(found)), tuple(sum(found[n]) / len(found[n]) for n in sorted(found))
        )
        for key, found in values.items()
    }


Tokens = tuple[PairText, float | None, float | None]


def _all_tokens(rows: PublishedRows) -> Iterator[Tokens]:
    for family in (rows.speedup, rows.throughput, rows.acceptance):
        for row in family:
            if _is_chain(row):
                yield text_of(row), row.N, row.tau
    for golden in rows.golden_acceptance_length:
        yield _text_of_golden(golden), golden.N, golden.tau


def _is_chain(row: SpeedupRow | ThroughputRow | AcceptanceRow) -> bool:
    """Say whether a longer draft only adds positions to a shorter one: trees regroup them."""
    return row.verify_tokens is None or row.N is None or row.verify_tokens <= row.N + 1


def text_of(row: SpeedupRow | ThroughputRow | AcceptanceRow) -> PairText:
    """Return the series that a row belongs to."""
    text = (row.task, row.temperature, _context(row))
    return PairText(row.source_key, (row.target, row.draft), row.method, text)


def _context(row: SpeedupRow | ThroughputRow | AcceptanceRow) -> float | None:
    if isinstance(row, SpeedupRow):
        return row.context
    return row.isl if isinstance(row, ThroughputRow) else None


def text_of_run(run: Run) -> PairText:
    """Return the series that a run belongs to."""
    s = run.setting
    text = (s.task, s.temperature, run.context_tokens)
    return PairText(run.source, (run.machine[1], s.draft), s.method, text)


def _text_of_golden(row: GoldenRow) -> PairText:
    pair = (row.target, row.source, row.draft_sample_method)
    return PairText("golden", pair, row.method, (row.task, row.thinking, row.temperature))
