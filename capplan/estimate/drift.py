"""Acceptance of a served load by hour: whether it falls with time.

A server was reported to lose acceptance over hours of running (vllm-project/vllm issue 41838).
docs/comparing-prompts.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.observed import tokens_per_round
from capplan.estimate.student import student_quantile, two_sided_p
from capplan.estimate.uncertainty import LogEstimate, ratio_of_requests
from capplan.schema.difference import Interval, RangeFigure, RangeTable, Trend
from capplan.schema.observation import Observation
from capplan.schema.profile import Profile
from capplan.schema.quantity import Quantity

Floats = NDArray[np.float64]

FEWEST_WINDOWS = 4
"""A trend is never told from fewer windows."""
_FEWEST_WITH_CONTEXT = 8
_ERROR = 0.05
_SECONDS_PER_HOUR = 3600.0
_ROUNDING = 1e-9
"""Relative scatter below this is rounding of the arithmetic: a flat load has no trend."""


def by_hour(profile: Profile) -> RangeTable:
    """Return tokens a round by hours since the first window of a served load, and their trend."""
    windows = served_windows(profile.observations)
    rows = observed_ranges(windows, _HOURS)
    notes = [] if rows else ["no windows of a served load: a trace has no clock"]
    trend = hourly_trend(windows) if rows else None
    if rows and trend is None:
        notes.append(
            f"no trend from {len(windows)} windows: it takes {FEWEST_WINDOWS} at different times"
        )
    return RangeTable(
        by="hour", profile=profile.id, rows=tuple(rows), trend=trend, notes=tuple(notes)
    )


@dataclass(frozen=True)
class ServedWindow:
    """One window of a served load."""

    hour: float | None
    """Hours since the first window, at its middle."""
    context: float | None
    """Mean tokens a request holds halfway through its output."""
    tokens_per_round: LogEstimate
    rounds: float
    accepted: float
    num_speculative_tokens: int | None


def served_windows(observations: Sequence[Observation]) -> list[ServedWindow]:
    """Return the windows that counted rounds of speculation and may be used for acceptance."""
    usable = [
        one
        for one in observations
        if one.speculation is not None
        and (one.speculation.rounds or one.speculation.drafts)
        and one.usable_for("acceptance")
    ]
    times = [_middle_s(one) for one in usable]
    first = min((time for time in times if time is not None), default=0.0)
    return [
        _window(one, None if time is None else (time - first) / _SECONDS_PER_HOUR)
        for one, time in zip(usable, times, strict=True)
    ]


def _window(one: Observation, hour: float | None) -> ServedWindow:
    counts = one.speculation
    assert counts is not None, "chosen for its counts"
    context = None
    if one.completed and one.prompt_tokens is not None and one.output_tokens is not None:
        context = (one.prompt_tokens + one.output_tokens / 2) / one.completed
    return ServedWindow(
        hour,
        context,
        tokens_per_round(counts),
        counts.rounds or counts.drafts,
        counts.accepted,
        counts.num_speculative_tokens or len(counts.accepted_per_position) or None,
    )


def _middle_s(one: Observation) -> float | None:
    try:
        began = datetime.fromisoformat(one.started_at)
    except ValueError:
        return None
    return began.timestamp() + (one.duration_s or 0.0) / 2


def _hour_edges(hours: Floats) -> list[float]:
    """Return whole hours; of a shorter watch, quarters of it."""
    most = float(np.max(hours, initial=0.0))
    if most < 2.0:
        return [float(edge) for edge in np.linspace(0.0, max(most, 1e-6), 5)]
    return [float(edge) for edge in range(math.floor(most) + 2)]


@dataclass(frozen=True)
class Ranges:
    """How windows are put into ranges."""

    place: Callable[[ServedWindow], float | None]
    edges: Callable[[Floats], list[float]]
    label: Callable[[float, float], str]


def observed_ranges(windows: Sequence[ServedWindow], ranges: Ranges) -> list[RangeFigure]:
    """Return the windows by range, the last one with its upper end."""
    placed = [(at, one) for one in windows if (at := ranges.place(one)) is not None]
    if not placed:
        return []
    edges = ranges.edges(np.array([at for at, _ in placed]))
    found = []
    for number, (low, high) in enumerate(pairwise(edges)):
        is_last = number == len(edges) - 2
        inside = [one for at, one in placed if low <= at < high or (is_last and at == high)]
        if inside:
            found.append(_range_of(inside, ranges.label(low, high), low, high))
    return found


def _range_of(windows: Sequence[ServedWindow], label: str, low: float, high: float) -> RangeFigure:
    rounds = np.array([one.rounds for one in windows])
    accepted = np.array([one.accepted for one in windows])
    value, relative = ratio_of_requests(rounds + accepted, rounds)
    if len(windows) < 3:
        # one or two windows tell no spread among windows: what each knows of itself is taken
        weights = rounds / rounds.sum()
        relative = math.hypot(
            *(w * one.tokens_per_round.log_sd for w, one in zip(weights, windows, strict=True))
        )
    lengths = {one.num_speculative_tokens for one in windows}
    return RangeFigure(
        label=label,
        low=low,
        high=high,
        num_speculative_tokens=lengths.pop() if len(lengths) == 1 else None,
        tokens_per_round=Quantity.from_relative_se(value, relative),
        rounds=float(rounds.sum()),
        samples=len(windows),
    )


_HOURS = Ranges(
    place=lambda one: one.hour,
    edges=_hour_edges,
    label=lambda low, high: f"{low:.3g}-{high:.3g} h",
)


def hourly_trend(windows: Sequence[ServedWindow]) -> Trend | None:
    """Fit tokens a round to the hour; None from too few windows or none at different times.

    Least squares over windows, weighed between all alike and by their rounds. Windows that follow
    one another are alike, so that they count for fewer. Where contexts are known and differ,
    their effect is taken out: longer conversations are not taken for a decline.
    """
    timed = sorted((one for one in windows if one.hour is not None), key=lambda one: one.hour or 0)
    hours = np.array([one.hour for one in timed], dtype=float)
    if len(timed) < FEWEST_WINDOWS or len(set(hours.tolist())) < 3:
        return None
    values = np.array([one.tokens_per_round.mid for one in timed])
    columns = [np.ones(len(timed)), hours - hours.mean()]
    contexts = np.array([one.context or math.nan for one in timed])
    held = len(timed) >= _FEWEST_WITH_CONTEXT and bool(np.isfinite(contexts).all())
    held = held and float(np.std(contexts)) > 0
    if held:
        columns.append(np.log(contexts) - np.log(contexts).mean())
    design = np.stack(columns, axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        design, held = design[:, :2], False
    slope, error, degrees = _slope(design, values, np.array([_weight(one) for one in timed]))
    reach = student_quantile(_ERROR, degrees) * error
    return Trend(
        label=f"{len(timed)} windows over {hours[-1] - hours[0]:.3g} h",
        per_hour=Interval(low=slope - reach, mid=slope, high=slope + reach),
        windows=len(timed),
        hours=float(hours[-1] - hours[0]),
        at_same_context=held,
        p_value=two_sided_p(slope / error, degrees) if error > 0 else float(slope == 0),
    )


def _weight(one: ServedWindow) -> float:
    """Weigh by rounds: the scatter of a window falls with them."""
    return math.sqrt(one.rounds)


def _slope(design: Floats, values: Floats, weights: Floats) -> tuple[float, float, float]:
    """Return the second coefficient, its error for windows that are alike, and its degrees.

    With r the correlation of neighbouring residuals, n windows are worth n (1 - r) / (1 + r). It
    is estimated from the residuals, which a fit makes less alike than the errors are, so it is
    raised by what few windows take from it. Declared falls of a flat load: 1-4 % where r is 0 or
    0.3 and 3-6 % where it is 0.6, of a nominal 2.5 % (4 to 60 windows, 1,500 series each).
    """
    root = np.sqrt(weights / weights.mean())
    scaled, aims = design * root[:, None], values * root
    coefficients = np.linalg.lstsq(scaled, aims, rcond=None)[0]
    residuals = aims - scaled @ coefficients
    count, terms = design.shape
    slope, squares = float(coefficients[1]), float(residuals @ residuals)
    if squares <= _ROUNDING**2 * float(aims @ aims):
        moved = abs(slope) * float(np.ptp(design[:, 1]))
        return slope if moved > _ROUNDING * float(values.mean()) else 0.0, 0.0, count - terms
    alike = _likeness(residuals, terms)
    variance = squares / (count - terms) * np.linalg.inv(scaled.T @ scaled)[1, 1]
    error = math.sqrt(float(variance) * (1 + alike) / (1 - alike))
    worth = count * (1 - alike) / (1 + alike)
    return slope, error, max(worth - terms, 1.0)


def _likeness(residuals: Floats, terms: int) -> float:
    """Return the correlation of neighbours, corrected for the fit, within 0 .. 0.9."""
    seen = float(residuals[1:] @ residuals[:-1]) / float(residuals @ residuals)
    raised = seen + (terms + 3 * max(seen, 0.0)) / len(residuals)
    return min(max(raised, 0.0), 0.9)
