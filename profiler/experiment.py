"""What one run measures: a frozen plan, sized by device and by what the user asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from capplan.schema.cells import DraftSampling, Phase, Role
from profiler.protocol import TimingPoint

DeviceKind = Literal["cuda", "cpu"]

DEFAULT_TEMPERATURES = (0.0, 0.8)
PROBE_LENGTH = 4
"""Speculation length that is really run at every temperature."""


@dataclass(frozen=True)
class GridDefaults:
    """Default extent of a sweep on one kind of device."""

    batches: tuple[int, ...]
    tokens: tuple[int, ...]
    """Tokens scored a sequence in a pass: 1 is decoding, N+1 is verifying N drafts."""
    contexts: tuple[int, ...]
    """The whole grid runs at the first; at the others ``side_tokens`` and ``side_batches``."""
    side_tokens: tuple[int, ...]
    side_batches: tuple[int, ...]
    prefill_tokens: tuple[int, ...]
    max_tokens: int
    requests_per_task: int
    rounds_lengths: tuple[int, ...]
    rounds_requests: int
    repeats: int
    max_cell_s: float


CUDA_GRID = GridDefaults(
    batches=(1, 2, 4, 8, 16, 32, 64, 128),
    tokens=(1, 2, 3, 4, 5, 7, 9),
    contexts=(1024, 4096, 8192),
    side_tokens=(1, 3, 5, 9),
    side_batches=(1, 2, 4, 8, 16, 32, 64, 128),
    prefill_tokens=(128, 512, 2048),
    max_tokens=256,
    requests_per_task=32,
    rounds_lengths=(1, 2, 4, 8),
    rounds_requests=2,
    repeats=9,
    max_cell_s=1.0,
)
CPU_GRID = GridDefaults(
    batches=(1, 2, 4, 8),
    tokens=(1, 2, 3, 5, 9),
    contexts=(128, 512),
    side_tokens=(1, 5),
    side_batches=(1, 4),
    prefill_tokens=(64, 256),
    max_tokens=64,
    requests_per_task=8,
    rounds_lengths=(1, 2, 4, 8),
    rounds_requests=4,
    repeats=7,
    max_cell_s=2.0,
)
DEMO_GRID = GridDefaults(
    batches=(1, 2, 4, 8),
    tokens=(1, 2, 5, 9),
    contexts=(128, 512),
    side_tokens=(1, 5),
    side_batches=(1, 4),
    prefill_tokens=(256,),
    max_tokens=32,
    requests_per_task=8,
    rounds_lengths=(2, 4),
    rounds_requests=2,
    repeats=5,
    max_cell_s=1.0,
)
"""Sized for about 100 s of measuring with a 135M-parameter LLM in float32 on two CPU cores."""


@dataclass(frozen=True)
class AcceptancePoint:
    """The trace of one task at one temperature."""

    task: str
    temperature: float


@dataclass(frozen=True)
class RoundsPoint:
    """Speculation really run: one task, temperature, length and way to draft."""

    task: str
    temperature: float
    num_speculative_tokens: int
    draft_sampling: DraftSampling | None
    """None for lookup drafts."""


@dataclass(frozen=True)
class Wishes:
    """What the user asked for; None means the default of the device."""

    temperatures: tuple[float, ...] | None = None
    batches: tuple[int, ...] | None = None
    contexts: tuple[int, ...] | None = None
    max_tokens: int | None = None
    requests_per_task: int | None = None
    lengths: tuple[int, ...] | None = None
    """Speculation lengths to run."""


@dataclass(frozen=True)
class ExperimentPlan:
    """All points of one run. Timing comes in two tiers: what a plan needs first, then the rest."""

    sentinel: TimingPoint
    first_timing: tuple[TimingPoint, ...]
    more_timing: tuple[TimingPoint, ...]
    acceptance: tuple[AcceptancePoint, ...]
    rounds: tuple[RoundsPoint, ...]
    max_tokens: int
    requests_per_task: int
    rounds_requests: int
    repeats: int
    max_cell_s: float

    def without_text(self) -> ExperimentPlan:
        """Return the same plan with nothing that depends on what the LLM writes."""
        return replace(self, acceptance=(), rounds=())


def default_grid(device: DeviceKind, *, demo: bool) -> GridDefaults:
    """Return the extent for a device; the demo's own grid applies to CPUs alone."""
    if device == "cuda":
        return CUDA_GRID
    return DEMO_GRID if demo else CPU_GRID


def build_plan(
    grid: GridDefaults,
    wishes: Wishes,
    tasks: tuple[str, ...],
    draft: Literal["none", "lookup", "model"],
) -> ExperimentPlan:
    """Lay out the points of one run.

    Parameters
    ----------
    grid
        Defaults of the device.
    wishes
        Replaces parts of the defaults.
    tasks
        Names of the tasks that there are prompts for.
    draft
        What drafts: a draft model is timed as well, a lookup costs no pass, and without a draft
        there is neither a trace nor a round.
    """
    grid = replace(grid, rounds_lengths=wishes.lengths or grid.rounds_lengths)
    batches = wishes.batches or grid.batches
    contexts = wishes.contexts or grid.contexts
    temperatures = wishes.temperatures or DEFAULT_TEMPERATURES
    points = list(_decode_points(grid, batches, contexts, wishes))
    if draft == "model":
        points += _draft_points(points)
    points += _prefill_points(grid, draft)
    first = tuple(p for p in points if _is_first(p, batches, contexts))
    has_draft = draft != "none"
    return ExperimentPlan(
        sentinel=TimingPoint(Role.TARGET, Phase.DECODE, batches[0], 1, contexts[0]),
        first_timing=first,
        more_timing=tuple(p for p in points if p not in first),
        acceptance=tuple(_acceptance_points(tasks, temperatures)) if has_draft else (),
        rounds=tuple(_rounds_points(grid, tasks, temperatures, draft)) if has_draft else (),
        max_tokens=wishes.max_tokens or grid.max_tokens,
        requests_per_task=wishes.requests_per_task or grid.requests_per_task,
        rounds_requests=grid.rounds_requests,
        repeats=grid.repeats,
        max_cell_s=grid.max_cell_s,
    )


def _decode_points(
    grid: GridDefaults, batches: tuple[int, ...], contexts: tuple[int, ...], wishes: Wishes
) -> Iterable[TimingPoint]:
    for rank, context in enumerate(contexts):
        whole = rank == 0
        side_batches = batches if wishes.batches else grid.side_batches
        for batch in batches if whole else side_batches:
            for tokens in grid.tokens if whole else grid.side_tokens:
                phase = Phase.DECODE if tokens == 1 else Phase.VERIFY
                yield TimingPoint(Role.TARGET, phase, batch, tokens, context)


def _draft_points(points: Iterable[TimingPoint]) -> list[TimingPoint]:
    return [
        TimingPoint(Role.DRAFT, Phase.DECODE, p.batch, 1, p.context)
        for p in points
        if p.phase is Phase.DECODE
    ]


def _prefill_points(
    grid: GridDefaults, draft: Literal["none", "lookup", "model"]
) -> list[TimingPoint]:
    roles = (Role.TARGET, Role.DRAFT) if draft == "model" else (Role.TARGET,)
    return [
        TimingPoint(role, Phase.PREFILL, 1, tokens, 0)
        for role in roles
        for tokens in grid.prefill_tokens
    ]


def _is_first(point: TimingPoint, batches: tuple[int, ...], contexts: tuple[int, ...]) -> bool:
    """Whether a plan can hardly do without this point.

    At the first context: decoding at every batch, and verification at the smallest and largest.
    """
    if point.context != contexts[0]:
        return False
    corner = point.batch in (batches[0], batches[-1])
    tokens = point.tokens_per_sequence
    return tokens == 1 or (corner and tokens == PROBE_LENGTH + 1)


def _acceptance_points(
    tasks: tuple[str, ...], temperatures: tuple[float, ...]
) -> Iterable[AcceptancePoint]:
    for task in tasks:
        for temperature in temperatures:
            yield AcceptancePoint(task, temperature)


def _rounds_points(
    grid: GridDefaults,
    tasks: tuple[str, ...],
    temperatures: tuple[float, ...],
    draft: Literal["none", "lookup", "model"],
) -> Iterable[RoundsPoint]:
    """Every length at the lowest temperature, the probe length at the others, on one task."""
    lowest = min(temperatures)
    probe = PROBE_LENGTH if PROBE_LENGTH in grid.rounds_lengths else max(grid.rounds_lengths)
    lengths = sorted(grid.rounds_lengths, key=lambda n: (n != probe, n))
    for temperature in sorted(temperatures):
        for length in lengths if temperature == lowest else (probe,):
            for sampling in _samplings(temperature, draft):
                yield RoundsPoint(tasks[0], temperature, length, sampling)


def _samplings(
    temperature: float, draft: Literal["none", "lookup", "model"]
) -> tuple[DraftSampling | None, ...]:
    if draft != "model":
        return (None,)
    if temperature == 0:
        return (DraftSampling.GREEDY,)
    return (DraftSampling.GREEDY, DraftSampling.PROBABILISTIC)
