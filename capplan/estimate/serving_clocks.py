"""How long a step of a serving engine takes, quick enough to be asked a million times.

A clock is any function ``seconds(batch, tokens, context, prefill_tokens)``: sequences that decode,
tokens of each in the step (N + 1), mean tokens in their caches, tokens of prompts in the same
step. With a batch of 0 the step does nothing but prefill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.errors import RequestError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

StepClock = Callable[[int, int, float, int], float]
RoundSeconds = Callable[[Integers, int, float], Floats]
"""Seconds of a round at every batch of an array, for one N and one context."""


@dataclass(frozen=True)
class PrefillTimes:
    """What tokens of prompts take.

    Attributes
    ----------
    s_per_token
        What each token adds to a step.
    alone_s
        What a step takes beyond that when it decodes nothing.
    """

    s_per_token: float
    alone_s: float = 0.0


def constant_clock(step_s: float, prefill_s_per_token: float = 0.0) -> StepClock:
    """Return a clock in which every step takes the same, whatever decodes."""

    def seconds(batch: int, tokens: int, context: float, prefill_tokens: int) -> float:  # noqa: ARG001 - a clock's arguments
        return (step_s if batch else 0.0) + prefill_s_per_token * prefill_tokens

    return seconds


def tabulated_clock(
    round_seconds: RoundSeconds,
    *,
    max_batch: int,
    lengths: Sequence[int],
    contexts: Sequence[float],
    prefill: PrefillTimes,
) -> StepClock:
    """Return a clock that looks rounds up in a table and interpolates between contexts.

    Parameters
    ----------
    round_seconds
        Asked once for each length and context.
    max_batch
        Largest batch of the table.
    lengths
        N that can occur, 0 among them where plain steps can.
    contexts
        At least two, evenly spaced; beyond them the outer slope is carried on.
    prefill
        Of the prompts.

    Raises
    ------
    RequestError
        If fewer than two contexts are given.
    """
    if len(contexts) < 2:
        raise RequestError("One context says no slope.", "Give two or more, evenly spaced.")
    batches = np.arange(1, max_batch + 1)
    first, width = float(contexts[0]), float(contexts[1] - contexts[0])
    last = len(contexts) - 2
    # plain lists: indexing an array of numpy costs ten times as much
    table = {
        n + 1: [round_seconds(batches, n, float(context)).tolist() for context in contexts]
        for n in lengths
    }
    alone_s, token_s = prefill.alone_s, prefill.s_per_token

    def seconds(batch: int, tokens: int, context: float, prefill_tokens: int) -> float:
        if batch == 0:
            return alone_s + token_s * prefill_tokens
        place = (context - first) / width
        cell = min(max(int(place), 0), last)
        rows = table[tokens]
        low: float = rows[cell][batch - 1]
        high: float = rows[cell + 1][batch - 1]
        return low + (place - cell) * (high - low) + token_s * prefill_tokens

    return seconds


def scaled_clock(clock: StepClock, factor: float) -> StepClock:
    """Return a clock whose every step takes ``factor`` times as long."""

    def seconds(batch: int, tokens: int, context: float, prefill_tokens: int) -> float:
        return factor * clock(batch, tokens, context, prefill_tokens)

    return seconds
