"""What a token takes at every batch and length, from what a profile shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.acceptance import MAX_NUM_SPECULATIVE_TOKENS
from capplan.estimate.adaptive import LengthTimes
from capplan.estimate.cuda_graphs import step_seconds
from capplan.estimate.curves import AcceptanceCurve
from capplan.estimate.evidence import ProfileEvidence
from capplan.estimate.length_spread import (
    LengthDraws,
    RoundSpread,
    tokens_of_curve,
    tokens_of_requests,
)
from capplan.estimate.steptime import verify_seconds
from capplan.estimate.tracing import TracedAcceptance, pool
from capplan.schema.cells import DraftSampling
from capplan.schema.pairing import Method

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LOOKUP = (Method.NGRAM, Method.SUFFIX)


@dataclass(frozen=True)
class RoundTimes:
    """Seconds of a round and of its parts, shape (batches, lengths)."""

    batches: Integers
    lengths: Integers
    round_s: Floats
    pass_s: Floats
    """One more pass of the draft, shape (batches,); 0 where drafts cost none."""

    def at(self, batch: int) -> Floats:
        """Return a round's time at one batch of the grid, by length."""
        row: Floats = self.round_s[int(np.searchsorted(self.batches, batch))]
        return row


def round_times(
    evidence: ProfileEvidence,
    batches: Integers,
    lengths: Integers,
    context: float,
    curve: AcceptanceCurve | None = None,
    captured: int | None = None,
) -> RoundTimes:
    """Return what rounds take by the profile's fitted steps.

    Parameters
    ----------
    evidence
        Fitted steps and overhead.
    batches, lengths
        The grid; N = 0 is a plain step.
    context
        Tokens in each request's cache.
    curve
        Of it, how often a lookup drafts at all, and how much; None for rounds that draft N.
    captured
        Tokens of a step up to which CUDA graphs reach; None leaves steps as they were fitted.
    """
    rows = batches[:, None].astype(float)
    n = lengths[None, :].astype(float)
    step = evidence.target_step
    drafted, share = n, np.ones_like(n)
    if evidence.method in _LOOKUP and curve is not None:
        drafted, share = curve.drafted[lengths][None, :], curve.draft_share[lengths][None, :]
    verify = verify_seconds(step, rows, drafted, share, context)
    if captured is not None:
        edge = np.maximum(captured // (n + 1.0), 1.0)
        edge_s = verify_seconds(step, edge, drafted, share, context)
        _, verify, _ = step_seconds(verify, edge_s, rows * (n + 1.0), captured)
    pass_s = np.zeros(len(batches))
    if evidence.draft_step is not None:
        pass_s = np.asarray(evidence.draft_step.seconds(batches.astype(float), 1.0, context))
    overhead = np.where(n > 0, evidence.round_overhead_s, 0.0)
    return RoundTimes(batches, lengths, verify + n * pass_s[:, None] + overhead, pass_s)


def token_times(rounds: RoundTimes, curve: AcceptanceCurve) -> LengthTimes:
    """Return seconds a token of one request: a round's time over its tokens."""
    tokens = curve.tokens_per_round[rounds.lengths]
    return LengthTimes.of(rounds.batches, rounds.lengths, rounds.round_s / tokens)


def nearest_traces(
    evidence: ProfileEvidence, temperature: float, task: str | None
) -> Sequence[TracedAcceptance]:
    """Return the traces that :meth:`ProfileEvidence.curve` reads, greedy drafts."""
    usable = [t for t in evidence.traces if t.draft_sampling in (DraftSampling.GREEDY, None)]
    if not usable:
        return ()
    nearest = min((t.temperature for t in usable), key=lambda one: abs(one - temperature))
    at = [t for t in usable if t.temperature == nearest]
    return [t for t in at if task is not None and t.task == task] or at


def profile_draws(
    evidence: ProfileEvidence,
    traces: Sequence[TracedAcceptance],
    curve: AcceptanceCurve,
    lengths: Integers,
    seed: int,
) -> LengthDraws:
    """Return draws of what a profile leaves in doubt: its requests, its step times, the tax.

    What the curve's error holds beyond the spread of the requests (another temperature, lengths
    beyond those an engine ran) errs alike at every length.
    """
    pooled = pool(traces)
    resampled, _ = tokens_of_requests(pooled.counts, seed)
    last = resampled.shape[1] - 1
    errors = np.array([pooled.tokens_per_round(n)[1] for n in range(last + 1)])
    every = np.minimum(np.arange(MAX_NUM_SPECULATIVE_TOKENS + 1), last)
    of_requests = np.where(np.isfinite(errors), errors, 0.0)[every]
    further = np.sqrt(np.maximum(curve.relative_se**2 - of_requests**2, 0.0))
    tokens = resampled[:, every] * tokens_of_curve(further, seed + 1)
    fit_se = float(evidence.target_step.relative_se)
    spread = RoundSpread(evidence.round_relative_se, own_relative_se=fit_se)
    return LengthDraws.of(tokens[:, lengths], spread, lengths, seed + 2)
