"""How sure the gain of a length schedule is: acceptance, round times and the tax drawn anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.adaptive import LengthPlan, LengthTimes
from capplan.estimate.framework_tax import LOG_SD
from capplan.estimate.replay import ReplayCounts

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DRAWS = 2000
_ENDS = (2.5, 97.5)
LENGTH_SCATTER = 0.02
"""Relative, of rounds of one pairing and batch about a line in N: 0.4 to 1.2 % in vLLM at batch 1
(issue 20780), 1.0 % in TensorRT-LLM, 2.2 % in SGLang (SpecBundle, dense), 3.7 % in MoESD."""


@dataclass(frozen=True)
class RoundSpread:
    """Relative errors of a round's time against a plain step of the same batch.

    Attributes
    ----------
    shared_relative_se
        Common to all lengths (what a draft pass and a verification cost), a number or one a
        length.
    own_relative_se
        Of each length by itself.
    """

    shared_relative_se: float | Floats
    own_relative_se: float


@dataclass(frozen=True)
class LengthDraws:
    """Factors on what the schedule was computed from, a row a draw.

    Attributes
    ----------
    tokens
        On tokens a round, shape (draws, lengths).
    rounds
        On a round's time, shape (draws, lengths).
    tax
        On the tax of N = 0, shape (draws,).
    """

    tokens: Floats
    rounds: Floats
    tax: Floats

    @classmethod
    def of(cls, tokens: Floats, rounds: RoundSpread, lengths: Integers, seed: int) -> LengthDraws:
        """Complete factors on tokens a round by those of rounds and of the tax."""
        rng = np.random.default_rng(seed)
        shared = rng.standard_normal((len(tokens), 1)) * rounds.shared_relative_se
        own = rng.standard_normal(tokens.shape) * rounds.own_relative_se
        return cls(
            tokens=tokens,
            rounds=np.exp(np.where(lengths > 0, shared + own, 0.0)),
            tax=np.exp(LOG_SD * rng.standard_normal(len(tokens))),
        )


def tokens_of_requests(
    counts: Sequence[ReplayCounts], seed: int, draws: int = DRAWS
) -> tuple[Floats, int]:
    """Return tokens a round of resampled requests over those of all, and how many there are.

    Parameters
    ----------
    counts
        Of the same requests at N = 0, 1, ...
    seed
        Of the bootstrap.
    draws
        Resamples of the requests; a request is drawn whole, since its tokens are correlated.
    """
    requests = len(counts[0].rounds)
    rng = np.random.default_rng(seed)
    weight = rng.multinomial(requests, np.full(requests, 1.0 / requests), size=draws)
    emitted = np.stack([one.emitted for one in counts], axis=1)
    rounds = np.stack([one.rounds for one in counts], axis=1)
    drawn = (weight @ emitted) / np.maximum(weight @ rounds, np.finfo(float).tiny)
    return drawn / (emitted.sum(axis=0) / rounds.sum(axis=0)), requests


def tokens_of_curve(relative_se: Floats, seed: int, draws: int = DRAWS) -> Floats:
    """Return factors on tokens a round of a curve: one text errs alike at every length."""
    shared = np.random.default_rng(seed).standard_normal((draws, 1))
    factors: Floats = np.exp(relative_se[None, :] * shared)
    return factors


def gain_interval(
    times: LengthTimes, plan: LengthPlan, load: Floats, draws: LengthDraws
) -> tuple[float, float]:
    """Return the 95 % interval of a schedule's gain over its best single length.

    Schedule and single length stay as they were chosen: what is in doubt is what they yield.
    """
    places = np.searchsorted(times.lengths, plan.chosen)
    rate = load * times.fixed_rate[np.arange(len(load)), places]
    factor = draws.tokens / draws.rounds
    total = np.zeros(len(factor))
    for place, length in enumerate(times.lengths):
        at = places == place
        if length == 0:
            taxed = rate[at] / (1.0 + times.tax[at] * draws.tax[:, None])
            total += taxed.sum(axis=1)
        else:
            total += rate[at].sum() * factor[:, place]
    fixed = int(np.searchsorted(times.lengths, plan.fixed))
    alone = float(load @ times.fixed_rate[:, fixed]) * (factor[:, fixed] if plan.fixed else 1.0)
    low, high = np.percentile(total / alone - 1.0, _ENDS)
    return float(low), float(high)
