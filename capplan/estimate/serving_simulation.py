"""Continuous batching step by step, as vLLM's V1 scheduler does it, with speculation.

Every step first takes the sequences that decode (N + 1 tokens each), then, in order of arrival,
prompts in chunks as far as the step's token budget and the KV blocks reach. Where blocks run out
the request admitted last is thrown out and computed again later. One step after the other, so
what waits for what is not assumed but comes out. docs/method/serving-simulation.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from capplan.estimate.serving_acceptance import NO_DRAFTS, AcceptedLengths
from capplan.estimate.serving_clocks import StepClock
from capplan.estimate.serving_decoding import Decoding, Drawn
from capplan.estimate.serving_limits import EngineLimits, check_load
from capplan.estimate.serving_results import WATCHED, EngineMark, EngineState, SimulatedLoad
from capplan.estimate.serving_traffic import Traffic

REPORTED_EVERY = 4096
"""Steps between two reports of progress."""


def simulate_load(
    traffic: Traffic,
    limits: EngineLimits,
    clock: StepClock,
    accepted: AcceptedLengths = NO_DRAFTS,
    *,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> SimulatedLoad:
    """Serve a load to its end.

    Parameters
    ----------
    traffic
        Requests.
    limits
        The engine's.
    clock
        What steps take.
    accepted
        How many drafts rounds accept, up to the largest N of the limits.
    seed
        Of the accepted drafts; the same seed gives the same run.
    on_progress
        Called now and then with the number of requests that have ended.

    Raises
    ------
    RequestError
        If a request cannot fit the pool by itself, or acceptance at a length is unknown.
    """
    check_load(traffic, limits, accepted)
    run = _Run(traffic, limits, clock, Drawn(accepted, traffic.count, seed))
    while run.step():
        if on_progress is not None and run.steps % REPORTED_EVERY == 0:
            on_progress(run.ended)
    return run.result()


class _Run:
    """The state between two steps; times in seconds since 0."""

    def __init__(
        self, traffic: Traffic, limits: EngineLimits, clock: StepClock, drawn: Drawn
    ) -> None:
        self._traffic, self._limits, self._clock = traffic, limits, clock
        count = traffic.count
        self._lengths = limits.lengths()
        self._block = limits.block_tokens
        self._blocks = limits.kv_tokens // limits.block_tokens
        self._prompt = traffic.prompt_tokens.tolist()
        # at least one token of a prompt is computed, and only whole blocks are shared
        whole = np.minimum(traffic.cached_tokens, traffic.prompt_tokens - 1) // self._block
        self._cached = (whole * self._block).tolist()
        self._decoding = Decoding(limits.max_num_seqs, self._block, drawn)
        self._waiting: deque[int] = deque()
        self._written = [0] * count
        self._partial, self._partial_done = -1, 0
        self._arrival = [0.0] * count
        self._first, self._end, self._start = [0.0] * count, [0.0] * count, [-1.0] * count
        self._next = 0
        if traffic.arrival_s is not None:
            self._arrival = traffic.arrival_s.tolist()
        self.ended = self.steps = 0
        self._now = self._busy = 0.0
        self._queue_area = self._system_area = self._batch_area = 0.0
        self._max_queue = self._preemptions = self._peak = 0
        self._marks: list[EngineMark] = []
        if traffic.concurrency is not None:
            for _ in range(min(traffic.concurrency, count)):
                self._follow_on()
        else:
            self._arrive()

    # ---- requests come

    def _arrive(self) -> None:
        """Take in what has come by now."""
        arrival, count = self._arrival, self._traffic.count
        while self._next < count and arrival[self._next] <= self._now:
            came = self._now - arrival[self._next]
            self._system_area += came
            self._queue_area += came
            self._waiting.append(self._next)
            self._next += 1
        while len(self._marks) < len(WATCHED) and self._next >= WATCHED[len(self._marks)] * count:
            areas = self._queue_area, self._batch_area
            self._marks.append(EngineMark(self._now, self._busy, *areas))

    def _follow_on(self) -> None:
        """Let the next request of a closed loop come now."""
        if self._next < self._traffic.count:
            self._arrival[self._next] = self._now
            self._waiting.append(self._next)
            self._next += 1

    # ---- one step

    def step(self) -> bool:
        """Run one step, or wait for the next request; False once all have ended."""
        if self.ended == self._traffic.count:
            return False
        decoding = self._decoding
        if not (self._waiting or decoding.count or self._partial >= 0):
            self._now = self._arrival[self._next]
            self._arrive()
        n = self._lengths[decoding.count]
        was_full = self._make_room(n)
        # a step has a budget of tokens: sequences beyond it wait for the next
        batch = min(decoding.count, self._limits.max_num_batched_tokens // (n + 1))
        context = decoding.held_tokens / decoding.count if batch else 0.0
        prefill = 0
        complete: list[int] = []
        if self._partial >= 0 or (self._waiting and not was_full):
            budget = self._limits.max_num_batched_tokens - batch * (n + 1)
            prefill, complete = self._prefill(n, budget, admits=not was_full)
        self._pass_time(self._clock(batch, n + 1, context, prefill), batch)
        self._decode(batch, n)
        for request in complete:
            self._begin_decoding(request)
        if self._traffic.arrival_s is not None:
            self._arrive()
        return True

    def _pass_time(self, seconds: float, batch: int) -> None:
        running = self._decoding.count + (self._partial >= 0)
        waiting = len(self._waiting)
        in_system = self._next - self.ended
        self._max_queue = max(self._max_queue, waiting)
        self._queue_area += waiting * seconds
        self._system_area += in_system * seconds
        self._batch_area += batch * seconds
        self._now += seconds
        self._busy += seconds
        self.steps += 1
        self._peak = max(self._peak, self._decoding.held_tokens + self._partial_done)
        assert running <= self._limits.max_num_seqs

    def _make_room(self, n: int) -> bool:
        """Throw out requests, last admitted first, until the next tokens of the others fit."""
        decoding, full = self._decoding, False
        partial_blocks = -(-self._partial_done // self._block)
        if decoding.blocks_at_most(n + 1) + partial_blocks <= self._blocks:
            return False
        while decoding.blocks(n + 1) + partial_blocks > self._blocks:
            full = True
            self._preemptions += 1
            if self._partial >= 0:
                self._waiting.appendleft(self._partial)
                self._partial, self._partial_done, partial_blocks = -1, 0, 0
            else:
                request, left = decoding.pop_last()
                self._written[request] = int(self._traffic.output_tokens[request]) - left
                self._waiting.appendleft(request)
        return full

    # ---- prompts

    def _prefill(self, n: int, budget: int, *, admits: bool) -> tuple[int, list[int]]:
        """Return the tokens of prompts in this step, and the requests whose prompts it ends."""
        used = self._decoding.blocks(n + 1)
        prefill = 0
        complete: list[int] = []
        if self._partial >= 0:
            request = self._partial
            chunk = min(budget, self._target(request) - self._partial_done)
            held = -(-(self._partial_done + chunk) // self._block)
            if used + held > self._blocks:  # the rest of its prompt finds no room after all
                self._preemptions += 1
                self._waiting.appendleft(request)
                self._partial, self._partial_done = -1, 0
                return 0, []
            prefill, budget, used = chunk, budget - chunk, used + held
            self._continue(request, chunk, complete)
        while admits and self._waiting and budget > 0 and self._has_place(complete):
            request = self._waiting[0]
            target, hit = self._target(request), self._cached[request]
            if used - (-target // self._block) > self._blocks:
                break  # the engine admits a prompt only where the whole of it fits
            self._waiting.popleft()
            chunk = min(budget, target - hit)
            used -= -(hit + chunk) // self._block
            prefill, budget = prefill + chunk, budget - chunk
            if self._start[request] < 0:
                self._start[request] = self._now
            self._partial, self._partial_done = request, hit
            self._continue(request, chunk, complete)
        return prefill, complete

    def _has_place(self, complete: list[int]) -> bool:
        # a prompt in the making has taken the whole budget: nobody is admitted beside it
        return self._decoding.count + len(complete) < self._limits.max_num_seqs

    def _continue(self, request: int, chunk: int, complete: list[int]) -> None:
        self._partial_done += chunk
        if self._partial_done == self._target(request):
            complete.append(request)
            self._partial, self._partial_done = -1, 0

    def _target(self, request: int) -> int:
        """Return the tokens to compute before the next one is written; anew after a preemption."""
        prompt: int = self._prompt[request]
        return prompt + self._written[request]

    # ---- answers

    def _begin_decoding(self, request: int) -> None:
        """Write the token that the end of a prefill gives."""
        written = self._written[request] + 1
        if written == 1:
            self._first[request] = self._now
        left = int(self._traffic.output_tokens[request]) - written
        if left == 0:
            self._finish(request)
        else:
            self._decoding.push(request, self._target(request), left)

    def _decode(self, batch: int, n: int) -> None:
        if batch:
            for request in self._decoding.advance(batch, n):
                self._finish(request)

    def _finish(self, request: int) -> None:
        self._end[request] = self._now
        self.ended += 1
        if self._traffic.concurrency is not None:
            self._follow_on()

    def result(self) -> SimulatedLoad:
        """Return what came of it all."""
        outside_s = self._limits.first_token_overhead_s
        engine = EngineState(
            span_s=self._now,
            busy_s=self._busy,
            steps=self.steps,
            queue_area_s=self._queue_area,
            system_area_s=self._system_area,
            batch_area_s=self._batch_area,
            max_queue=self._max_queue,
            preemptions=self._preemptions,
            peak_tokens=self._peak,
            kv_tokens=self._limits.kv_tokens,
            rounds=self._decoding.rounds,
            emitted=self._decoding.emitted,
            marks=tuple(self._marks),
        )
        return SimulatedLoad(
            traffic=self._traffic,
            arrival_s=np.array(self._arrival),
            start_s=np.array(self._start),
            first_token_s=np.array(self._first) + outside_s,
            end_s=np.array(self._end) + outside_s,
            engine=engine,
        )
