"""What a run of an engine measures: a frozen list of points for each way to start it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from capplan.schema.cells import DraftSampling, Phase, Role
from capplan.schema.pairing import Method
from profiler.engine import Configuration
from profiler.experiment import DEFAULT_TEMPERATURES, DeviceKind, Wishes
from profiler.protocol import TimingPoint

LOOKUPS = frozenset({Method.NGRAM, Method.SUFFIX})
"""Ways to draft without an LLM: there is nothing to sample from."""
SYNTHETIC_RATES = (0.5, 0.7, 0.9)
"""Chances a position at which synthetic drafts are accepted."""


@dataclass(frozen=True)
class EngineGrid:
    """Default extent of a run on one kind of device."""

    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    lengths: tuple[int, ...]
    prefill_tokens: tuple[int, ...]
    text_batch: int
    """Requests at once while text is written for acceptance and losslessness."""
    requests_per_task: int
    max_tokens: int
    blocks: int
    """Times that plain and speculative steps take turns at one point."""
    steps_per_block: int


CUDA_ENGINE = EngineGrid(
    batches=(1, 4, 16, 64),
    contexts=(1024, 4096),
    lengths=(1, 2, 3, 5),
    prefill_tokens=(512, 2048),
    text_batch=16,
    requests_per_task=32,
    max_tokens=256,
    blocks=3,
    steps_per_block=32,
)
CPU_ENGINE = EngineGrid(
    batches=(1, 4, 8),
    contexts=(256,),
    lengths=(1, 2, 4),
    prefill_tokens=(64, 256),
    text_batch=8,
    requests_per_task=8,
    max_tokens=64,
    blocks=4,
    steps_per_block=6,
)
DEMO_ENGINE = EngineGrid(
    batches=(1, 8),
    contexts=(192,),
    lengths=(2, 4),
    prefill_tokens=(256,),
    text_batch=8,
    requests_per_task=4,
    max_tokens=48,
    blocks=4,
    steps_per_block=4,
)


@dataclass(frozen=True)
class StepsPoint:
    """Steps of a full batch: plain ones, and with N > 0 whole rounds beside them."""

    num_speculative_tokens: int
    batch: int
    context: int


@dataclass(frozen=True)
class PrefillPoint:
    """One prompt through the plain engine."""

    tokens: int


@dataclass(frozen=True)
class TextPoint:
    """Text of every task written with and without speculation at one temperature."""

    num_speculative_tokens: int
    draft_sampling: DraftSampling | None
    temperature: float


@dataclass(frozen=True)
class SyntheticPoint:
    """Rounds whose drafts are accepted by chance, to see what an acceptance would be worth."""

    num_speculative_tokens: int
    rate: float


@dataclass(frozen=True)
class StartPoint:
    """Starting an engine; nothing is measured, but it takes its time."""

    configuration: Configuration


EnginePoint = StepsPoint | PrefillPoint | TextPoint | SyntheticPoint


@dataclass(frozen=True)
class Stage:
    """One engine and what is measured with it, beside the plain one where N > 0."""

    configuration: Configuration
    points: tuple[EnginePoint, ...]


@dataclass(frozen=True)
class EnginePlan:
    """All stages of one run, and the sizes that hold for all of them."""

    grid: EngineGrid
    stages: tuple[Stage, ...]
    temperatures: tuple[float, ...]

    @property
    def sentinel(self) -> TimingPoint:
        """The plain step that comes back again and again."""
        return TimingPoint(
            Role.TARGET, Phase.DECODE, self.grid.batches[0], 1, self.grid.contexts[0]
        )

    @property
    def longest(self) -> int:
        """The largest number of drafts a round."""
        return max(stage.configuration.num_speculative_tokens for stage in self.stages)


def engine_grid(device: DeviceKind, wishes: Wishes, *, demo: bool) -> EngineGrid:
    """Return the extent of a run: the device's defaults with what the user asked for."""
    base = CUDA_ENGINE if device == "cuda" else DEMO_ENGINE if demo else CPU_ENGINE
    batches = wishes.batches or base.batches
    return EngineGrid(
        batches=batches,
        contexts=wishes.contexts or base.contexts,
        lengths=wishes.lengths or base.lengths,
        prefill_tokens=base.prefill_tokens,
        text_batch=min(base.text_batch, max(batches)),
        requests_per_task=wishes.requests_per_task or base.requests_per_task,
        max_tokens=wishes.max_tokens or base.max_tokens,
        blocks=base.blocks,
        steps_per_block=base.steps_per_block,
    )


def engine_plan(
    grid: EngineGrid, wishes: Wishes, method: Method | None, *, synthetic: bool
) -> EnginePlan:
    """Lay out the stages of one run.

    Parameters
    ----------
    grid
        From :func:`engine_grid`.
    wishes
        Its temperatures count here.
    method
        How drafts are made; None times the plain engine alone.
    synthetic
        Whether acceptance by chance is measured too.
    """
    temperatures = tuple(sorted(wishes.temperatures or DEFAULT_TEMPERATURES))
    plain = Stage(Configuration(), tuple(_plain_points(grid, method)))
    stages = [plain]
    if method is not None:
        stages += list(_speculative_stages(grid, temperatures, method))
        if synthetic:
            stages += list(_synthetic_stages(grid, method))
    return EnginePlan(grid, tuple(stages), temperatures)


def greedy_of(method: Method) -> DraftSampling | None:
    """Return how drafts are taken by default; nothing is sampled where text is looked up."""
    return None if method in LOOKUPS else DraftSampling.GREEDY


def _plain_points(grid: EngineGrid, method: Method | None) -> Iterable[EnginePoint]:
    yield from (PrefillPoint(tokens) for tokens in grid.prefill_tokens)
    if method is None:
        yield from _steps(grid, 0)


def _speculative_stages(
    grid: EngineGrid, temperatures: tuple[float, ...], method: Method
) -> Iterable[Stage]:
    """Yield the longest drafts first: their trace holds every shorter one."""
    sampling = greedy_of(method)
    for length in sorted(grid.lengths, reverse=True):
        texts = [TextPoint(length, sampling, temperature) for temperature in temperatures]
        yield Stage(Configuration(length, sampling), (*_steps(grid, length), *texts))
    warm = [temperature for temperature in temperatures if temperature > 0]
    if method is Method.DRAFT_MODEL and warm:
        longest, sampled = max(grid.lengths), DraftSampling.PROBABILISTIC
        points = tuple(TextPoint(longest, sampled, temperature) for temperature in warm)
        yield Stage(Configuration(longest, sampled), points)


def _synthetic_stages(grid: EngineGrid, method: Method) -> Iterable[Stage]:
    length = max(grid.lengths)
    for rate in SYNTHETIC_RATES:
        rates = tuple(rate ** (place + 1) for place in range(length))
        configuration = Configuration(length, greedy_of(method), rates)
        yield Stage(configuration, (SyntheticPoint(length, rate),))


def _steps(grid: EngineGrid, length: int) -> list[StepsPoint]:
    """Return the corners of the grid first: a plan can hardly do without them."""
    points = [
        StepsPoint(length, batch, context) for context in grid.contexts for batch in grid.batches
    ]
    corners = {grid.batches[0], grid.batches[-1]}
    return sorted(
        points, key=lambda p: (p.context != grid.contexts[0], p.batch not in corners, p.batch)
    )


def label(point: EnginePoint | StartPoint) -> str:
    """Return a few words for people: progress bars, the list of what was skipped."""
    if isinstance(point, StartPoint):
        length = point.configuration.num_speculative_tokens
        return f"starting the engine with N={length}" if length else "starting the plain engine"
    if isinstance(point, StepsPoint):
        what = f"N={point.num_speculative_tokens}" if point.num_speculative_tokens else "plain"
        return f"steps, {what}, batch {point.batch}, context {point.context}"
    if isinstance(point, PrefillPoint):
        return f"prefill of {point.tokens} tokens"
    if isinstance(point, SyntheticPoint):
        return f"synthetic acceptance {point.rate:g}, N={point.num_speculative_tokens}"
    sampled = f" ({point.draft_sampling})" if point.draft_sampling else ""
    return (
        f"text with N={point.num_speculative_tokens}{sampled} at temperature {point.temperature:g}"
    )
