"""Evaluate one way to draft on every hardware choice, length and batch at once.

Arrays have the axes (hardware, N, batch); singleton axes broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.curves import AcceptanceCurve
from capplan.estimate.kv_room import room_tokens
from capplan.estimate.memory import MemoryPlan
from capplan.estimate.planned_round import (
    RoundFactors,
    RoundParts,
    cost_ratio,
    expected_round,
)
from capplan.estimate.steptime import StepTime, VerificationExtra
from capplan.planning.grid import Grid, RoundModel, with_tokens, within
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Slo, Workload

Floats = NDArray[np.float64]

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
    cost_ratio_se: float = 0.0
    """Relative error of a draft pass over a plain step where both were measured."""


@dataclass(frozen=True)
class _Step:
    """A plain step at the context at which the traffic is met."""

    decode_s: Floats
    context: float


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
    tokens = np.ones((1, 1, 1)) if models.passes_scale_with_n else np.maximum(lengths, 1.0)
    return models.draft.seconds(BATCHES, tokens, context)


def _cost_ratio(models: StepModels, draft_s: Floats, decode: Floats) -> tuple[Floats, ...]:
    """Return one draft pass over a plain step: low, mid, high."""
    return cost_ratio(
        draft_s,
        decode,
        models.draft_pass_s if models.draft is not None else Quantity.exact(0.0),
        models.round_factors,
        is_head=models.drafts_with_head,
        relative_se=models.cost_ratio_se,
    )


def _round_parts(
    models: StepModels, curve: AcceptanceCurve, lengths: Floats, draft_s: Floats, step: _Step
) -> RoundParts:
    """Return what a round is made of; a round without a draft is a plain step."""
    at = lengths[0, :, 0].astype(int)
    drafted, share = curve.drafted[at][None, :, None], curve.draft_share[at][None, :, None]
    extra = models.target.extra(BATCHES, 1.0 + drafted, step.context)
    passes = lengths if models.passes_scale_with_n else np.minimum(lengths, 1.0)
    if models.draft is None:
        passes = np.zeros_like(lengths)
    return RoundParts(
        decode_s=step.decode_s,
        extra=VerificationExtra(
            share * extra.experts, share * extra.arithmetic, share * extra.exchange
        ),
        drafting_s=passes * draft_s,
        passes=passes,
        is_head=models.drafts_with_head,
    )


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
    step = _plain_step(models, workload)
    prompt = float(workload.prompt_tokens)
    met = models.target.interference_seconds(prompt)
    share = met / workload.output_tokens
    ttft = models.first_token.seconds(models.target.prompt_seconds(prompt), prompt, BATCHES)
    sequence = room_tokens(workload, BATCHES[None, None, :]) + n + 1.0
    request_bytes = memory.request_bytes(sequence)
    fits = BATCHES * request_bytes <= memory.kv_pool_bytes
    fits = fits & (max_num_seqs >= BATCHES)
    fits &= (n == 0) | (BATCHES * (n + 1.0) <= models.max_verified_tokens)
    shape = np.broadcast_shapes(step.decode_s.shape, share.shape, fits.shape)
    ratio, passes_in_steps, round_model = np.ones((1, 1, 1)), None, None
    if curve is not None:
        draft_s = _draft_seconds(models, n, step.context)
        passes_in_steps = _cost_ratio(models, draft_s, step.decode_s)
        parts = _round_parts(models, curve, n, draft_s, step)
        ratio = expected_round(parts, models.round_factors)
        round_model = RoundModel(parts, models.round_factors, shape)

    grid = Grid(
        lengths=lengths,
        batches=BATCHES,
        tokens_per_round=np.ones(1) if curve is None else curve.tokens_per_round[lengths],
        tokens_per_round_se=np.zeros(1) if curve is None else curve.relative_se[lengths],
        round_ratio=np.broadcast_to(ratio, shape),
        cost_ratio=passes_in_steps,
        tpot_s=np.empty(shape),
        decode_s=np.broadcast_to(step.decode_s, (shape[0], 1, shape[2])),
        prompt_share_s=np.broadcast_to(share, (shape[0], 1, 1)),
        own_prompt_s=np.broadcast_to(
            _own_prompt_s(models, share, workload), (shape[0], 1, shape[2])
        ),
        ttft_s=np.broadcast_to(ttft, shape),
        throughput=np.empty(shape),
        fits_memory=np.broadcast_to(fits, shape),
        within_tpot=np.ones(shape, dtype=bool),
        within_ttft=np.broadcast_to(within(ttft, slo.ttft_ms), shape),
        memory=memory,
        request_tokens=sequence[0],
        request_bytes=request_bytes,
        decode_relative_se=np.broadcast_to(
            np.ravel(models.target.relative_se), (shape[0],)
        ).astype(float),
        round_model=round_model,
    )
    return with_tokens(grid, grid.tokens_per_round, slo)


def _own_prompt_s(models: StepModels, share: Floats, workload: Workload) -> Floats:
    """Return what a request's own prompt takes of the replica, a token of its answer, by batch.

    Among others it is one more prompt beside their steps. A request that runs alone has no steps
    to hide the host's work in: its prompt takes as long as by itself, if that is longer.
    """
    prompt = float(workload.prompt_tokens)
    by_itself = models.target.prompt_seconds(prompt) + prompt * models.first_token.token_s
    alone = np.maximum(by_itself / workload.output_tokens, share)
    result: Floats = np.where(BATCHES > 1, share, alone)
    return result


def _plain_step(models: StepModels, workload: Workload) -> _Step:
    context = workload.prompt_tokens + workload.output_tokens / 2.0
    return _Step(models.target.seconds(BATCHES, 1.0, context), context)
