"""What it costs to have a dynamic draft length switched on while nothing is drafted.

vLLM's schedule of lengths by batch size (``num_speculative_tokens_per_batch_size``) with N = 0 is
not plain decoding: the drafting path stays in the step. docs/method/framework-tax.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from capplan.estimate.uncertainty import Z_90

_LOW_LOAD, _LOW_TAX = 2.0, 15.317 / 14.374 - 1.0
_HIGH_LOAD, _HIGH_TAX = 189.0, 93.820 / 77.164 - 1.0
"""TPOT with a schedule that never drafts over TPOT without speculation, Gemma-4-31B FP8 on one
H100 NVL, vLLM 0.27.1: 14.374 and 15.317 ms at concurrency 2, 77.164 and 93.820 ms at 189
(vLLM issue 49548, comment of 2026-08-24)."""

LOG_SD = 0.7
"""Of the tax: two points of one LLM, one GPU and one version say its size within a factor of
three; assumed, since no second source exists."""
_GROWTH = math.log(_HIGH_TAX / _LOW_TAX) / math.log(_HIGH_LOAD / _LOW_LOAD)


@dataclass(frozen=True)
class FrameworkTax:
    """Growth of TPOT as a fraction, with its nominal 90 % interval."""

    low: float
    mid: float
    high: float


def framework_tax(concurrency: float) -> FrameworkTax:
    """Return what an idle length schedule adds to TPOT, as a fraction.

    Parameters
    ----------
    concurrency
        Requests at once, >= 1. Measured at 2 and 189; a power law joins the two and is held level
        beyond them, with an error that grows with the distance.
    """
    inside = min(max(concurrency, _LOW_LOAD), _HIGH_LOAD)
    mid = _LOW_TAX * (inside / _LOW_LOAD) ** _GROWTH
    beyond = _GROWTH * abs(math.log(max(concurrency, 1.0) / inside))
    reach = math.exp(Z_90 * math.hypot(LOG_SD, beyond))
    return FrameworkTax(mid / reach, mid, mid * reach)
