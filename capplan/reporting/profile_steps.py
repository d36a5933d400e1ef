"""Step times of a profile: passes of LLMs, or an engine's own steps; as rows and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.estimate.engine_rounds import is_engine_profile
from capplan.estimate.evidence import ProfileEvidence
from capplan.schema.cells import Phase
from capplan.units import MS_PER_S

_SHOWN_BATCHES = (1, 2, 4, 8)
_MOST_LENGTHS = 5
_CONTEXT = 256.0
_VERIFIED = 5


@dataclass(frozen=True)
class PassRow:
    """Passes of the fitted LLMs at one batch."""

    batch: int
    decode_ms: float
    verification: float
    """Time of a pass over five tokens of each request, in decode steps."""
    cost_ratio: float | None
    """Of a draft pass; None for lookup."""


@dataclass(frozen=True)
class EngineRow:
    """An engine's steps at one batch."""

    batch: int
    plain_ms: float
    rounds: tuple[float, ...]
    """Of each length, in plain steps."""


@dataclass(frozen=True)
class EngineSteps:
    """An engine's own steps."""

    context: float
    points: int
    lengths: tuple[int, ...]
    rows: tuple[EngineRow, ...]


def pass_rows(evidence: ProfileEvidence) -> tuple[PassRow, ...]:
    """Return what the fit of the grid says of a few batches."""
    return tuple(_pass(evidence, batch) for batch in _SHOWN_BATCHES)


def _pass(evidence: ProfileEvidence, batch: int) -> PassRow:
    step, draft = evidence.target_step, evidence.draft_step
    decode = float(step.seconds(batch, 1, _CONTEXT))
    drafting = None if draft is None else float(draft.seconds(batch, 1, _CONTEXT)) / decode
    verification = float(step.seconds(batch, _VERIFIED, _CONTEXT)) / decode
    return PassRow(batch, decode * MS_PER_S, verification, drafting)


def engine_steps(evidence: ProfileEvidence) -> EngineSteps:
    """Return rounds in plain steps: what tokens per round must exceed to be worth it."""
    step, timing = evidence.target_step, evidence.profile.timing
    ran = [cell for cell in timing if cell.phase in (Phase.DECODE, Phase.ROUND)]
    lengths = sorted({c.tokens_per_sequence - 1 for c in ran if c.phase is Phase.ROUND})
    context = float(sum(cell.context for cell in ran)) / len(ran)
    shown = tuple(lengths[:_MOST_LENGTHS])
    rows = []
    for batch in sorted({cell.batch for cell in ran}):
        plain = float(step.seconds(batch, 1, context))
        ratios = tuple(evidence.round_seconds(batch, n, context) / plain for n in shown)
        rows.append(EngineRow(batch, plain * MS_PER_S, ratios))
    return EngineSteps(context, len(ran), shown, tuple(rows))


def step_lines(evidence: ProfileEvidence) -> Iterator[str]:
    """Say how long steps take, by batch."""
    return _rounds(evidence) if is_engine_profile(evidence.profile) else _passes(evidence)


def _passes(evidence: ProfileEvidence) -> Iterator[str]:
    yield ""
    yield f"Step time (fit of the grid; held-out error {evidence.target_step.relative_se:.1%})"
    yield "  batch   decode ms   verify 5 tokens / decode   cost ratio"
    for row in pass_rows(evidence):
        ratio = "0 (lookup)" if row.cost_ratio is None else f"{row.cost_ratio:.3f}"
        yield f"  {row.batch:5d}   {row.decode_ms:9.2f}   {row.verification:24.2f}   {ratio:>10s}"


def _rounds(evidence: ProfileEvidence) -> Iterator[str]:
    found = engine_steps(evidence)
    yield ""
    yield (
        f"Engine steps at a context of {found.context:,.0f} tokens (fit of {found.points} points; "
        f"held-out error {evidence.target_step.relative_se:.1%})"
    )
    yield "  batch   plain step ms   " + "   ".join(f"round N={n}" for n in found.lengths)
    for row in found.rows:
        cells = "   ".join(f"{ratio:8.2f}x" for ratio in row.rounds)
        yield f"  {row.batch:5d}   {row.plain_ms:13.2f}   {cells}"
    yield "  A round pays if it emits more tokens than it takes plain steps."
