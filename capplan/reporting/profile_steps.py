"""Step times of a profile as text: passes of LLMs, or an engine's own steps."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.estimate.engine_rounds import is_engine_profile
from capplan.estimate.evidence import ProfileEvidence
from capplan.schema.profile import Phase
from capplan.units import MS_PER_S

_SHOWN_BATCHES = (1, 2, 4, 8)
_MOST_LENGTHS = 5


def step_lines(evidence: ProfileEvidence) -> Iterator[str]:
    """Say how long steps take, by batch."""
    return _rounds(evidence) if is_engine_profile(evidence.profile) else _passes(evidence)


def _passes(evidence: ProfileEvidence) -> Iterator[str]:
    step, draft = evidence.target_step, evidence.draft_step
    yield ""
    yield f"Step time (fit of the grid; held-out error {step.relative_se:.1%})"
    yield "  batch   decode ms   verify 5 tokens / decode   cost ratio"
    context = 256.0
    for batch in _SHOWN_BATCHES:
        decode = float(step.seconds(batch, 1, context))
        verify = float(step.seconds(batch, 5, context)) / decode
        ratio = "0 (lookup)"
        if draft is not None:
            ratio = f"{float(draft.seconds(batch, 1, context)) / decode:.3f}"
        yield f"  {batch:5d}   {decode * MS_PER_S:9.2f}   {verify:24.2f}   {ratio:>10s}"


def _rounds(evidence: ProfileEvidence) -> Iterator[str]:
    """Show rounds in plain steps: what tokens per round must exceed to be worth it."""
    step, timing = evidence.target_step, evidence.profile.timing
    ran = [cell for cell in timing if cell.phase in (Phase.DECODE, Phase.ROUND)]
    batches = sorted({cell.batch for cell in ran})
    lengths = sorted({c.tokens_per_sequence - 1 for c in ran if c.phase is Phase.ROUND})
    context = float(sum(cell.context for cell in ran)) / len(ran)
    yield ""
    yield (
        f"Engine steps at a context of {context:,.0f} tokens (fit of {len(ran)} points; held-out "
        f"error {step.relative_se:.1%})"
    )
    shown = lengths[:_MOST_LENGTHS]
    yield "  batch   plain step ms   " + "   ".join(f"round N={n}" for n in shown)
    for batch in batches:
        plain = float(step.seconds(batch, 1, context))
        ratios = [evidence.round_seconds(batch, n, context) / plain for n in shown]
        cells = "   ".join(f"{ratio:8.2f}x" for ratio in ratios)
        yield f"  {batch:5d}   {plain * MS_PER_S:13.2f}   {cells}"
    yield "  A round pays if it emits more tokens than it takes plain steps."
