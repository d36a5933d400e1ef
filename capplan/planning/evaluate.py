"""Evaluate one way to draft on every hardware choice, length and batch at once.

Arrays have the axes (hardware, N, batch); singleton axes broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.curves import AcceptanceCurve
from capplan.estimate.memory import MemoryPlan
from capplan.estimate.planned_round import RoundFactors, RoundParts, RoundRatio, round_in_steps
from capplan.estimate.speculation import guide_speedup
from capplan.estimate.steptime import StepTime, VerificationExtra
from capplan.schema.plan import SpreadCause
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Slo, Workload
from capplan.units import MS_PER_S

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

BATCHES = np.array(
    [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024], dtype=float
)


@dataclass(frozen=True)
class FirstToken:
    """Time to first token beyond a request's own prompt."""

    fixed_s: float
    queue_per_request: float
    """Share of a prompt's own time that each other request adds."""
    token_s: float
    """Work of a prompt token that hardware does not shorten."""
    token_queue_s: float
    """More of it for each other request."""

    def seconds(self, prompt_s: Floats, prompt_tokens: float, batch: Floats) -> Floats:
        """Return the time to first token at a batch."""
        others = batch - 1.0
        tokens = prompt_tokens * (self.token_s + self.token_queue_s * others)
        result: Floats = self.fixed_s + prompt_s * (1.0 + self.queue_per_request * others) + tokens
        return result


@dataclass(frozen=True)
class StepModels:
    """Step times of target and draft on the same hardware axis, with their spread."""

    target: StepTime
    draft: StepTime | None
    drafts_with_head: bool
    round_factors: RoundFactors
    draft_pass_s: Quantity
    """Fixed cost of a draft pass beyond its step time."""
    passes_scale_with_n: bool
    max_verified_tokens: float
    """Tokens of a verification (all sequences) beyond which these times do not hold."""
    first_token: FirstToken


@dataclass(frozen=True)
class Grid:
    """Outcome of every (hardware, N, batch)."""

    lengths: NDArray[np.int64]
    batches: Floats
    tokens_per_round: Floats
    tokens_per_round_se: Floats
    round_ratio: Floats
    round_log_down: Floats
    round_log_up: Floats
    """How far the interval of the round ratio reaches, as logarithms."""
    round_causes: Mapping[SpreadCause, Floats]
    """Shares of the squared reach upwards by what makes the ratio uncertain."""
    cost_ratio: tuple[Floats, ...] | None
    """Low, mid, high."""
    speedup: Floats
    guide_speedup: Floats
    tpot_s: Floats
    baseline_tpot_s: Floats
    ttft_s: Floats
    throughput: Floats
    """Output tokens a second of one replica, shape (hardware, N, batch)."""
    fits_memory: Booleans
    within_tpot: Booleans
    within_ttft: Booleans
    memory: MemoryPlan
    request_tokens: Floats
    """Length of a whole request along the N axis, the tokens of one more round included."""
    request_bytes: Floats
    """KV bytes of such a request, shape (hardware, N, 1)."""
    decode_relative_se: Floats
    """Along the hardware axis."""

    @property
    def feasible(self) -> Booleans:
        """Whether memory and limits allow the point."""
        return self.fits_memory & self.within_tpot & self.within_ttft


@dataclass(frozen=True)
class _Drafting:
    """N, tokens really drafted and how often, along the N axis."""

    lengths: Floats
    drafted: Floats
    share: Floats


def draft_lengths(
    curve: AcceptanceCurve | None, max_num_speculative_tokens: int
) -> NDArray[np.int64]:
    """Return the N axis: 1 to the largest, or 0 alone where nothing drafts."""
    if curve is None:
        return np.array([0])
    return np.arange(1, max_num_speculative_tokens + 1)


def _draft_seconds(models: StepModels, lengths: Floats, context: float) -> Floats:
    """Return one draft pass without its fixed cost; drafted in one pass, it takes N tokens."""
    if models.draft is None:
        return np.zeros((1, 1, len(BATCHES)))
    tokens = np.ones_like(lengths) if models.passes_scale_with_n else np.maximum(lengths, 1.0)
    return models.draft.seconds(BATCHES, tokens, context)


def _cost_ratio(models: StepModels, lengths: Floats, context: float) -> tuple[Floats, ...]:
    """Return one draft pass over a plain step: low, mid, high."""
    factor = models.round_factors.expected("head" if models.drafts_with_head else "draft")
    pass_s = factor * _draft_seconds(models, lengths, context)
    decode = models.target.seconds(BATCHES, 1.0, context)
    fixed = models.draft_pass_s if models.draft is not None else Quantity.exact(0.0)
    return tuple((pass_s + end) / decode for end in (fixed.low, fixed.mid, fixed.high))


def _round(models: StepModels, drafting: _Drafting, context: float) -> RoundRatio:
    """Return what a round costs; a round without a draft is a plain step."""
    lengths = drafting.lengths
    extra = models.target.extra(BATCHES, 1.0 + drafting.drafted, context)
    passes = lengths if models.passes_scale_with_n else np.minimum(lengths, 1.0)
    if models.draft is None:
        passes = np.zeros_like(lengths)
    shape = np.broadcast_shapes(extra.total.shape, lengths.shape)
    parts = RoundParts(
        decode_s=np.broadcast_to(models.target.seconds(BATCHES, 1.0, context), shape),
        extra=VerificationExtra(
            drafting.share * extra.experts,
            drafting.share * extra.arithmetic,
            drafting.share * extra.exchange,
        ),
        drafting_s=passes * _draft_seconds(models, lengths, context),
        passes=passes,
        is_head=models.drafts_with_head,
    )
    return round_in_steps(parts, models.round_factors)


def evaluate(
    models: StepModels,
    curve: AcceptanceCurve | None,
    max_num_speculative_tokens: int,
    memory: MemoryPlan,
    max_num_seqs: Floats,
    workload: Workload,
    slo: Slo,
) -> Grid:
    """Evaluate N = 0 (no drafts given) or 1 .. max on every hardware choice and batch.

    Parameters
    ----------
    curve
        Acceptance; None evaluates plain decoding alone.
    memory
        Arrays of shape (hardware, N, 1).
    max_num_seqs
        The engine's batch limit, shape (hardware, 1, 1).
    """
    lengths = draft_lengths(curve, max_num_speculative_tokens)
    n = lengths.astype(float)[None, :, None]
    tau = np.ones_like(n) if curve is None else curve.tokens_per_round[lengths][None, :, None]
    tau_se = np.zeros_like(n) if curve is None else curve.relative_se[lengths][None, :, None]
    context = workload.prompt_tokens + workload.output_tokens / 2.0

    decode = models.target.seconds(BATCHES, 1.0, context)
    drafting = _Drafting(n, n, np.ones_like(n))
    if curve is not None:
        drafted, share = curve.drafted[lengths], curve.draft_share[lengths]
        drafting = _Drafting(n, drafted[None, :, None], share[None, :, None])
    cost = _round(models, drafting, context)
    ratio = np.where(n > 0, cost.value, 1.0)

    prompt = float(workload.prompt_tokens)
    met = models.target.interference_seconds(prompt)
    share = (BATCHES - 1.0) / workload.output_tokens * met
    tpot = decode * ratio / tau + share
    baseline = decode + share
    ttft = models.first_token.seconds(models.target.prompt_seconds(prompt), prompt, BATCHES)
    sequence = workload.prompt_tokens + workload.output_tokens + n + 1.0
    request_bytes = memory.request_bytes(sequence)
    fits = BATCHES * request_bytes <= memory.kv_pool_bytes
    fits &= max_num_seqs >= BATCHES
    fits &= (n == 0) | (BATCHES * (n + 1.0) <= models.max_verified_tokens)
    cost_ratio = None
    if curve is not None:
        cost_ratio = _cost_ratio(models, n, context)
    safe_n = np.maximum(n, 1.0)
    guide = (
        guide_speedup((tau - 1.0) / safe_n, n, cost_ratio[1])
        if cost_ratio is not None
        else np.ones_like(ratio)
    )
    shape = np.broadcast_shapes(tpot.shape, fits.shape)

    def full(values: NDArray[np.generic]) -> Floats:
        return np.broadcast_to(values, shape).astype(float)

    return Grid(
        lengths=lengths,
        batches=BATCHES,
        tokens_per_round=tau[0, :, 0],
        tokens_per_round_se=tau_se[0, :, 0],
        round_ratio=full(ratio),
        round_log_down=full(np.where(n > 0, cost.log_down, 0.0)),
        round_log_up=full(np.where(n > 0, cost.log_up, 0.0)),
        round_causes={cause: full(part) for cause, part in cost.causes.items()},
        cost_ratio=cost_ratio,
        speedup=full(tau / ratio),
        guide_speedup=full(guide),
        tpot_s=full(tpot),
        baseline_tpot_s=full(baseline),
        ttft_s=full(ttft),
        throughput=full(BATCHES / tpot),
        fits_memory=full(fits).astype(bool),
        within_tpot=_within(full(tpot), slo.tpot_ms),
        within_ttft=_within(full(ttft), slo.ttft_ms),
        memory=memory,
        request_tokens=sequence[0, :, 0],
        request_bytes=request_bytes,
        decode_relative_se=np.broadcast_to(
            np.ravel(models.target.relative_se), (shape[0],)
        ).astype(float),
    )


def _within(seconds: Floats, limit_ms: float | None) -> Booleans:
    if limit_ms is None:
        return np.ones(seconds.shape, dtype=bool)
    return seconds * MS_PER_S <= limit_ms
