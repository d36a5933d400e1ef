"""How one cell of each kind is measured: a point goes in, a value of the profile comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.schema.cells import AcceptanceCell, Phase, Role, RoundsCell, TimingCell
from capplan.schema.profile import PowerRecord
from profiler.experiment import AcceptancePoint, ExperimentPlan, RoundsPoint
from profiler.protocol import (
    Backend,
    Generation,
    PreparedPoint,
    SamplingPoint,
    TimingPoint,
)
from profiler.telemetry.base import Telemetry
from profiler.timing.blocks import BlockSettings, BlockTimes, measure_block
from profiler.timing.clock import Clock

Point = TimingPoint | AcceptancePoint | RoundsPoint
TokenIds = tuple[int, ...]

POWER_WINDOW_S = 1.5
"""NVML's energy counter moves every 20 to 100 ms; a window of a second or more hides that."""


@dataclass(frozen=True)
class Timed:
    """Result of one timing point."""

    cell: TimingCell
    power: PowerRecord | None
    timer_cost_s: float


@dataclass(frozen=True)
class Traced:
    """Result of one acceptance point."""

    cell: AcceptanceCell
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Bench:
    """What every measurement needs; during a run only the text already written is added."""

    backend: Backend
    plan: ExperimentPlan
    clock: Clock
    telemetry: Telemetry
    prompt_ids: Mapping[str, Sequence[TokenIds]]
    prompts_sha256: str
    seed: int
    to_write: list[AcceptancePoint] = field(default_factory=list)
    """Acceptance points still to be measured: their text is written side by side."""
    written: dict[AcceptancePoint, Sequence[Generation]] = field(default_factory=dict)

    def sampling(self, temperature: float) -> SamplingPoint:
        """Return how text is sampled at a temperature."""
        return SamplingPoint(temperature, self.plan.max_tokens, self.seed)


def label(point: Point) -> str:
    """Return a few words for people: progress bars, the list of what was skipped."""
    if isinstance(point, TimingPoint):
        width = "" if point.phase is Phase.DECODE else f" {point.tokens_per_sequence} tokens"
        return (
            f"time {point.role} {point.phase}{width}, batch {point.batch}, context {point.context}"
        )
    if isinstance(point, AcceptancePoint):
        return f"acceptance of {point.task} at temperature {point.temperature:g}"
    sampled = f" ({point.draft_sampling})" if point.draft_sampling else ""
    return (
        f"speculation N={point.num_speculative_tokens}{sampled}, {point.task} "
        f"at temperature {point.temperature:g}"
    )


def measure_timing(bench: Bench, point: TimingPoint, *, with_power: bool) -> Timed:
    """Time one point of the grid and, if asked for, the energy it takes."""
    settings = BlockSettings(repeats=bench.plan.repeats, max_seconds=bench.plan.max_cell_s)
    prepared = bench.backend.prepare(point)
    try:
        times = measure_block(prepared, bench.clock, settings)
        power = _measure_power(bench.telemetry, prepared, point, times) if with_power else None
    finally:
        prepared.close()
    cell = TimingCell(
        role=point.role,
        phase=point.phase,
        batch=point.batch,
        tokens_per_sequence=point.tokens_per_sequence,
        context=point.context,
        seconds=times.seconds,
        passes_per_block=times.passes_per_block,
        warmup_seconds=times.warmup_seconds,
        cuda_graph=prepared.cuda_graph,
        verdict=times.verdict,
    )
    return Timed(cell, power, times.timer_cost_s)


def wants_power(point: TimingPoint, plan: ExperimentPlan) -> bool:
    """Whether energy is read here: decoding of the target at the first context."""
    is_decode = point.role is Role.TARGET and point.phase is Phase.DECODE
    return is_decode and point.context == plan.sentinel.context


def _measure_power(
    telemetry: Telemetry, prepared: PreparedPoint, point: TimingPoint, times: BlockTimes
) -> PowerRecord | None:
    before_j = telemetry.energy_j()
    if before_j is None:
        return None
    passes = math.ceil(POWER_WINDOW_S / min(times.seconds))
    seconds = prepared.run_block(passes)
    after_j = telemetry.energy_j()
    if after_j is None or after_j < before_j:
        return None
    return PowerRecord(
        phase=point.phase,
        batch=point.batch,
        joules=after_j - before_j,
        seconds=seconds,
        tokens=passes * point.batch * point.tokens_per_sequence,
    )


def measure_acceptance(bench: Bench, point: AcceptancePoint) -> Traced:
    """Let the target write once and score that text once."""
    sampling = bench.sampling(point.temperature)
    if point not in bench.written:
        _write(bench, point)
    generations = bench.written.pop(point)
    trace = bench.backend.trace(generations, sampling)
    cell = AcceptanceCell(
        task=point.task,
        temperature=point.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        trace_kind=trace.kind,
        prompts_sha256=bench.prompts_sha256,
        requests=len(generations),
        prompt_tokens=sum(len(g.prompt_ids) for g in generations),
        generated_tokens=sum(len(g.generated_ids) for g in generations),
        seed=bench.seed,
    )
    prompts = np.array([len(g.prompt_ids) for g in generations], dtype=np.int32)
    arrays = {"offsets": trace.offsets, "prompt_tokens": prompts, **trace.arrays}
    return Traced(cell, arrays)


def _write(bench: Bench, point: AcceptancePoint) -> None:
    """Let the target write for every task still to be measured at this temperature, at once.

    A step costs little more for six tasks side by side than for one, and a request's text does
    not depend on what is written beside it.
    """
    others = [p for p in bench.to_write if p != point and p.temperature == point.temperature]
    together = [point, *others]
    prompts = [ids for p in together for ids in bench.prompt_ids[p.task]]
    texts = iter(bench.backend.generate(prompts, bench.sampling(point.temperature)))
    for p in together:
        bench.written[p] = [next(texts) for _ in bench.prompt_ids[p.task]]
        if p in bench.to_write:
            bench.to_write.remove(p)


def measure_rounds(bench: Bench, point: RoundsPoint) -> RoundsCell:
    """Speculate for real on the first requests of a task, beside plain decoding."""
    prompts = bench.prompt_ids[point.task][: bench.plan.rounds_requests]
    outcome = bench.backend.run_rounds(
        prompts,
        bench.sampling(point.temperature),
        point.num_speculative_tokens,
        point.draft_sampling,
    )
    return RoundsCell(
        task=point.task,
        temperature=point.temperature,
        draft_sampling=point.draft_sampling,
        num_speculative_tokens=point.num_speculative_tokens,
        batch=1,
        requests=len(prompts),
        rounds=outcome.rounds,
        drafted=outcome.drafted,
        accepted=outcome.accepted,
        accepted_per_position=outcome.accepted_per_position,
        emitted=outcome.emitted,
        seconds=outcome.seconds,
        baseline_emitted=outcome.baseline_emitted,
        baseline_seconds=outcome.baseline_seconds,
        identical_outputs=outcome.identical_outputs,
    )
