"""Acceptance of a profile as text, and speculation that was really run beside its projection."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.estimate.evidence import ProfileEvidence, RoundPasses, trace_of_rounds
from capplan.estimate.speculation import guide_speedup
from capplan.estimate.tracing import TracedAcceptance, pool
from capplan.estimate.uncertainty import Z_95
from capplan.schema.profile import RoundsCell

_SHOWN_LENGTHS = (1, 2, 4, 8)
_TASK_LENGTH = 4


def acceptance_lines(evidence: ProfileEvidence) -> Iterator[str]:
    """Tabulate tokens per round by temperature and N, and acceptance by task."""
    groups: dict[tuple[float, str], list[TracedAcceptance]] = {}
    for trace in evidence.traces:
        mode = trace.draft_sampling.value if trace.draft_sampling else "lookup"
        groups.setdefault((trace.temperature, mode), []).append(trace)
    if not groups:
        return
    yield ""
    yield "Tokens per round, bonus included (95 % interval, clustered by request)"
    yield "  temperature  drafts         " + "".join(f"{f'N={n}':>20s}" for n in _SHOWN_LENGTHS)
    for (temperature, mode), traces in sorted(groups.items()):
        values, errors = pool(traces).curve()
        cells = [
            f"{values[n]:.3f} +-{Z_95 * errors[n] * values[n]:.3f}" if n < len(values) else "-"
            for n in _SHOWN_LENGTHS
        ]
        yield f"  {temperature:<11g}  {mode:13s}  " + "".join(f"{cell:>20s}" for cell in cells)
    coldest = min(temperature for temperature, _ in groups)
    length = min(_TASK_LENGTH, *(len(trace.counts) - 1 for trace in evidence.traces))
    yield f"  by task at temperature {coldest:g}, N={length}:"
    for trace in evidence.traces:
        mode = trace.draft_sampling.value if trace.draft_sampling else "lookup"
        if trace.temperature == coldest and mode in {"greedy", "lookup"}:
            value, error = trace.tokens_per_round(length)
            rate, _ = trace.acceptance_rate(length)
            yield (
                f"    {trace.task:12s} {value:.3f} +-{Z_95 * error * value:.3f}   "
                f"acceptance rate {rate:.1%}"
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


def round_lines(evidence: ProfileEvidence) -> Iterator[str]:
    """Tabulate speculation that was run: what it did beside what was projected."""
    cells = evidence.profile.rounds
    if not cells:
        return
    yield ""
    yield "Speculation really run, beside plain decoding of the same requests"
    yield (
        "  T     N   acceptance   accepted/round   tokens/round   guide's x   projected x   "
        "actual x   same text"
    )
    context = evidence.mean_context
    for cell in cells:
        rounds = max(cell.rounds, 1)
        rate = cell.accepted / max(cell.drafted, 1)
        draft = evidence.draft_step
        ratio = 0.0
        if draft is not None:
            decode = evidence.target_step.seconds(cell.batch, 1, context)
            ratio = float(draft.seconds(cell.batch, 1, context) / decode)
        guide = float(guide_speedup(rate, cell.drafted / rounds, ratio))
        actual = (cell.emitted / cell.seconds) / (cell.baseline_emitted / cell.baseline_seconds)
        projected = projected_speedup(evidence, cell)
        shown = "-" if projected is None else f"{projected:.2f}"
        same = "-"
        if cell.identical_outputs is not None:
            same = f"{cell.identical_outputs}/{cell.requests}"
        yield (
            f"  {cell.temperature:<4g} {cell.num_speculative_tokens:2d}   {rate:10.1%}   "
            f"{cell.accepted / rounds:14.3f}   {cell.emitted / rounds:12.3f}   {guide:9.2f}   "
            f"{shown:>11s}   {actual:8.2f}   {same:>9s}"
        )
