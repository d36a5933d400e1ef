"""Load on a live server: open-loop arrivals at a rate, or a fixed number of requests at a time.

Open loop means that a request is sent at its time whether or not earlier ones have ended, as
users do it: a slow server then shows its queue instead of slowing its own load down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from profiler.backends.live_http import Ask, Served

MAX_IN_FLIGHT = 256
"""One thread a request; more would time the client, not the server."""
_NAP_S = 1.0
"""Longest sleep at a stretch, so that Ctrl-C is heard."""
_LATE_S = 0.05
"""A request this much later than planned was held up by the client."""

_FAILURES_IN_A_ROW = 8


LevelKey = tuple[float, float | None, int | None]
"""Temperature, rate, concurrency."""


@dataclass(frozen=True)
class Level:
    """One step of the ladder; exactly one of rate and concurrency is given."""

    rate_per_s: float | None = None
    concurrency: int | None = None

    def key(self, temperature: float) -> LevelKey:
        """Return what tells a level of one run from its others."""
        return temperature, self.rate_per_s, self.concurrency

    def __str__(self) -> str:
        """Name it as the options do."""
        if self.rate_per_s is not None:
            return f"rate {self.rate_per_s:.3g}/s"
        return f"concurrency {self.concurrency}"


@dataclass(frozen=True)
class Bounds:
    """What one level may take; no request is sent beyond either."""

    max_requests: int
    max_seconds: float


@dataclass
class LoadOutcome:
    """What was served at one level."""

    served: list[Served] = field(default_factory=list)
    duration_s: float = 0.0
    """From the first request sent to the last one ended."""
    late: int = 0
    """Requests that the client sent later than planned: it, not the server, was the limit."""
    peak_in_flight: int = 0
    gave_up: bool = False
    """Whether sending ended early because nothing but failures came back."""


Sender = Callable[[Ask], Served]


def arrival_offsets_s(rate_per_s: float, bounds: Bounds, seed: int) -> list[float]:
    """Return Poisson arrival times from the start, within the bounds; the first is 0."""
    random = np.random.default_rng(seed)
    gaps_s = random.exponential(1.0 / rate_per_s, size=max(bounds.max_requests - 1, 0))
    offsets_s = np.concatenate(([0.0], np.cumsum(gaps_s)))
    return [float(offset) for offset in offsets_s if offset < bounds.max_seconds]


def drive(
    send: Sender,
    asks: Sequence[Ask],
    level: Level,
    bounds: Bounds,
    *,
    seed: int = 0,
    on_sent: Callable[[int], None] = lambda _: None,
) -> LoadOutcome:
    """Put one level of load on a server and wait until everything that was sent has ended.

    Parameters
    ----------
    send
        Sends one request and waits for its end; returns failures as values.
    asks
        The requests, taken in turn and again from the start when they are used up.
    level, bounds
        How much.
    seed
        Of the arrival times.
    on_sent
        Called with the number of requests sent so far.
    """
    crew = _Crew(send, level.concurrency or MAX_IN_FLIGHT)
    began_s = time.perf_counter()
    planned = _planned(level, bounds, seed)
    for number in range(bounds.max_requests if planned is None else len(planned)):
        due_s = None if planned is None else began_s + planned[number]
        crew.free_place(due_s)
        is_over = planned is None and time.perf_counter() - began_s >= bounds.max_seconds
        if is_over or crew.fails:
            break
        crew.start(asks[number % len(asks)], due_s)
        on_sent(number + 1)
    served = crew.finished()
    ended_s = max((one.ended_s for one in served), default=began_s)
    return LoadOutcome(served, ended_s - began_s, crew.late, crew.peak, crew.fails)


def _planned(level: Level, bounds: Bounds, seed: int) -> list[float] | None:
    if level.rate_per_s is None:
        return None
    return arrival_offsets_s(level.rate_per_s, bounds, seed)


class _Crew:
    """One thread a request under way. Threads are daemons: an interrupt need not wait for them."""

    def __init__(self, send: Sender, places: int) -> None:
        self._send = send
        self._places = threading.Semaphore(places)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._served: list[Served] = []
        self._now = 0
        self.peak = 0
        self.late = 0

    @property
    def fails(self) -> bool:
        """Whether the latest requests all failed: the server is gone or refuses."""
        with self._lock:
            latest = self._served[-_FAILURES_IN_A_ROW:]
        return len(latest) == _FAILURES_IN_A_ROW and all(one.error for one in latest)

    def free_place(self, due_s: float | None) -> None:
        """Wait until a request is due, then until it may start."""
        while due_s is not None and (left_s := due_s - time.perf_counter()) > 0:
            time.sleep(min(left_s, _NAP_S))
        while not self._places.acquire(timeout=_NAP_S):
            pass

    def start(self, ask: Ask, due_s: float | None) -> None:
        """Send a request."""
        self.late += due_s is not None and time.perf_counter() - due_s > _LATE_S
        thread = threading.Thread(target=self._serve, args=(ask,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def finished(self) -> list[Served]:
        """Wait for every request and return what came of them, in the order of their end."""
        for thread in self._threads:
            while thread.is_alive():
                thread.join(_NAP_S)
        return list(self._served)

    def _serve(self, ask: Ask) -> None:
        with self._lock:
            self._now += 1
            self.peak = max(self.peak, self._now)
        served = self._sent(ask)
        with self._lock:
            self._served.append(served)
            self._now -= 1
        self._places.release()

    def _sent(self, ask: Ask) -> Served:
        """Send a request; what nobody foresaw is a failed request, not one that vanishes."""
        sent_s = time.perf_counter()
        try:
            return self._send(ask)
        except Exception as failure:  # noqa: BLE001 - a thread has nobody to raise to
            error = f"the client could not take the answer ({type(failure).__name__})"
            return Served(sent_s, time.perf_counter(), task=ask.task, error=error)
