"""Time of one forward pass, fitted to passes measured on this very machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.steptime import VerificationExtra

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FittedStep:
    """Tier ``profiled``: a grid measured on this very machine, fitted.

    ``fixed + [B*q > 1]*several + per_sequence*B + per_token*B*(q-1) + per_context*B*S
    + per_extra_pass*(q-1)``, in seconds. One row alone is a matrix-vector product, several are a
    matrix product: other code, and on a CPU a jump of its own.
    """

    fixed_s: float
    several_rows_s: float
    per_sequence_s: float
    per_token_s: float
    per_context_s: float
    prefill_s_per_token: float
    relative_se: float
    """Residual of the fit on points left out."""
    per_extra_pass_s: float = 0.0
    """Of every drafted token, whatever the batch, where an engine drafts inside its step."""

    def seconds(self, batch: ArrayLike, tokens: ArrayLike, context: ArrayLike) -> Floats:
        """Return the time of one pass; arguments as in :meth:`StepTime.seconds`."""
        b = np.asarray(batch, dtype=float)
        q = np.asarray(tokens, dtype=float)
        extra = q - 1.0
        s = np.asarray(context, dtype=float)
        total: Floats = (
            self.fixed_s
            + self.several_rows_s * (b * q > 1)
            + self.per_sequence_s * b
            + self.per_token_s * b * extra
            + self.per_context_s * b * s
            + self.per_extra_pass_s * extra
        )
        return total

    def extra(self, batch: ArrayLike, tokens: ArrayLike, context: ArrayLike) -> VerificationExtra:
        """Return what verification adds, measured as one: all of it counts as arithmetic."""
        added = self.seconds(batch, tokens, context) - self.seconds(batch, 1.0, context)
        return VerificationExtra(np.zeros_like(added), added, np.zeros_like(added))

    def prompt_seconds(self, prompt_tokens: float) -> Floats:
        """Return the measured time of a prompt."""
        return np.asarray(prompt_tokens * self.prefill_s_per_token)

    def interference_seconds(self, prompt_tokens: float) -> Floats:
        """Return the same: a prompt takes the machine as long as it runs."""
        return self.prompt_seconds(prompt_tokens)
