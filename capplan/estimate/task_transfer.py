"""Tokens a round on a text that was not measured, from other texts of the same pair.

Texts differ more than anything else: from prose to code the best and the worst are a factor of
1.7 apart. So the answer is their mean with an interval that says so. docs/method/temperature.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.estimate.similarity import NoisePrior, predict_from_similar, same
from capplan.estimate.uncertainty import LogEstimate

TASK_SPREAD = 0.19
"""Standard deviation between texts of the logarithm of tokens a round, of one pair at one length
and temperature: root mean square of the published tables with two texts or more."""
_PRIOR_DEGREES = 3.0


def transfer_task(tokens_per_round: Sequence[float]) -> LogEstimate:
    """Predict tokens a round on an unseen text.

    Parameters
    ----------
    tokens_per_round
        Measured on at least one text each, same pair, length and temperature.

    Returns
    -------
    LogEstimate
        Their mean. The spread between them is the error, with the published spread as three
        further measurements of it, so that one text alone does not look certain.
    """
    values = np.asarray(tokens_per_round, dtype=float)
    mean = float(values.mean())
    count = len(values)
    squares = float((np.log(values / mean) ** 2).sum()) if count > 1 else 0.0
    degrees = _PRIOR_DEGREES + count - 1.0
    spread = math.sqrt((_PRIOR_DEGREES * TASK_SPREAD**2 + squares) / degrees)
    return LogEstimate(mean, spread * math.sqrt(1.0 + 1.0 / count), degrees)


@dataclass(frozen=True)
class TaskTokens:
    """Tokens a round of one pair on one text; length and temperature are the same for all."""

    pair: tuple[str, ...]
    task: str
    tokens_per_round: float


NOISE = NoisePrior(sd=0.10, degrees=3.0)
"""What neither the pair nor the text explains, in the logarithm, before any is seen."""
# Variances of the shared parts in units of the noise variance: round numbers, not fitted.
_OF_PAIR, _OF_TASK = 4.0, 4.0


def predict_task(measured: Sequence[TaskTokens], pair: tuple[str, ...], task: str) -> LogEstimate:
    """Predict tokens a round on a text that other pairs were measured on.

    Code is easier to draft than prose for every pair: what other pairs gained or lost on the text
    says more than this pair's mean over its own texts.

    Parameters
    ----------
    measured
        At least one, same source, length and temperature; the pair's own texts among them.
    pair, task
        The pair and the text wanted.
    """
    shared = _OF_PAIR * same([*(one.pair for one in measured), pair])
    shared += _OF_TASK * same([*(one.task for one in measured), task])
    found = predict_from_similar(
        np.log([one.tokens_per_round for one in measured]),
        shared[:-1, :-1],
        shared[:-1, -1],
        float(shared[-1, -1]),
        NOISE,
    )
    return LogEstimate(float(np.exp(found.mean)), found.sd, found.degrees)
