"""In which order points are measured, how long they take, and when the time is up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass
from statistics import fmean

from profiler.cells import Point
from profiler.experiment import ExperimentPlan
from profiler.timing.clock import Clock
from profiler.timing.order import merged, shuffled, with_sentinel


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int
    total: int
    """Cells of the whole plan; 0 while loading."""
    label: str
    """What is measured now."""
    eta_seconds: float | None
    """Time left, from the pace so far; None before the first cell."""


def ordered(plan: ExperimentPlan, seed: int) -> list[Point]:
    """Return all points in the order of measuring.

    Timing points are mixed, so that a drift of the machine does not look like an effect of the
    batch. Those that no plan can do without come before anything else; then the three kinds take
    turns, so that a run that ends early has something of each.
    """
    first = shuffled((p for p in plan.first_timing if p != plan.sentinel), seed)
    more = shuffled(plan.more_timing, seed + 1)
    timing: list[Point] = [*with_sentinel([*first, *more], plan.sentinel)]
    begin = 1 + max((timing.index(point) for point in first), default=0)
    between = merged(timing[begin:-1], list(plan.acceptance), list(plan.rounds))
    return [*timing[:begin], *between, timing[-1]]


def pending(points: Sequence[Point], measured: Counter[Point]) -> list[Point]:
    """Return the points still missing; one that is planned three times may be there twice."""
    left = Counter(measured)
    missing = []
    for point in points:
        if left[point] > 0:
            left[point] -= 1
        else:
            missing.append(point)
    return missing


class Pace:
    """How long cells of each kind took, and whether another one fits into the budget."""

    def __init__(self, clock: Clock, limit_s: float | None) -> None:
        self._clock = clock
        self._start_s = clock.now_s()
        self._limit_s = limit_s
        self._durations_s: dict[tuple[type, bool], list[float]] = defaultdict(list)

    def note(self, point: object, seconds: float, *, text_written: bool = False) -> None:
        """Note how long a cell took; scoring text that is there is a kind of its own."""
        self._durations_s[type(point), text_written].append(seconds)

    def expected_s(self, point: object, *, text_written: bool = False) -> float | None:
        """Return the mean of cells of its kind, of all cells if there is none, or None.

        Scoring text that is already written costs little beside writing it: nothing is expected
        until one such cell is known.
        """
        own = self._durations_s.get((type(point), text_written))
        if text_written and not own:
            return 0.0
        everything = [s for durations in self._durations_s.values() for s in durations]
        return fmean(own or everything) if everything else None

    def eta_s(self, points: Sequence[object], written: Container[object] = ()) -> float | None:
        """Return the seconds that these points will take at the pace so far."""
        expected = [self.expected_s(point, text_written=point in written) for point in points]
        known = [seconds for seconds in expected if seconds is not None]
        if len(known) < len(expected):
            return None
        left_s = self._left_s()
        return sum(known) if left_s is None else max(0.0, min(sum(known), left_s))

    def refusal(self, point: object, *, text_written: bool = False) -> str:
        """Return why a point is left out, or nothing if there is time for it."""
        left_s = self._left_s()
        if left_s is None or self._limit_s is None:
            return ""
        needed_s = self.expected_s(point, text_written=text_written) or 0.0
        if left_s > 0 and needed_s <= left_s:
            return ""
        return (
            f"no time left in the budget of {self._limit_s / 60:g} min: about {needed_s:.1f} s "
            f"needed, {max(left_s, 0):.1f} s left"
        )

    def _left_s(self) -> float | None:
        if self._limit_s is None:
            return None
        return self._limit_s - (self._clock.now_s() - self._start_s)
