"""Tokens a round at a temperature that was not measured.

Sampling flattens both distributions and they overlap less. There is no law across LLMs; what was
published is a share of the accepted tokens that is left at temperature 1. Heads trained on the
target keep more of it than separate draft LLMs. docs/method/temperature.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.similarity import NoisePrior, predict_from_similar, same
from capplan.estimate.uncertainty import LogEstimate
from capplan.schema.pairing import Method

Floats = NDArray[np.float64]


class Drafter(StrEnum):
    """What drafts, as far as temperature is concerned."""

    HEAD = "head"
    """Trained on the target's hidden states: EAGLE, MTP, Medusa, DFlash."""
    LLM = "llm"
    """A separate LLM, or a lookup: it does not see how the target's distribution flattens."""


def drafter_of(method: Method) -> Drafter:
    """Return what a method drafts with."""
    separate = (Method.DRAFT_MODEL, Method.NGRAM, Method.SUFFIX, Method.NONE)
    return Drafter.LLM if method in separate else Drafter.HEAD


@dataclass(frozen=True)
class KeptShare:
    """Accepted tokens a round at temperature 1 over those at 0, measured.

    Attributes
    ----------
    source
        Key of the published source.
    pair
        Target, draft and method.
    drafter
        What drafts.
    share
        ``(tokens a round at 1 - 1) / (tokens a round at 0 - 1)``.
    """

    source: str
    pair: tuple[str, ...]
    drafter: Drafter
    share: float


NOISE = NoisePrior(sd=0.05, degrees=3.0)
"""Of the log share on one text, before any is seen."""
# Variances of the shared parts in units of the noise variance: round numbers, not fitted.
_OF_DRAFTER, _OF_SOURCE, _OF_PAIR = 10.0, 2.0, 2.0
_LEAST_SHARE, _MOST_SHARE = 0.05, 2.0


def predict_kept_share(
    measured: Sequence[KeptShare], source: str, pair: tuple[str, ...], drafter: Drafter
) -> LogEstimate:
    """Predict the share kept by one pair on one text.

    Parameters
    ----------
    measured
        At least one share of any pair; pairs of the same kind of drafter, source or name count
        for more.
    source, pair, drafter
        Of what is wanted. A source that is not among the measured ones is a new one.
    """
    shares = np.clip([one.share for one in measured], _LEAST_SHARE, _MOST_SHARE)
    drafters = [*(one.drafter for one in measured), drafter]
    sources = [*((one.source, one.drafter) for one in measured), (source, drafter)]
    pairs = [*((one.source, one.pair) for one in measured), (source, pair)]
    shared = _OF_DRAFTER * same(drafters) + _OF_SOURCE * same(sources) + _OF_PAIR * same(pairs)
    found = predict_from_similar(
        np.log(shares), shared[:-1, :-1], shared[:-1, -1], float(shared[-1, -1]), NOISE
    )
    return LogEstimate(float(np.exp(found.mean)), found.sd, found.degrees)


KEPT = {
    Drafter.HEAD: LogEstimate(0.85, 0.17, 84.0),
    Drafter.LLM: LogEstimate(0.72, 0.17, 84.0),
}
"""Share kept by a pair of a new source: :func:`predict_kept_share` on EAGLE (arXiv:2401.15077),
EAGLE-2 and its speculative sampling (arXiv:2406.16858v2), T5 and LaMDA (arXiv:2211.17192)."""
KEPT_SOURCES = frozenset({"eagle1", "eagle2", "leviathan23"})
"""Keys of these sources in published tables: they are not to be checked against the constants."""
_HOTTEST = 2.0


@dataclass(frozen=True)
class Transferred:
    """Tokens a round at another temperature.

    Attributes
    ----------
    tokens_per_round
        Moved; never more than was drafted is not enforced here.
    relative_se
        What the move adds to the relative standard error, one value a length.
    """

    tokens_per_round: Floats
    relative_se: Floats


def transfer_temperature(
    tokens_per_round: Floats, measured_at: float, wanted: float, kept: LogEstimate
) -> Transferred:
    """Move tokens per round from one temperature to another.

    Parameters
    ----------
    tokens_per_round
        By length, each >= 1.
    measured_at, wanted
        Temperatures; above 2 taken as 2.
    kept
        Share of the accepted tokens left at temperature 1, as in :data:`KEPT`.

    Notes
    -----
    ``tokens - 1`` is taken to change linearly with the temperature; the error of the share counts
    in proportion to the distance.
    """
    fall = 1.0 - kept.mid
    factor = (1.0 - fall * min(wanted, _HOTTEST)) / (1.0 - fall * min(measured_at, _HOTTEST))
    moved = 1.0 + (tokens_per_round - 1.0) * factor
    distance = abs(min(wanted, _HOTTEST) - min(measured_at, _HOTTEST))
    return Transferred(moved, kept.log_sd * distance * (moved - 1.0) / moved)
