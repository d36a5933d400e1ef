"""Step times of two profiles side by side: the same points of the grid, by batch and in all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from capplan.estimate.comparison import Contrast
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.difference import Quality
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability

DRIFT_ALLOWED = 0.02
"""A run passes its own check if its repeated point moved by no more than this."""
_SENTINEL = "sentinel_drift"
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of a median of normal values over that of their mean."""
_SAME_CONTEXT = 0.05
"""Logarithm within which two contexts are one point: engines may round to whole blocks."""


@dataclass(frozen=True)
class _Point:
    cell: TimingCell
    log_ratio: float
    error: float
    degrees: float
    before_s: float
    after_s: float


def run_error(profile: Profile) -> float:
    """Return how far a whole run may lie off, as a relative standard error.

    Points of one run share its clocks, its heat and its neighbours, which repetitions within the
    run cannot show. The run's own check can: a point is measured at the start, in the middle and
    at the end. Half of what it moved by, at least half of what is allowed, is taken.
    """
    moved = [reason.value for reason in profile.verdict.reasons if reason.check == _SENTINEL]
    return max([DRIFT_ALLOWED, *moved]) / 2


def compare_steps(before: Profile, after: Profile) -> tuple[list[Contrast], list[Contrast]]:
    """Compare step times at the points that both profiles measured.

    Returns
    -------
    tuple of list
        Rows of each kind of step, over all its points, and rows of each kind and batch. Ratios
        are of medians; the interval knows the scatter within points, between points and, from
        each run's own check, between runs.
    """
    points = _points(before, after)
    between = math.hypot(run_error(before), run_error(after))
    kinds = sorted({_kind(point) for point in points})
    overall = [
        _contrast([p for p in points if _kind(p) == kind], " ".join(kind), between)
        for kind in kinds
    ]
    by_batch = []
    for kind in kinds:
        mine = [p for p in points if _kind(p) == kind]
        batches = sorted({p.cell.batch for p in mine})
        if len(batches) > 1:
            by_batch += [
                _contrast(
                    [p for p in mine if p.cell.batch == batch],
                    f"{' '.join(kind)}, batch {batch}",
                    between,
                )
                for batch in batches
            ]
    return overall, by_batch


def round_ratio_error(before: Profile, after: Profile) -> float | None:
    """Return the log error of the change of a round's cost in plain steps; None: no points.

    Rounds and plain steps of one run share the run's own error, which drops out of their ratio.
    """
    points = _points(before, after)
    plain = [p for p in points if p.cell.phase is Phase.DECODE and p.cell.role is Role.TARGET]
    rounds = [p for p in points if p.cell.phase in (Phase.VERIFY, Phase.ROUND)]
    drafts = [p for p in points if p.cell.phase is Phase.DECODE and p.cell.role is Role.DRAFT]
    if not plain or not rounds:
        return None
    return math.hypot(*(_scatter(group)[0] for group in (plain, rounds, drafts) if group))


def _kind(point: _Point) -> tuple[str, str]:
    return point.cell.role.value, point.cell.phase.value


def _points(before: Profile, after: Profile) -> list[_Point]:
    found, later = [], _usable(after)
    for cell in _usable(before):
        others = [other for other in later if _is_same(cell, other)]
        if others:
            found.append(_point(cell, min(others, key=lambda other: _apart(cell, other))))
    return found


def _usable(profile: Profile) -> list[TimingCell]:
    """Return the usable cells; those of one point, such as a repeated one, put together."""
    found: dict[tuple[Role, Phase, int, int, int], TimingCell] = {}
    for cell in profile.timing:
        if cell.verdict.stability is Stability.INVALID or median(cell.seconds) <= 0:
            continue
        key = (cell.role, cell.phase, cell.batch, cell.tokens_per_sequence, cell.context)
        earlier = found[key].seconds if key in found else ()
        found[key] = cell.model_copy(update={"seconds": (*earlier, *cell.seconds)})
    return list(found.values())


def _is_same(one: TimingCell, other: TimingCell) -> bool:
    same = (one.role, one.phase, one.batch, one.tokens_per_sequence) == (
        other.role,
        other.phase,
        other.batch,
        other.tokens_per_sequence,
    )
    return same and _apart(one, other) <= _SAME_CONTEXT


def _apart(one: TimingCell, other: TimingCell) -> float:
    return abs(math.log((one.context + 1) / (other.context + 1)))


def _point(before: TimingCell, after: TimingCell) -> _Point:
    first, second = median(before.seconds), median(after.seconds)
    degrees = len(before.seconds) + len(after.seconds) - 2.0
    return _Point(
        before,
        math.log(second / first),
        math.hypot(_median_error(before.seconds), _median_error(after.seconds)),
        degrees,
        first,
        second,
    )


def _median_error(seconds: Sequence[float]) -> float:
    """Return the relative standard error of a median; 0 of a single value, which has no spread."""
    if len(seconds) < 2:
        return 0.0
    values = np.array(seconds)
    spread = float(values.std(ddof=1)) / median(seconds)
    return _MEDIAN_ERROR * spread / math.sqrt(len(seconds))


def _scatter(points: Sequence[_Point]) -> tuple[float, float]:
    """Return the standard error of the mean log ratio, and its degrees of freedom.

    The larger of what the repetitions say and what the points among each other say.
    """
    count = len(points)
    within = math.sqrt(sum(point.error**2 for point in points)) / count
    degrees = sum(point.degrees for point in points)
    if count < 2:
        return within, degrees
    among = float(np.std([point.log_ratio for point in points], ddof=1)) / math.sqrt(count)
    return (among, count - 1.0) if among > within else (within, degrees)


def _contrast(points: Sequence[_Point], label: str, between_runs: float) -> Contrast:
    scatter, degrees = _scatter(points)
    error = math.hypot(scatter, between_runs)
    # the runs' part of the error is given, not estimated: it has no degrees of its own
    share = (scatter / error) ** 4 if error else 0.0
    freedom = degrees / share if share and degrees else (math.inf if error else 0.0)
    return Contrast(
        quality=Quality.STEP_TIME,
        label=label,
        before=_middle([p.before_s for p in points]),
        after=_middle([p.after_s for p in points]),
        difference=float(np.mean([p.log_ratio for p in points])),
        standard_error=error,
        degrees=freedom,
        samples=(len(points), len(points)),
        is_log=True,
    )


def _middle(seconds: Sequence[float]) -> float:
    """Return the geometric mean: the ratio of two such means is the mean ratio."""
    return float(np.exp(np.mean(np.log(seconds))))
