"""Rates of the hours of a day and of the days of a week, from events that were counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.schema.arrival import DAYS_PER_WEEK, HOURS_PER_DAY, Arrival
from capplan.units import SECONDS_PER_HOUR

Floats = NDArray[np.float64]

SECONDS_PER_DAY = HOURS_PER_DAY * SECONDS_PER_HOUR
_LEAST_HOUR_S, _LEAST_DAY_S = 1800.0, 12 * SECONDS_PER_HOUR
"""How much of an hour of the day, or of a day of the week, must have been seen to weigh it."""
_EPOCH_WEEKDAY = 3
"""1970-01-01 was a Thursday; Monday is 0."""


@dataclass(frozen=True)
class Course:
    """Events over time.

    Attributes
    ----------
    begin_s, end_s
        What was looked at.
    counted
        Events before each of some times.
    watched_s
        Seconds of ``begin_s`` to each of some times in which events were counted.
    """

    begin_s: float
    end_s: float
    counted: Callable[[Floats], Floats]
    watched_s: Callable[[Floats], Floats]


def hour_of_day_rates(course: Course) -> tuple[float, ...] | None:
    """Return events a second by hour of the day; None unless half of every hour was watched.

    Seconds count from a midnight.
    """
    return _rates(course, SECONDS_PER_HOUR, HOURS_PER_DAY, _LEAST_HOUR_S, 0)


def day_of_week_rates(course: Course) -> tuple[float, ...] | None:
    """Return events a second by weekday, Monday first; None unless half of each was watched.

    Seconds count from 1970.
    """
    return _rates(course, SECONDS_PER_DAY, DAYS_PER_WEEK, _LEAST_DAY_S, _EPOCH_WEEKDAY)


def seen_arrival(
    mean: float | None,
    peak: float | None,
    hours: tuple[float, ...] | None,
    days: tuple[float, ...] | None,
) -> tuple[float | None, Arrival | None]:
    """Return the mean rate, and how requests spread around it; None where nothing shows it.

    Parameters
    ----------
    mean
        Events over the time that was watched; None where it is not known.
    peak
        Of the busiest window.
    hours, days
        Rates of the hours of a day and of the days of a week.
    """
    shape = days or hours
    # nine days hold four days of weekend: where the shape is known, its mean is the mean
    rate = mean if shape is None else float(np.mean(shape))
    if rate is None or (peak is None and shape is None):
        return rate, None
    # the mean of a trace counts gaps, the peak requests: they may cross in a steady trace
    peak = None if peak is None else max(peak, rate)
    return rate, Arrival(peak_requests_per_s=peak, hour_of_day=hours, day_of_week=days)


def _rates(
    course: Course, slot_s: float, slots: int, least_s: float, first: int
) -> tuple[float, ...] | None:
    """Return the rate of each recurring slot: its events over the time that it was watched."""
    begin, end = int(course.begin_s // slot_s), int(course.end_s // slot_s)
    edges: Floats = np.arange(begin, end + 2, dtype=np.float64) * slot_s
    slot = (np.arange(begin, end + 1) + first) % slots
    seen_s = np.bincount(slot, weights=np.diff(course.watched_s(edges)), minlength=slots)
    if seen_s.min() < least_s:
        return None
    events = np.bincount(slot, weights=np.diff(course.counted(edges)), minlength=slots)
    return tuple(float(rate) for rate in events / seen_s)
