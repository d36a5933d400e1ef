"""Clocks are handed in, so that no test waits and no module reads real time by itself."""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock."""

    def now_s(self) -> float:
        """Seconds since an arbitrary start."""


class MonotonicClock:
    """The machine's performance counter."""

    def now_s(self) -> float:
        """Seconds since an arbitrary start."""
        return time.perf_counter()


class FakeClock:
    """A clock that only moves when told to."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_s(self) -> float:
        """Seconds since the clock was made."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_s += seconds


def reading_cost_s(clock: Clock, readings: int = 101) -> float:
    """Return the median seconds between two readings with nothing in between.

    It is what timing one block adds to the block.
    """
    times = [clock.now_s() for _ in range(readings)]
    return median(later - earlier for earlier, later in pairwise(times))
