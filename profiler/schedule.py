"""In which order points are measured, how long they take, and when to end early."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from capplan.errors import CapplanError, DeviceError, EngineError
from capplan.schema.verdict import Verdict
from profiler.cells import Point
from profiler.experiment import ExperimentPlan
from profiler.timing.clock import Clock
from profiler.timing.order import merged, shuffled, with_sentinel
from profiler.timing.verdict import STABLE, doubt


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


STAGE_FAILURES = 3
"""Failures of an engine in a row after which the rest of its stage is left out."""
RUN_FAILURES = 6
"""The same, without a point measured in between, after which the run ends."""
_CUDA_FAILURE = "CUDA error:"
"""As torch words what leaves a process without its device."""
_NO_MEMORY = "out of memory"
_SHOWN_CHARS = 200
DEVICE_LOST = "device_lost"
ENGINE_FAILS = "engine_fails"


class Setbacks:
    """Failures in a row: an engine that hangs costs minutes a point, a lost GPU gives none.

    Parameters
    ----------
    gone
        Asks why the device does not answer any more; empty as long as it does.
    """

    def __init__(self, gone: Callable[[], str]) -> None:
        self._gone = gone
        self._of_stage = 0
        self._of_run = 0
        self._is_over = False
        self.lost = ""
        """Why the device is lost."""

    def begin_stage(self) -> None:
        """Give the next way to start the engine its own chance."""
        self._of_stage = 0

    def failed(self) -> None:
        """Note a failure."""
        self._of_stage += 1
        self._of_run += 1
        self.lost = self.lost or self._gone()

    def failed_single(self, error: str) -> None:
        """Note a failure of a point that shares nothing with the next but the device.

        However many points do not fit, the next one may. An error of CUDA itself is another
        matter: this process can use the device no more.
        """
        self.lost = self.lost or self._gone()
        if not self.lost and _CUDA_FAILURE in error and _NO_MEMORY not in error:
            self.lost = error[:_SHOWN_CHARS]

    def succeeded(self) -> None:
        """Note that a point was measured."""
        self._of_stage = self._of_run = 0

    def finish(self) -> None:
        """Judge the end of a run: an engine that failed up to it is not known to work any more."""
        self._is_over = True

    @property
    def ends_run(self) -> str:
        """Why nothing more is tried; empty as long as it is worth it."""
        if self.lost:
            return f"the device is lost: {self.lost}"
        if self._of_run >= (STAGE_FAILURES if self._is_over else RUN_FAILURES):
            return f"the engine failed {self._of_run} times in a row"
        return ""

    @property
    def refusal(self) -> str:
        """Why the next point is not tried."""
        if self.ends_run:
            return self.ends_run
        if self._of_stage >= STAGE_FAILURES:
            return f"the engine failed {self._of_stage} times in a row with these settings"
        return ""

    def verdict(self) -> Verdict:
        """Judge a run that ended early: what was measured before may have suffered already."""
        if self.lost:
            return doubt(DEVICE_LOST, 1.0, 0.0, LOST_REMEDY)
        if self.ends_run:
            return doubt(ENGINE_FAILS, self._of_run, RUN_FAILURES, FAILS_REMEDY)
        return STABLE

    def error(self, done: int, planned: int, output: Path) -> CapplanError:
        """Return the error of a run that ended early; what it measured is on disk."""
        why, measured = self.ends_run, f"{done} of {planned} points are in {output}"
        message = f"The run ended early, {why}: {measured}."
        if self.lost:
            return DeviceError(message, LOST_REMEDY)
        return EngineError(message, FAILS_REMEDY)


LOST_REMEDY = (
    "Look for Xid errors in dmesg; a GPU that is lost often needs a reboot. Then go on with "
    "--resume."
)
FAILS_REMEDY = "Check that the engine runs by itself, then go on with --resume."


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
