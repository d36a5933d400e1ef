"""Decode step where nothing was measured of this GPU with this engine, nor by this source."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.validation.decode_rows import decode_steps, predict_left_out
from capplan.validation.rows import PublishedRows
from capplan.validation.scoring import Scored
from capplan.validation.specs import Specs


def predict(rows: PublishedRows, specs: Specs) -> Sequence[Scored]:
    """Leave each engine on each GPU out in turn."""
    steps = decode_steps(rows, specs)
    return predict_left_out(steps, [step.machine for step in steps])
