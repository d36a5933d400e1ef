"""The serving simulation against a plain reading of docs/method/serving-simulation.md.

The reference keeps every sequence as an object and counts all blocks anew in every step. It knows
no bound, no short cut and no array: what it says of a small engine can be followed by hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from capplan.estimate.serving_acceptance import AcceptedLengths
from capplan.estimate.serving_decoding import Drawn
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic

Step = tuple[int, int, float, int]


def step_s(batch: int, tokens: int, context: float, prefill_tokens: int) -> float:
    return 1.0 + 0.1 * batch * tokens + 0.001 * context + 0.01 * prefill_tokens


@dataclass(eq=False)
class Request:
    number: int
    prompt: int
    answer: int
    cached: int
    arrival: float
    drafts: int
    """Drafts that each of its rounds would have accepted."""
    written: int = 0
    held: int = 0
    """Tokens in its cache."""
    start: float | None = None
    first: float = math.nan
    end: float = math.nan


@dataclass
class Engine:
    """An engine on paper."""

    load: Traffic
    limits: EngineLimits
    drafts: list[int]
    now: float = 0.0
    coming: list[Request] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)
    decoding: list[Request] = field(default_factory=list)
    prefilling: Request | None = None
    steps: list[Step] = field(default_factory=list)
    preemptions: int = 0
    fullest: int = 0
    longest_queue: int = 0

    def __post_init__(self) -> None:
        arrivals = (
            np.zeros(self.load.count) if self.load.arrival_s is None else self.load.arrival_s
        )
        rows = (
            self.load.prompt_tokens,
            self.load.output_tokens,
            self.load.cached_tokens,
            arrivals,
        )
        self.coming = [
            Request(number, int(prompt), int(answer), int(cached), float(at), drafts)
            for number, (prompt, answer, cached, at, drafts) in enumerate(
                zip(*rows, self.drafts, strict=True)
            )
        ]
        self.all = list(self.coming)
        self.let_in(self.load.concurrency or 0)

    def let_in(self, places: int = 0) -> None:
        """Queue what has come; in a closed loop so many more."""
        while self.coming and (places > 0 or self.is_due):
            request, places = self.coming.pop(0), places - 1
            if not self.is_open:
                request.arrival = self.now
            self.waiting.append(request)

    @property
    def is_due(self) -> bool:
        return self.is_open and self.coming[0].arrival <= self.now

    @property
    def is_open(self) -> bool:
        return self.load.arrival_s is not None

    def blocks(self, more: int, others: int = 0) -> int:
        """Blocks of all that decode with ``more`` tokens each, and of a prompt's ``others``."""
        size = self.limits.block_tokens
        needed = [math.ceil((one.held + more) / size) for one in self.decoding]
        return sum(needed) + math.ceil(others / size)

    @property
    def pool(self) -> int:
        return self.limits.kv_tokens // self.limits.block_tokens

    def throw_out(self) -> None:
        self.preemptions += 1
        request = self.prefilling if self.prefilling is not None else self.decoding.pop()
        self.prefilling, request.held = None, 0
        self.waiting.insert(0, request)

    def run(self) -> None:
        while any(math.isnan(one.end) for one in self.all):
            if not (self.waiting or self.decoding or self.prefilling):
                self.now = self.coming[0].arrival
                self.let_in()
            self.step()
            if self.is_open:
                self.let_in()

    def step(self) -> None:
        n = self.limits.lengths()[len(self.decoding)]
        admits = True
        while self.blocks(n + 1, self.prefilling.held if self.prefilling else 0) > self.pool:
            self.throw_out()
            admits = False
        running = self.decoding[: self.limits.max_num_batched_tokens // (n + 1)]
        held = [one.held for one in self.decoding]
        budget = self.limits.max_num_batched_tokens - len(running) * (n + 1)
        done, prefilled = self.prefill(n, budget, admits=admits)
        began = self.prefilling.held if self.prefilling else 0
        self.fullest = max(self.fullest, sum(held) + began)
        self.longest_queue = max(self.longest_queue, len(self.waiting))
        context = sum(held) / len(held) if held else 0.0
        self.steps.append((len(running), n + 1, context, prefilled))
        self.now += step_s(*self.steps[-1])
        for one in running:
            self.write(one, min(one.drafts, n) + 1)
        self.decoding = [one for one in self.decoding if math.isnan(one.end)]
        for one in done:
            self.write(one, 1)
            if math.isnan(one.end):
                one.held = one.prompt + one.written - 1
                self.decoding.append(one)

    def write(self, one: Request, tokens: int) -> None:
        if one.written == 0:
            one.first = self.now
        tokens = min(tokens, one.answer - one.written)
        one.written += tokens
        one.held += tokens
        if one.written == one.answer:
            one.end = self.now
            self.let_in(0 if self.is_open else 1)

    def prefill(self, n: int, budget: int, *, admits: bool) -> tuple[list[Request], int]:
        done: list[Request] = []
        spent = taken = 0
        if self.prefilling is not None:
            one = self.prefilling
            chunk = min(budget, one.prompt + one.written - one.held)
            if self.blocks(n + 1, one.held + chunk) > self.pool:
                self.throw_out()
                return [], 0
            spent, taken = chunk, math.ceil((one.held + chunk) / self.limits.block_tokens)
            self.compute(one, chunk, done)
        while admits and self.waiting and spent < budget:
            places = len(self.decoding) + len(done) + (self.prefilling is not None)
            one = self.waiting[0]
            whole = one.prompt + one.written
            if places == self.limits.max_num_seqs or self.blocks(n + 1, whole) + taken > self.pool:
                break
            self.waiting.pop(0)
            one.start = self.now if one.start is None else one.start
            size = self.limits.block_tokens
            one.held = min(one.cached, one.prompt - 1) // size * size
            chunk = min(budget - spent, whole - one.held)
            spent, taken = spent + chunk, taken + math.ceil((one.held + chunk) / size)
            self.compute(one, chunk, done)
        return done, spent

    def compute(self, one: Request, chunk: int, done: list[Request]) -> None:
        one.held += chunk
        is_whole = one.held == one.prompt + one.written
        self.prefilling = None if is_whole else one
        done.extend([one] if is_whole else [])


KINDS = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 1.0))
"""Requests that accept none, one, or all of their drafts: no chance is left in a round."""


def small_load(seed: int) -> tuple[Traffic, EngineLimits, AcceptedLengths]:
    """Return a few requests for an engine that hardly holds the longest of them."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    prompts, answers = rng.integers(1, 40, count), rng.integers(1, 30, count)
    cached = (prompts * rng.choice([0.0, 0.5, 1.0])).astype(np.int64)
    longest = int(rng.integers(0, 4))
    lengths = [longest, *rng.integers(0, longest + 1, 3).tolist()]
    block = int(rng.choice([1, 4, 16]))
    needed = -(-(int((prompts + answers).max()) + longest + 1) // block)
    limits = EngineLimits(
        max_num_seqs=int(rng.integers(1, 6)),
        max_num_batched_tokens=int(rng.integers(longest + 1, 40)),
        kv_tokens=(needed + int(rng.integers(0, 6))) * block + int(rng.integers(0, block)),
        block_tokens=block,
        num_speculative_tokens=lengths if rng.random() < 0.5 else longest,
    )
    tables = tuple(np.array([kind[:n] for kind in KINDS]) for n in range(longest + 1))
    drafts = AcceptedLengths(tables, tuple(map(float, range(longest + 1))))
    requests = Traffic(prompts, answers, cached, concurrency=int(rng.integers(1, 7)))
    if rng.random() < 0.5:
        # whole seconds: requests that come at once, and some at the very end of a step
        arrivals = np.sort(rng.integers(0, 30, count)).astype(float)
        requests = Traffic(prompts, answers, cached, arrival_s=arrivals)
    return requests, limits, drafts


# in the last one sequences alone outgrow the pool while a prompt is in the making
@pytest.mark.parametrize("seed", [*range(90), 1371])
def test_a_small_engine_is_run_as_on_paper(seed: int) -> None:
    load, limits, drafts = small_load(seed)
    kinds = Drawn(drafts, load.count, seed).kind_of
    paper = Engine(load, limits, [(0, 1, 3)[kind] for kind in kinds])
    paper.run()
    steps: list[Step] = []

    def clock(batch: int, tokens: int, context: float, prefill_tokens: int) -> float:
        steps.append((batch, tokens, context, prefill_tokens))
        return step_s(batch, tokens, context, prefill_tokens)

    run = simulate_load(load, limits, clock, drafts, seed=seed)
    assert steps == paper.steps
    assert run.arrival_s.tolist() == [one.arrival for one in paper.all]
    assert run.start_s.tolist() == [one.start for one in paper.all]
    assert run.first_token_s.tolist() == [one.first for one in paper.all]
    assert run.end_s.tolist() == [one.end for one in paper.all]
    engine = run.engine
    assert (engine.preemptions, engine.peak_tokens) == (paper.preemptions, paper.fullest)
    assert (engine.max_queue, engine.span_s) == (paper.longest_queue, pytest.approx(paper.now))
    assert engine.busy_s == pytest.approx(sum(step_s(*step) for step in steps))
    assert engine.batch_area_s == pytest.approx(sum(step[0] * step_s(*step) for step in steps))


def test_the_small_engines_do_run_full() -> None:
    loads = [small_load(seed) for seed in range(40)]
    runs = [simulate_load(load, limits, step_s, drafts) for load, limits, drafts in loads]
    assert sum(run.engine.preemptions > 0 for run in runs) > 8
