"""How many requests the engines ended between looks at their counters, and how long they were."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from capplan.profiles.engine_counters import EngineWindow, restart_of, subtracted
from capplan.profiles.engine_names import LENGTHS
from capplan.profiles.engine_scrape import EngineReading
from capplan.profiles.query_scrapes import Look

_STEP_MISSED = 1.5
"""Looks further apart than this many usual steps have one missing between them."""
Served = tuple[str, str]
"""Software and LLM."""
Buckets = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class TrafficCounts:
    """What all engines of one LLM counted together.

    Attributes
    ----------
    software, model
        What was served, by what.
    engines
        Names of the engines.
    seconds
        When they were looked at, since 1970 in UTC; rising.
    requests
        That ended between a look and the next: one fewer than looks.
    watched
        Whether an engine was seen at both of these looks.
    total
        Everything that was counted while watched.
    prompts, outputs
        Requests up to each length, bounds rising; empty where no buckets were asked for.
    restarts
        Engines that began anew between two looks; what they did before, in that time, is lost.
    """

    software: str
    model: str
    engines: tuple[str, ...]
    seconds: tuple[float, ...]
    requests: tuple[float, ...]
    watched: tuple[bool, ...]
    total: EngineWindow
    prompts: Buckets = ()
    outputs: Buckets = ()
    restarts: int = 0


@dataclass
class _Sums:
    """What is added up of one LLM, step by step."""

    steps: int
    engines: set[str] = field(default_factory=set)
    ended: list[dict[str, float]] = field(default_factory=list)
    watched: list[bool] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    gauges: Mapping[str, float] = field(default_factory=dict)
    buckets: dict[str, dict[float, float]] = field(
        default_factory=lambda: {name: defaultdict(float) for name in LENGTHS}
    )
    restarts: int = 0

    def __post_init__(self) -> None:
        self.ended = [defaultdict(float) for _ in range(self.steps)]
        self.watched = [False] * self.steps

    def add(self, step: int, before: EngineReading, after: EngineReading) -> None:
        """Take what one engine did between two looks."""
        if restart_of(before, after):
            self.restarts += 1
            before = EngineReading(*after.key)
            window = EngineWindow(
                *after.key[:2], (after.engine,), after.counters, after.sums, after.counts
            )
        else:
            window = subtracted(before, after)
        self.engines.add(after.engine)
        self.watched[step] = True
        self.gauges = after.gauges
        for total, part in (
            (self.counters, window.counters),
            (self.sums, window.sums),
            (self.counts, window.counts),
        ):
            for name, value in part.items():
                total[name] += value
        for name, value in _ended(window):
            self.ended[step][name] += value
        for name, found in after.buckets.items():
            earlier = before.buckets.get(name, {})
            for bound, value in found.items():
                self.buckets[name][bound] += max(value - earlier.get(bound, 0.0), 0.0)


def traffic_counts(looks: Sequence[Look]) -> tuple[TrafficCounts, ...]:
    """Return what was counted of each LLM, the busiest first.

    An engine that is missing at a look is not watched from the look before it to the one after;
    neither is any where looks are missing.

    Parameters
    ----------
    looks
        The earliest first.
    """
    steps = max(len(looks) - 1, 0)
    sums: dict[Served, _Sums] = defaultdict(lambda: _Sums(steps))
    apart_s = [after.second - before.second for before, after in pairwise(looks)]
    most_s = _STEP_MISSED * median(apart_s) if apart_s else 0.0
    for step in (step for step in range(steps) if apart_s[step] <= most_s):
        earlier = {engine.key: engine for engine in looks[step].scrape.engines}
        for engine in looks[step + 1].scrape.engines:
            if engine.key in earlier:
                sums[engine.key[:2]].add(step, earlier[engine.key], engine)
    seconds = tuple(look.second for look in looks)
    found = [_counts(served, one, seconds) for served, one in sums.items()]
    return tuple(sorted(found, key=lambda one: -sum(one.requests)))


def _ended(window: EngineWindow) -> Iterator[tuple[str, float]]:
    for name, counted in (("completed", window.counters), ("ttft", window.counts)):
        if name in counted:
            yield name, counted[name]


def _counts(served: Served, sums: _Sums, seconds: tuple[float, ...]) -> TrafficCounts:
    has_ends = any("completed" in step for step in sums.ended)
    counted = "completed" if has_ends else "ttft"
    engines = tuple(sorted(sums.engines))
    total = EngineWindow(*served, engines, sums.counters, sums.sums, sums.counts, (), sums.gauges)
    prompts, outputs = (_buckets(sums.buckets[name]) for name in ("prompted", "generated"))
    return TrafficCounts(
        *served,
        engines,
        seconds,
        tuple(step.get(counted, 0.0) for step in sums.ended),
        tuple(sums.watched),
        total,
        prompts,
        outputs,
        sums.restarts,
    )


def _buckets(found: Mapping[float, float]) -> Buckets:
    """Return the counts by bound; nothing where no bound but the infinite one is there."""
    if not any(map(math.isfinite, found)):
        return ()
    return tuple(_rising(sorted(found.items())))


def _rising(pairs: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield counts that do not fall: engines with other bounds would make them."""
    most = 0.0
    for bound, count in pairs:
        most = max(most, count)
        yield bound, most
