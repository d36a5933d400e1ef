"""Decode step from specifications and from the other steps: one measured step left out."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.validation.decode_rows import decode_steps, predict_left_out
from capplan.validation.rows import PublishedRows
from capplan.validation.scoring import Scored
from capplan.validation.specs import Specs


def predict(rows: PublishedRows, specs: Specs) -> Sequence[Scored]:
    """Leave each step out in turn, with every copy of it."""
    steps = decode_steps(rows, specs)
    return predict_left_out(steps, [(step.label, step.seconds) for step in steps])
