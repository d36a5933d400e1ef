"""Accepted drafts of single rounds, drawn at random as a trace or its rates have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.errors import RequestError
from capplan.estimate.tracing import TracedAcceptance

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AcceptedLengths:
    """How many drafts a round accepts, at every N.

    Attributes
    ----------
    at_least
        For N = 0, 1, ...: P(a round accepts at least 1, 2, ... N drafts), shape (kinds, N). A
        simulated request is of one kind for all its rounds: texts differ in how well they are
        foretold, and a slow request is slow throughout.
    drafted
        Mean tokens proposed a round at each N; below N for lookup, which often finds nothing.
    """

    at_least: tuple[Floats, ...]
    drafted: tuple[float, ...]

    @property
    def longest(self) -> int:
        """Largest N known."""
        return len(self.at_least) - 1

    @property
    def kinds(self) -> int:
        """Kinds of requests."""
        return int(self.at_least[-1].shape[0])

    def tokens_per_round(self, num_speculative_tokens: int) -> float:
        """Return tokens over rounds where answers of every kind are equally long and common."""
        of_kind = 1.0 + self.at_least[num_speculative_tokens].sum(axis=1)
        return float(1.0 / np.mean(1.0 / of_kind))


NO_DRAFTS = AcceptedLengths((np.zeros((1, 0)),), (0.0,))
"""Plain decoding."""


def accepted_from_conditional(conditional_rates: ArrayLike) -> AcceptedLengths:
    """Return lengths of drafts whose i-th token is accepted at ``rates[i]``, given those before.

    Raises
    ------
    RequestError
        If a rate is no probability.
    """
    rates = np.ravel(np.asarray(conditional_rates, dtype=float))
    if len(rates) == 0 or rates.min() < 0 or rates.max() > 1:
        raise RequestError(
            f"Acceptance {rates.tolist()} is no list of probabilities.",
            "Give one rate from 0 to 1 for every position.",
        )
    cumulative = np.cumprod(rates)
    longest = len(rates)
    return AcceptedLengths(
        tuple(cumulative[None, :n] for n in range(longest + 1)),
        tuple(float(n) for n in range(longest + 1)),
    )


def accepted_from_curve(
    tokens_per_round: Sequence[float], drafted: Sequence[float] | None = None
) -> AcceptedLengths:
    """Return lengths with given mean tokens a round at N = 0, 1, ...

    What one more draft adds to the mean is the probability that all up to it are accepted; where
    a curve is not one of a chain (it falls, or bends upwards), the nearest that is one is taken.
    """
    curve = np.asarray(tokens_per_round, dtype=float)
    gains = np.minimum.accumulate(np.clip(np.diff(curve), 0.0, 1.0))
    lengths = len(curve)
    return AcceptedLengths(
        tuple(gains[None, :n] for n in range(lengths)),
        tuple(float(n) for n in range(lengths)) if drafted is None else tuple(drafted),
    )


def accepted_from_trace(traced: TracedAcceptance) -> AcceptedLengths:
    """Return lengths as traced, every request of the trace a kind of its own.

    Requests without a single round (an answer of one token) are left out.

    Raises
    ------
    RequestError
        If nothing was traced beyond the prefill's own tokens.
    """
    at_least, drafted = [], []
    for counts in traced.counts:
        ran = counts.rounds > 0
        if not ran.any():
            raise RequestError(
                f"The trace of {traced.task!r} holds no round.",
                "Trace longer answers: capplan profile --output-tokens T.",
            )
        at_least.append(counts.accepted_per_position[ran] / counts.rounds[ran, None])
        drafted.append(float(counts.drafted.sum() / counts.rounds.sum()))
    if traced.draft_sampling is not None:  # near the end of a text fewer count, all are drafted
        drafted = [float(n) for n in range(len(at_least))]
    return AcceptedLengths(tuple(at_least), tuple(drafted))
