"""Acceptance of a profile, and speculation that was really run beside its projection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.estimate.evidence import ProfileEvidence
from capplan.estimate.round_overhead import RoundPasses, trace_of_rounds
from capplan.estimate.speculation import guide_speedup
from capplan.estimate.tracing import TracedAcceptance, pool
from capplan.estimate.uncertainty import Z_95
from capplan.schema.cells import RoundsCell

SHOWN_LENGTHS = (1, 2, 4, 8)
_TASK_LENGTH = 4


@dataclass(frozen=True)
class Spread:
    """A figure and half the width of its 95 % interval."""

    mid: float
    half: float


@dataclass(frozen=True)
class AcceptanceRow:
    """Tokens a round at one temperature and one way to draft."""

    temperature: float
    mode: str
    tokens: tuple[Spread | None, ...]
    """At each of ``SHOWN_LENGTHS``; None beyond what was traced."""


@dataclass(frozen=True)
class TaskRow:
    """One task at the lowest temperature."""

    task: str
    tokens: Spread
    acceptance_rate: float


@dataclass(frozen=True)
class RoundRow:
    """Speculation really run, beside plain decoding of the same requests."""

    cell: RoundsCell
    acceptance_rate: float
    accepted_per_round: float
    tokens_per_round: float
    guide: float
    projected: float | None
    actual: float
    same_text: str


def acceptance_rows(evidence: ProfileEvidence) -> tuple[AcceptanceRow, ...]:
    """Return tokens a round by temperature and way to draft, all tasks together."""
    groups: dict[tuple[float, str], list[TracedAcceptance]] = {}
    for trace in evidence.traces:
        groups.setdefault((trace.temperature, _mode(trace)), []).append(trace)
    return tuple(
        AcceptanceRow(temperature, mode, _curve(traces))
        for (temperature, mode), traces in sorted(groups.items())
    )


def _mode(trace: TracedAcceptance) -> str:
    return trace.draft_sampling.value if trace.draft_sampling else "lookup"


def _curve(traces: list[TracedAcceptance]) -> tuple[Spread | None, ...]:
    values, errors = pool(traces).curve()
    return tuple(
        Spread(float(values[n]), float(Z_95 * errors[n] * values[n])) if n < len(values) else None
        for n in SHOWN_LENGTHS
    )


def task_rows(evidence: ProfileEvidence) -> tuple[float, int, tuple[TaskRow, ...]]:
    """Return the lowest temperature traced, the length shown, and a row a task."""
    coldest = min(trace.temperature for trace in evidence.traces)
    length = min(_TASK_LENGTH, *(len(trace.counts) - 1 for trace in evidence.traces))
    rows = []
    for trace in evidence.traces:
        if trace.temperature == coldest and _mode(trace) in {"greedy", "lookup"}:
            value, error = trace.tokens_per_round(length)
            rate, _ = trace.acceptance_rate(length)
            rows.append(TaskRow(trace.task, Spread(value, Z_95 * error * value), rate))
    return coldest, length, tuple(rows)


def acceptance_lines(evidence: ProfileEvidence) -> Iterator[str]:
    """Tabulate tokens per round by temperature and N, and acceptance by task."""
    rows = acceptance_rows(evidence)
    if not rows:
        return
    yield ""
    yield "Tokens per round, bonus included (95 % interval, clustered by request)"
    yield "  temperature  drafts         " + "".join(f"{f'N={n}':>20s}" for n in SHOWN_LENGTHS)
    for row in rows:
        cells = [f"{one.mid:.3f} +-{one.half:.3f}" if one else "-" for one in row.tokens]
        yield f"  {row.temperature:<11g}  {row.mode:13s}  " + "".join(
            f"{cell:>20s}" for cell in cells
        )
    coldest, length, tasks = task_rows(evidence)
    yield f"  by task at temperature {coldest:g}, N={length}:"
    for task in tasks:
        yield (
            f"    {task.task:12s} {task.tokens.mid:.3f} +-{task.tokens.half:.3f}   "
            f"acceptance rate {task.acceptance_rate:.1%}"
        )


def projected_speedup(evidence: ProfileEvidence, cell: RoundsCell) -> float | None:
    """Return the speedup that trace and step times project for a really run cell.

    Tokens per round and drafting come from the trace of the same requests, the round from the
    fitted passes and the measured overhead, at the mean context of the trace.
    """
    traced = trace_of_rounds(cell, evidence.traces)
    if traced is None:
        return None
    context = evidence.mean_context
    tokens = traced.curve()[0][cell.num_speculative_tokens]
    passes = RoundPasses(evidence.target_step, evidence.draft_step, context)
    spent = passes.seconds(cell, traced) + evidence.round_overhead_s
    return float(tokens * evidence.target_step.seconds(cell.batch, 1, context)) / spent


def round_rows(evidence: ProfileEvidence) -> tuple[RoundRow, ...]:
    """Return every cell that was run, with what the guide and the trace say of it."""
    return tuple(_round(evidence, cell) for cell in evidence.profile.rounds)


def _round(evidence: ProfileEvidence, cell: RoundsCell) -> RoundRow:
    rounds = max(cell.rounds, 1)
    rate = cell.accepted / max(cell.drafted, 1)
    context, draft, ratio = evidence.mean_context, evidence.draft_step, 0.0
    if draft is not None:
        decode = evidence.target_step.seconds(cell.batch, 1, context)
        ratio = float(draft.seconds(cell.batch, 1, context) / decode)
    same = "-"
    if cell.identical_outputs is not None:
        same = f"{cell.identical_outputs}/{cell.requests}"
    return RoundRow(
        cell=cell,
        acceptance_rate=rate,
        accepted_per_round=cell.accepted / rounds,
        tokens_per_round=cell.emitted / rounds,
        guide=float(guide_speedup(rate, cell.drafted / rounds, ratio)),
        projected=projected_speedup(evidence, cell),
        actual=(cell.emitted / cell.seconds) / (cell.baseline_emitted / cell.baseline_seconds),
        same_text=same,
    )


def round_lines(evidence: ProfileEvidence) -> Iterator[str]:
    """Tabulate speculation that was run: what it did beside what was projected."""
    rows = round_rows(evidence)
    if not rows:
        return
    yield ""
    yield "Speculation really run, beside plain decoding of the same requests"
    yield (
        "  T     N   acceptance   accepted/round   tokens/round   guide's x   projected x   "
        "actual x   same text"
    )
    for row in rows:
        shown = "-" if row.projected is None else f"{row.projected:.2f}"
        yield (
            f"  {row.cell.temperature:<4g} {row.cell.num_speculative_tokens:2d}   "
            f"{row.acceptance_rate:10.1%}   {row.accepted_per_round:14.3f}   "
            f"{row.tokens_per_round:12.3f}   {row.guide:9.2f}   {shown:>11s}   "
            f"{row.actual:8.2f}   {row.same_text:>9s}"
        )
