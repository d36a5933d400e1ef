"""A profile as text: what was measured, and actual beside projected speedup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from capplan.errors import CapplanError
from capplan.estimate.evidence import (
    ProfileEvidence,
    RoundPasses,
    evidence_from_profile,
    trace_of_rounds,
)
from capplan.estimate.speculation import guide_speedup
from capplan.estimate.tracing import TracedAcceptance, pool
from capplan.estimate.uncertainty import Z_95
from capplan.reporting.appendix import short_lines
from capplan.schema.audit import GuidePoint
from capplan.schema.pairing import Method
from capplan.schema.profile import Profile, RoundsCell
from capplan.units import BYTES_PER_GB, MS_PER_S

_SHOWN_LENGTHS = (1, 2, 4, 8)


def render_profile(
    profile: Profile,
    arrays: Mapping[str, NDArray[np.generic]],
    checklist: Sequence[GuidePoint] = (),
) -> str:
    """Return the summary that ``capplan profile`` prints; recomputed from raw values."""
    lines = [*_heading(profile)]
    try:
        evidence = evidence_from_profile(profile, arrays)
    except CapplanError as error:
        lines += ["", str(error)]
        return "\n".join([*lines, *_closing(profile)]) + "\n"
    lines += [*_steps(evidence), *_acceptance(evidence), *_rounds(evidence)]
    lines += ["", *short_lines(checklist)] if checklist else []
    lines += _closing(profile)
    return "\n".join(lines) + "\n"


def _heading(profile: Profile) -> Iterator[str]:
    device, target = profile.environment.device, profile.target
    draft = profile.draft
    drafted = "no draft"
    if draft is not None:
        drafted = (
            draft.llm.spec.id
            if draft.method is Method.DRAFT_MODEL
            else f"n-gram lookup {draft.prompt_lookup_min}-{draft.prompt_lookup_max}"
        )
    yield f"Profile {profile.id}: {target.spec.id} ({target.dtype}) with {drafted}"
    yield f"  on {device.count} x {device.name}, {profile.backend.name} {profile.backend.version}"
    for record in profile.memory:
        yield (
            f"  {record.role.value}: weights {record.weight_bytes / BYTES_PER_GB:.2f} GB, "
            f"KV {record.kv_bytes_per_token:,.0f} bytes a token"
        )


def _steps(evidence: ProfileEvidence) -> Iterator[str]:
    step, draft = evidence.target_step, evidence.draft_step
    yield ""
    yield f"Step time (fit of the grid; held-out error {step.relative_se:.1%})"
    yield "  batch   decode ms   verify 5 tokens / decode   cost ratio"
    context = 256.0
    for batch in (1, 2, 4, 8):
        decode = float(step.seconds(batch, 1, context))
        verify = float(step.seconds(batch, 5, context)) / decode
        ratio = "0 (lookup)"
        if draft is not None:
            ratio = f"{float(draft.seconds(batch, 1, context)) / decode:.3f}"
        yield f"  {batch:5d}   {decode * MS_PER_S:9.2f}   {verify:24.2f}   {ratio:>10s}"


def _acceptance(evidence: ProfileEvidence) -> Iterator[str]:
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
        cells = []
        for n in _SHOWN_LENGTHS:
            value, error = pool(traces).tokens_per_round(n)
            cells.append(f"{value:.3f} +-{Z_95 * error * value:.3f}")
        yield f"  {temperature:<11g}  {mode:13s}  " + "".join(f"{cell:>20s}" for cell in cells)
    coldest = min(temperature for temperature, _ in groups)
    yield f"  by task at temperature {coldest:g}, N=4:"
    for trace in evidence.traces:
        mode = trace.draft_sampling.value if trace.draft_sampling else "lookup"
        if trace.temperature == coldest and mode in {"greedy", "lookup"}:
            value, error = trace.tokens_per_round(4)
            rate, _ = trace.acceptance_rate(4)
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
    tokens, _ = traced.tokens_per_round(cell.num_speculative_tokens)
    passes = RoundPasses(evidence.target_step, evidence.draft_step, context)
    spent = passes.seconds(cell, traced) + evidence.round_overhead_s
    return tokens * float(evidence.target_step.seconds(cell.batch, 1, context)) / spent


def _rounds(evidence: ProfileEvidence) -> Iterator[str]:
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


def _closing(profile: Profile) -> Iterator[str]:
    yield ""
    yield f"Verdict: {profile.verdict.stability.value}"
    for reason in profile.verdict.reasons:
        yield f"  {reason.check}: {reason.value:.3g} (limit {reason.threshold:g}). {reason.remedy}"
    yield from _not_measured(profile)


_NAMED_SKIPS = 3


def _not_measured(profile: Profile) -> Iterator[str]:
    """Group what was left out by reason: a budget that ran out leaves dozens of like cells."""
    by_reason: dict[str, list[str]] = {}
    for skipped in profile.skipped:
        # a budget's reason goes on with the seconds each cell would have needed
        by_reason.setdefault(skipped.reason.partition(":")[0], []).append(skipped.what)
    for reason, left_out in by_reason.items():
        named = "; ".join(left_out[:_NAMED_SKIPS])
        more = len(left_out) - _NAMED_SKIPS
        others = f" and {more} more" if more > 0 else ""
        yield f"  not measured ({reason}): {named}{others}"
    if not profile.complete:
        yield "  Go on with the same command and --resume."
