"""Speedup of two profiles at the same N, batch and context."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.estimate.acceptance_changes import TracedTask, TraceKey, mean_contrast, task_contrast
from capplan.estimate.comparison import Contrast
from capplan.estimate.evidence import ProfileEvidence
from capplan.estimate.step_changes import round_ratio_error
from capplan.schema.difference import Quality


@dataclass(frozen=True)
class SpeedPoint:
    """Where speedups are compared."""

    num_speculative_tokens: int
    batch: float
    context: float
    temperature: float

    @property
    def label(self) -> str:
        """The point in words."""
        return (
            f"temperature {self.temperature:g}, batch {self.batch:g}, context {self.context:,.0f}"
        )


@dataclass(frozen=True)
class Side:
    """One profile, fitted and replayed."""

    evidence: ProfileEvidence
    tasks: Sequence[TracedTask]


def speed_points(before: Side, after: Side) -> list[SpeedPoint]:
    """Return the smallest and largest batch that both timed, at the earlier profile's best N.

    The best N is that of batch 1 at the coldest temperature that both traced.
    """
    keys = _common_keys(before, after)
    if not keys:
        return []
    key = min(keys, key=lambda one: one.temperature)
    longest = min(
        task.longest for side in (before, after) for task in side.tasks if task.key == key
    )
    batches = sorted(_batches(before) & _batches(after))
    if longest < 1 or not batches:
        return []
    context = before.evidence.mean_context
    mine = [task for task in before.tasks if task.key == key]

    def speedup(n: int) -> float:
        values = [task.tokens_per_round(n).value for task in mine]
        known = [value for value in values if math.isfinite(value)] or [0.0]
        point = SpeedPoint(n, 1, context, key.temperature)
        return sum(known) / len(known) / _round_ratio(before.evidence, point)

    best = max(range(1, longest + 1), key=speedup)
    chosen = dict.fromkeys((batches[0], batches[-1]))
    return [SpeedPoint(best, batch, context, key.temperature) for batch in chosen]


def _batches(side: Side) -> set[int]:
    return {cell.batch for cell in side.evidence.profile.timing if cell.tokens_per_sequence == 1}


def _common_keys(before: Side, after: Side) -> list[TraceKey]:
    theirs = {(task.task, task.key) for task in after.tasks}
    return list(
        dict.fromkeys(task.key for task in before.tasks if (task.task, task.key) in theirs)
    )


def speed_contrast(before: Side, after: Side, point: SpeedPoint) -> Contrast | None:
    """Return the change of the speedup at a point; None where it cannot be told.

    Speedup is tokens a round over what a round costs in plain steps. Tokens are compared task by
    task, on the same requests where they are the same; of the cost, what both runs share (clocks,
    heat) drops out.
    """
    n = point.num_speculative_tokens
    keys = [key for key in _common_keys(before, after) if key.temperature == point.temperature]
    if not keys:
        return None
    theirs = {task.task: task for task in after.tasks if task.key == keys[0]}
    rows = [
        task_contrast(task, theirs[task.task], n, "")
        for task in before.tasks
        if task.key == keys[0]
        and task.task in theirs
        and min(task.longest, theirs[task.task].longest) >= n
    ]
    rows = [row for row in rows if np.isfinite([row.before, row.after]).all()]
    if not rows:
        return None
    tokens = mean_contrast(rows, "")
    ratios = [_round_ratio(side.evidence, point) for side in (before, after)]
    cost_error = _cost_error(before.evidence, after.evidence)
    speeds = tokens.before / ratios[0], tokens.after / ratios[1]
    return Contrast(
        quality=Quality.SPEEDUP,
        label=point.label,
        before=speeds[0],
        after=speeds[1],
        difference=math.log(speeds[1] / speeds[0]),
        standard_error=math.hypot(tokens.standard_error / tokens.before, cost_error),
        degrees=tokens.degrees,
        samples=tokens.samples,
        is_log=True,
        paired=tokens.paired,
        num_speculative_tokens=n,
    )


def _round_ratio(evidence: ProfileEvidence, point: SpeedPoint) -> float:
    n, batch, context = point.num_speculative_tokens, point.batch, point.context
    plain_s = evidence.round_seconds(batch, 0, context)
    return evidence.round_seconds(batch, n, context) / plain_s


def _cost_error(before: ProfileEvidence, after: ProfileEvidence) -> float:
    """Return the log error of the change of a round's cost.

    Without points in common, the errors of both fits.
    """
    common = round_ratio_error(before.profile, after.profile)
    if common is not None:
        return common
    return math.sqrt(2) * math.hypot(before.target_step.relative_se, after.target_step.relative_se)
