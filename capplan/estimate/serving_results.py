"""What came of a simulated load: times of every request, and the state of the engine over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.serving_traffic import Traffic

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


WATCHED = (0.2, 1.0)
"""Shares of the requests that have come when an open load's steady part begins and ends."""


@dataclass(frozen=True)
class EngineMark:
    """Time since 0, and the areas of :class:`EngineState` up to it."""

    at_s: float
    busy_s: float
    queue_area_s: float
    batch_area_s: float


@dataclass(frozen=True)
class SteadyState:
    """Means of a load, in :attr:`SimulatedLoad.steady` while requests keep coming.

    That is without the begin, when the engine fills, and without the end, when the last and
    longest answers are written beside few others.
    """

    output_tokens_per_s: float
    utilisation: float
    """Share of the time in which a step ran."""
    mean_batch: float
    """Sequences that decode while a step runs."""
    mean_queue: float


@dataclass(frozen=True)
class EngineState:
    """The engine over the whole run.

    Attributes
    ----------
    span_s, busy_s
        From 0 to the last end, and that part of it in which a step ran.
    steps
        Steps run.
    queue_area_s, system_area_s
        Requests that wait, and requests that wait or run, integrated over time.
    max_queue
        Most requests that waited after a step had been filled.
    batch_area_s
        Sequences that decode, integrated over time.
    preemptions
        Requests thrown out of a full cache, to be computed again.
    peak_tokens
        Most tokens in the cache.
    kv_tokens
        Tokens of the pool.
    rounds, emitted
        Rounds of single sequences, and the tokens that they gave.
    marks
        Of an open load, when so many of its requests had come (:data:`WATCHED`).
    """

    span_s: float
    busy_s: float
    steps: int
    queue_area_s: float
    system_area_s: float
    batch_area_s: float
    max_queue: int
    preemptions: int
    peak_tokens: int
    kv_tokens: int
    rounds: int
    emitted: int
    marks: tuple[EngineMark, ...] = ()


@dataclass(frozen=True)
class SimulatedLoad:
    """Requests in the order in which they came, and the engine.

    Attributes
    ----------
    arrival_s, start_s, first_token_s, end_s
        Of each request; ``start_s`` is the begin of the step that first took it.
    """

    traffic: Traffic
    arrival_s: Floats
    start_s: Floats
    first_token_s: Floats
    end_s: Floats
    engine: EngineState

    @property
    def ttft_s(self) -> Floats:
        """Time to the first token."""
        return self.first_token_s - self.arrival_s

    @property
    def wait_s(self) -> Floats:
        """Time until a step first took the request."""
        return self.start_s - self.arrival_s

    @property
    def e2e_s(self) -> Floats:
        """Time to the last token."""
        return self.end_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """Time per output token after the first; requests of one token have none."""
        several = self.traffic.output_tokens > 1
        spent: Floats = (self.end_s - self.first_token_s)[several]
        return spent / (self.traffic.output_tokens[several] - 1)

    @property
    def output_tokens_per_s(self) -> float:
        """Output tokens over the whole run, its begin and end included."""
        return float(self.traffic.output_tokens.sum()) / self.engine.span_s

    @property
    def requests_per_s(self) -> float:
        """Requests over the whole run."""
        return self.traffic.count / self.engine.span_s

    @property
    def utilisation(self) -> float:
        """Share of the time in which a step ran."""
        return self.engine.busy_s / self.engine.span_s

    @property
    def mean_queue(self) -> float:
        """Mean requests waiting."""
        return self.engine.queue_area_s / self.engine.span_s

    @property
    def mean_in_system(self) -> float:
        """Mean requests waiting or running."""
        return self.engine.system_area_s / self.engine.span_s

    @property
    def mean_batch(self) -> float:
        """Mean sequences that decode while a step runs."""
        return self.engine.batch_area_s / self.engine.busy_s

    @property
    def kv_peak_share(self) -> float:
        """Largest share of the cache's tokens in use."""
        return self.engine.peak_tokens / self.engine.kv_tokens

    def steady_requests_per_s(self, skipped: float = 0.2) -> float:
        """Return requests a second between the ends of the first and the last share of them.

        A closed loop's rate without its begin, when all start at once, and its end, when places
        stay empty.
        """
        ends = np.sort(self.end_s)
        first = int(len(ends) * skipped)
        last = len(ends) - 1 - first
        if last <= first or ends[last] <= ends[first]:
            return self.requests_per_s
        return (last - first) / float(ends[last] - ends[first])

    @property
    def whole(self) -> SteadyState:
        """The load over the whole run, its begin and end included."""
        return SteadyState(
            self.output_tokens_per_s, self.utilisation, self.mean_batch, self.mean_queue
        )

    @property
    def steady(self) -> SteadyState:
        """The load while requests keep coming; the whole run where nothing was written then."""
        marks = self.engine.marks
        if len(marks) < len(WATCHED):
            return self.whole
        first, last = marks[0], marks[-1]
        span_s, busy_s = last.at_s - first.at_s, last.busy_s - first.busy_s
        written = self._written(last.at_s) - self._written(first.at_s)
        if busy_s <= 0 or written <= 0:
            return self.whole
        return SteadyState(
            output_tokens_per_s=written / span_s,
            utilisation=busy_s / span_s,
            mean_batch=(last.batch_area_s - first.batch_area_s) / busy_s,
            mean_queue=(last.queue_area_s - first.queue_area_s) / span_s,
        )

    def _written(self, at_s: float) -> float:
        """Return the output tokens by a time; an answer's come evenly from its first on."""
        spent_s = self.end_s - self.first_token_s
        done = np.clip((at_s - self.first_token_s) / np.where(spent_s > 0, spent_s, 1.0), 0.0, 1.0)
        tokens = 1.0 + (self.traffic.output_tokens - 1) * done
        return float(tokens[self.first_token_s <= at_s].sum())
