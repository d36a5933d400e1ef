"""What a schedule is to be computed for, and its load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.errors import RequestError
from capplan.estimate.adaptive import MERGE_LOSS, poisson_load, stated_load

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScheduleWishes:
    """What a schedule is to be computed for.

    Attributes
    ----------
    load
        Share of time by requests at once; empty takes ``mean_batch``.
    mean_batch
        Mean requests at once of one replica, spread as Poisson; None takes a plan's own, and of
        a profile every batch measured alike.
    temperature, task
        Of the traffic; None takes the plan's, or what was traced.
    contexts
        Tokens in each request's cache. The first is planned for, all are listed; empty takes the
        plan's mean, or that of the traced requests.
    max_num_speculative_tokens
        Largest N to consider; None takes the plan's, or 8.
    captured
        Tokens of a step that CUDA graphs reach; None derives them.
    merge_loss
        Share of the tokens a second that fewer ranges may cost.
    """

    load: Mapping[int, float] | None = None
    mean_batch: float | None = None
    temperature: float | None = None
    task: str | None = None
    contexts: tuple[int, ...] = ()
    max_num_speculative_tokens: int | None = None
    captured: int | None = None
    merge_loss: float = MERGE_LOSS


def asked_load(wishes: ScheduleWishes, largest: int, what: str) -> tuple[Floats, str]:
    """Return the load that was asked for, and where it comes from.

    Raises
    ------
    RequestError
        If it lies beyond the largest batch.
    """
    if wishes.load:
        beyond = max(wishes.load)
        if beyond > largest:
            raise RequestError(
                f"The load has {beyond} requests at once; {what} is {largest}.",
                "State a load within it, or measure larger batches: capplan profile --batch B.",
            )
        return stated_load(wishes.load, largest), "as stated"
    assert wishes.mean_batch is not None, "the caller has one of the two"
    if wishes.mean_batch > largest:
        raise RequestError(
            f"{wishes.mean_batch:g} requests at once on average; {what} is {largest}.",
            "Plan more replicas, or measure larger batches: capplan profile --batch B.",
        )
    noun = "request" if wishes.mean_batch == 1 else "requests"
    words = f"{wishes.mean_batch:g} {noun} at once on average, Poisson"
    return poisson_load(wishes.mean_batch, largest), words


def clipped(load: Floats, largest: int) -> Floats:
    """Return a load in which more than ``largest`` requests wait until there is room."""
    short = np.zeros(largest)
    short[: len(load)] = load[:largest]
    short[-1] += load[largest:].sum()
    return short
