"""Which length at which batch: schedules of (batch range, N), their gain and their regret.

vLLM looks the number of draft tokens up by the requests in the step
(``num_speculative_tokens_per_batch_size``) and ships no values. They follow from what a token
takes at every batch and length, exactly: batches do not influence each other, so the best
schedule takes the best N at each, and a given number of ranges is filled by dynamic programming.
docs/method/adaptive.md
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.framework_tax import framework_tax

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MERGE_LOSS = 0.005
"""Ranges are merged while the schedule keeps all but this share of the tokens a second."""
MAX_RANGES = 12
UNSEEN_WEIGHT = 0.2
"""Weight of all batches together beside the load, when ranges are merged: a load is a forecast,
and where it has nothing a length is needed all the same."""


@dataclass(frozen=True)
class LengthTimes:
    """Seconds that a token of one request takes, by batch and length.

    Attributes
    ----------
    batches
        Requests at once, ascending, shape (batches,).
    lengths
        N, ascending, 0 first, shape (lengths,).
    token_s
        Time of a round over its tokens, shape (batches, lengths); infinite where the engine
        cannot run it. Column 0 is decoding without speculation.
    tax
        What a schedule adds to N = 0, as a fraction, shape (batches,): the drafting path stays
        in the step.
    """

    batches: Integers
    lengths: Integers
    token_s: Floats
    tax: Floats

    @classmethod
    def of(cls, batches: Integers, lengths: Integers, token_s: Floats) -> LengthTimes:
        """Build with the tax that vLLM's users measured."""
        tax = np.array([framework_tax(float(batch)).mid for batch in batches])
        return cls(batches, lengths, token_s, tax)

    @property
    def fixed_rate(self) -> Floats:
        """Tokens a second of the whole batch at one length for ever; N = 0 is plain serving.

        Beyond the largest batch that a length can run, further requests wait: the rate stays.
        """
        rate: Floats = self.batches[:, None] / self.token_s
        last = np.where(rate > 0, np.arange(len(rate))[:, None], 0)
        filled: Floats = np.take_along_axis(rate, np.maximum.accumulate(last, axis=0), axis=0)
        return filled

    @property
    def scheduled_rate(self) -> Floats:
        """The same where the length is looked up every step: N = 0 pays the tax."""
        rate: Floats = self.batches[:, None] / self.token_s
        rate[:, self.lengths == 0] /= 1.0 + self.tax[:, None]
        return rate


@dataclass(frozen=True)
class LengthRange:
    """One entry of the engine's table; both ends belong to it."""

    first: int
    last: int
    num_speculative_tokens: int


@dataclass(frozen=True)
class LengthPlan:
    """A schedule beside the best single length, over one load.

    Attributes
    ----------
    ranges
        From batch 1 on, without gaps.
    chosen
        N of each batch of the grid.
    fixed
        The best single N over the load; 0 is serving without speculation.
    gain
        Tokens a second of the schedule over those of ``fixed``, less one.
    gain_before_tax
        The same if N = 0 in a schedule cost nothing.
    merge_loss
        Share of the tokens a second given up for fewer ranges.
    """

    ranges: tuple[LengthRange, ...]
    chosen: Integers
    fixed: int
    gain: float
    gain_before_tax: float
    merge_loss: float

    @property
    def tax_paid(self) -> float:
        """What the schedule's own N = 0 costs over the load, as a fraction."""
        return self.gain_before_tax - self.gain


def poisson_load(mean: float, largest: int) -> Floats:
    """Return the share of time with 1 .. ``largest`` requests at once.

    Parameters
    ----------
    mean
        Mean requests at once of one replica: arrival rate times time in the system (Little).
    largest
        The engine's batch limit; more wait, so the tail counts there.

    Notes
    -----
    With Poisson arrivals and enough room the number in the system is Poisson whatever the lengths
    are (M/G/infinity). Time with nobody in the system decodes nothing and is left out.
    """
    count = np.arange(0, largest + 1, dtype=float)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, largest + 1)))])
    share = np.exp(count * math.log(mean) - mean - log_factorial)
    share[-1] += max(0.0, 1.0 - float(share.sum()))
    busy: Floats = share[1:] / share[1:].sum()
    return busy


def stated_load(shares: Mapping[int, float], largest: int) -> Floats:
    """Return the share of time with 1 .. ``largest`` requests at once from a few stated ones."""
    load = np.zeros(largest)
    for batch, share in shares.items():
        load[batch - 1] = share
    result: Floats = load / load.sum()
    return result


def plan_lengths(times: LengthTimes, load: Floats, merge_loss: float = MERGE_LOSS) -> LengthPlan:
    """Return the best schedule over a load, with as few ranges as cost next to nothing.

    Parameters
    ----------
    times
        On every batch from 1 on.
    load
        Share of time at each of those batches, summing to 1.
    merge_loss
        Share of the tokens a second that fewer ranges may cost.

    Notes
    -----
    METHOD: ``max over N(b) of sum_b load_b b / token_s(b, N(b))``; separable over b. Exact for
    every number of ranges up to :data:`MAX_RANGES`.
    """
    weight = load + UNSEEN_WEIGHT / len(load)
    rate = times.scheduled_rate
    best = rate.max(axis=1)
    # batches count by what they lose, or the largest would decide for all that the load never sees
    relative = weight[:, None] * np.where(load > 0, best, best @ load)[:, None]
    value = relative * rate / best[:, None]
    places = _fewest_ranges(value, merge_loss)
    chosen = times.lengths[places]
    rows = np.arange(len(load))
    totals = load @ times.fixed_rate
    fixed = int(totals.argmax())
    free = float(load @ times.fixed_rate[rows, places])
    kept = float(load @ rate[rows, places])
    return LengthPlan(
        ranges=_ranges(times.batches, chosen),
        chosen=chosen,
        fixed=int(times.lengths[fixed]),
        gain=kept / float(totals[fixed]) - 1.0,
        gain_before_tax=free / float(totals[fixed]) - 1.0,
        merge_loss=1.0 - kept / float(load @ best),
    )


def _fewest_ranges(value: Floats, merge_loss: float) -> Integers:
    """Return the place of the length at each batch: the fewest ranges within the loss."""
    batches, lengths = value.shape
    ranges = min(MAX_RANGES, batches)
    total = np.full((ranges, lengths), -np.inf)
    total[0] = value[0]
    came_from = np.zeros((batches, ranges, lengths), dtype=np.int64)
    for batch in range(1, batches):
        before = np.full((ranges, lengths), -np.inf)
        before[1:] = total[:-1].max(axis=1, keepdims=True)
        switched = np.zeros((ranges, lengths), dtype=np.int64)
        switched[1:] = total[:-1].argmax(axis=1)[:, None]
        stay = total >= before
        came_from[batch] = np.where(stay, np.arange(lengths), switched)
        total = np.where(stay, total, before) + value[batch]
    enough = (1.0 - merge_loss) * value.max(axis=1).sum()
    reached = total.max(axis=1) >= enough
    # more ranges than the last row has cannot be told apart from it
    row = int(reached.argmax()) if reached.any() else int(total.max(axis=1).argmax())
    places = np.zeros(batches, dtype=np.int64)
    places[-1] = int(total[row].argmax())
    for batch in range(batches - 1, 0, -1):
        places[batch - 1] = came_from[batch, row, places[batch]]
        row -= int(places[batch - 1] != places[batch])
    return places


def _ranges(batches: Integers, chosen: Integers) -> tuple[LengthRange, ...]:
    ends = [*np.flatnonzero(np.diff(chosen)).tolist(), len(chosen) - 1]
    starts = [0, *(end + 1 for end in ends[:-1])]
    return tuple(
        LengthRange(int(batches[start]), int(batches[end]), int(chosen[start]))
        for start, end in zip(starts, ends, strict=True)
    )


def regret(measured_rate: Floats, predicted_rate: Floats) -> Floats:
    """Return what is lost by choosing on predictions, as a fraction of the best measured rate.

    Parameters
    ----------
    measured_rate, predicted_rate
        Tokens a second (or speedup) of every choice along the last axis.
    """
    picked = predicted_rate.argmax(axis=-1)[..., None]
    taken = np.take_along_axis(measured_rate, picked, axis=-1)[..., 0]
    lost: Floats = 1.0 - taken / measured_rate.max(axis=-1)
    return lost
