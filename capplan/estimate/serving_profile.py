"""What a profile says to the serving simulation: its clock, its prefill, its accepted drafts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.curves import AcceptanceCurve
from capplan.estimate.evidence import ProfileEvidence
from capplan.estimate.length_times import nearest_traces, round_times
from capplan.estimate.serving_acceptance import (
    NO_DRAFTS,
    AcceptedLengths,
    accepted_from_curve,
    accepted_from_trace,
)
from capplan.estimate.serving_clocks import PrefillTimes, StepClock, tabulated_clock
from capplan.estimate.tracing import pool
from capplan.schema.cells import Phase, Role
from capplan.schema.profile import Profile

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def profile_prefill(evidence: ProfileEvidence) -> PrefillTimes:
    """Return what prompts take, from the prefills that the profile timed.

    Prompts of several lengths tell a step's own time from that of its tokens. With one length the
    step's own time is taken to be that of the decode steps; without any, a prompt's token is
    taken to cost what one more verified token does.
    """
    tokens, seconds = _prefills(evidence.profile)
    fixed_s = evidence.target_step.fixed_s
    if len(tokens) == 0:
        return PrefillTimes(evidence.target_step.prefill_s_per_token, fixed_s)
    if len(np.unique(tokens)) > 1:
        # relative errors count alike, as in every fit of step times
        matrix = np.stack([np.ones_like(tokens), tokens], axis=1) / seconds[:, None]
        (alone_s, token_s), *_ = np.linalg.lstsq(matrix, np.ones_like(seconds), rcond=None)
        if alone_s >= 0 and token_s > 0:
            return PrefillTimes(float(token_s), float(alone_s))
    longest = int(np.argmax(tokens))
    own_s = min(fixed_s, 0.5 * float(seconds[longest]))
    return PrefillTimes(float((seconds[longest] - own_s) / tokens[longest]), own_s)


def _prefills(profile: Profile) -> tuple[Floats, Floats]:
    cells = [c for c in profile.timing if c.role is Role.TARGET and c.phase is Phase.PREFILL]
    return (
        np.array([float(cell.batch * cell.tokens_per_sequence) for cell in cells]),
        np.array([float(np.median(cell.seconds)) for cell in cells]),
    )


def profile_clock(
    evidence: ProfileEvidence,
    *,
    max_batch: int,
    lengths: Sequence[int],
    longest_context: int,
    curve: AcceptanceCurve | None = None,
) -> StepClock:
    """Return the clock of a profiled machine.

    Parameters
    ----------
    evidence
        Fitted steps.
    max_batch
        Largest batch that is asked; beyond those measured the fit is carried on.
    lengths
        N that are asked; 0 is always known.
    longest_context
        Tokens of the longest request.
    curve
        Of lookup drafts, how often there is a draft at all.
    """

    def round_seconds(batches: Integers, n: int, context: float) -> Floats:
        rounds = round_times(evidence, batches, np.array([n]), context, curve)
        seconds: Floats = rounds.round_s[:, 0]
        return seconds

    return tabulated_clock(
        round_seconds,
        max_batch=max_batch,
        lengths=sorted({0, *lengths}),
        contexts=(0.0, float(max(longest_context, 1))),  # the fit is linear in the context
        prefill=profile_prefill(evidence),
    )


def profile_acceptance(
    evidence: ProfileEvidence, temperature: float, task: str | None, longest: int
) -> AcceptedLengths | None:
    """Return accepted drafts up to N = ``longest``; None where nothing usable was traced.

    At a temperature that was traced requests keep their own rates; at others, and beyond the N
    that an engine ran, all are alike, with the mean that the curve foretells.
    """
    if longest == 0:
        return NO_DRAFTS
    curve = evidence.curve(temperature, task)
    if curve is None:
        return None
    traces = nearest_traces(evidence, temperature, task)
    if traces and traces[0].temperature == temperature:
        traced = pool(traces)
        if len(traced.counts) > longest:
            return accepted_from_trace(traced)
    return accepted_from_curve(curve.tokens_per_round.tolist())
