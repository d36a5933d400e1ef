"""Time of a forward pass: what every estimate of it answers, and what follows from any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class VerificationExtra:
    """What a pass over several tokens a sequence takes beyond a decode step, in seconds."""

    experts: Floats
    """Reading experts that one token a sequence would not touch."""
    arithmetic: Floats
    exchange: Floats
    """All-reduces of the further tokens between the GPUs of a group."""

    @property
    def total(self) -> Floats:
        """The sum."""
        return self.experts + self.arithmetic + self.exchange


class StepTime(Protocol):
    """A model of step time; every argument broadcasts."""

    @property
    def relative_se(self) -> float | Floats:
        """Relative standard error of one predicted step; may vary along the hardware axis."""

    def seconds(self, batch: ArrayLike, tokens: ArrayLike, context: ArrayLike) -> Floats:
        """Return the time of a pass over ``tokens`` tokens of each of ``batch`` sequences.

        Parameters
        ----------
        batch
            Sequences, >= 1.
        tokens
            Tokens a sequence in the pass: 1 decode, N+1 verification.
        context
            Tokens a sequence already in the KV cache; read once a pass, by windowed layers at
            most their window.
        """

    def extra(self, batch: ArrayLike, tokens: ArrayLike, context: ArrayLike) -> VerificationExtra:
        """Return what ``tokens`` instead of one a sequence add to a pass."""

    def prompt_seconds(self, prompt_tokens: float) -> Floats:
        """Return the time of one prompt by itself."""

    def interference_seconds(self, prompt_tokens: float) -> Floats:
        """Return what one prompt adds to the steps of the requests that decode meanwhile."""


def verify_seconds(
    step: StepTime, batch: ArrayLike, drafted: ArrayLike, share: ArrayLike, context: ArrayLike
) -> Floats:
    """Return the mean time of a verification when only a share of the rounds has a draft.

    Parameters
    ----------
    step
        The target's step time.
    batch, context
        As in :meth:`StepTime.seconds`.
    drafted
        Tokens drafted in a round that has a draft.
    share
        Share of the rounds that have one, 0 to 1; the rest are plain decode steps.
    """
    share = np.asarray(share, dtype=float)
    full = step.seconds(batch, 1.0 + np.asarray(drafted, dtype=float), context)
    result: Floats = share * full + (1.0 - share) * step.seconds(batch, 1.0, context)
    return result
