"""Time one point: calibrate the block, warm up until it settles, repeat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from capplan.schema.verdict import Verdict
from profiler.protocol import PreparedPoint
from profiler.timing.clock import Clock, reading_cost_s
from profiler.timing.verdict import judge_seconds

TARGET_BLOCK_S = 1e-3
"""A block lasts at least a millisecond."""
MAX_TIMER_SHARE = 1e-3
"""Reading the timer may cost at most this share of a block."""
DEVICE_EVENT_RESOLUTION_S = 0.5e-6
"""Resolution of CUDA events (CUDA Runtime API, cudaEventElapsedTime): the timer cost is never
taken to be less, even where the host clock is finer."""
SETTLED_WITHIN = 0.03
SETTLED_BLOCKS = 3


@dataclass(frozen=True)
class BlockSettings:
    """How long to measure one point."""

    repeats: int = 7
    min_repeats: int = 3
    max_seconds: float = 2.0
    """Stop repeating after this, once ``min_repeats`` are there; stop warming up after this."""
    max_warmup_blocks: int = 6


@dataclass(frozen=True)
class BlockTimes:
    """Raw result of one point; seconds are those of one pass."""

    seconds: tuple[float, ...]
    warmup_seconds: tuple[float, ...]
    passes_per_block: int
    timer_cost_s: float
    verdict: Verdict = field(repr=False)


def measure_block(
    prepared: PreparedPoint, clock: Clock, settings: BlockSettings | None = None
) -> BlockTimes:
    """Measure one prepared point.

    The warm-up runs the very blocks that are measured afterwards, so that caches, allocator and
    clocks are in the state of the measurement.
    """
    chosen = settings or BlockSettings()
    timer_cost_s = max(reading_cost_s(clock), DEVICE_EVENT_RESOLUTION_S)
    first_s = prepared.run_block(1)
    passes = passes_for_block(min(first_s, prepared.run_block(1)), timer_cost_s)
    warmup = [first_s, *_warm_up(prepared, passes, clock, chosen)]
    seconds = _repeat(prepared, passes, clock, chosen)
    return BlockTimes(seconds, tuple(warmup), passes, timer_cost_s, judge_seconds(seconds))


def passes_for_block(pass_s: float, timer_cost_s: float) -> int:
    """Return how many passes make a block long enough for the timer.

    >>> passes_for_block(pass_s=0.045, timer_cost_s=1e-7)
    1
    >>> passes_for_block(pass_s=0.0002, timer_cost_s=5e-7)
    5
    """
    block_s = max(TARGET_BLOCK_S, timer_cost_s / MAX_TIMER_SHARE)
    return max(1, math.ceil(block_s / max(pass_s, DEVICE_EVENT_RESOLUTION_S)))


def _warm_up(
    prepared: PreparedPoint, passes: int, clock: Clock, settings: BlockSettings
) -> list[float]:
    start_s = clock.now_s()
    times: list[float] = []
    while len(times) < settings.max_warmup_blocks and not is_settled(times):
        if clock.now_s() - start_s > settings.max_seconds:
            break
        times.append(prepared.run_block(passes) / passes)
    return times


def is_settled(times: Sequence[float]) -> bool:
    """Whether the last blocks agree with each other."""
    last = times[-SETTLED_BLOCKS:]
    return len(last) == SETTLED_BLOCKS and max(last) <= (1 + SETTLED_WITHIN) * min(last)


def _repeat(
    prepared: PreparedPoint, passes: int, clock: Clock, settings: BlockSettings
) -> tuple[float, ...]:
    start_s = clock.now_s()
    times: list[float] = []
    while len(times) < settings.repeats:
        if len(times) >= settings.min_repeats and clock.now_s() - start_s > settings.max_seconds:
            break
        times.append(prepared.run_block(passes) / passes)
    return tuple(times)
