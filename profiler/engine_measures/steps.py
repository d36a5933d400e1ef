"""Timing an engine's steps: prompts by themselves, and plain steps and rounds in turn."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.errors import ProfileError
from capplan.schema.cells import Phase
from capplan.schema.pairing import Method
from profiler.engine import Load, RunningEngine
from profiler.engine_cells import full_rounds, full_steps, prefill_seconds, timing_cell
from profiler.engine_measures.prompts import EnginePrompts
from profiler.engine_plan import LOOKUPS, EngineGrid, PrefillPoint, StepsPoint
from profiler.ledger import Ledger

WARMUP_STEPS = 2
PREFILL_REPEATS = 5
FEWEST_STEPS = 3
PERIOD_TOKENS = 8
"""Length of the passage that prompts repeat where lookup is timed: an LLM that has read it a dozen
times goes on with it, and the lookup finds its drafts. Few repetitions do not hold a small one."""


@dataclass(frozen=True)
class StepTimer:
    """Times steps of full batches at one context."""

    grid: EngineGrid
    method: Method | None
    prompts: EnginePrompts
    graphs: bool
    max_context: int

    def time_prompts(self, point: PrefillPoint, engine: RunningEngine, ledger: Ledger) -> None:
        """Time prompts by themselves."""
        prompts = self.prompts.of_length(PREFILL_REPEATS + 1, point.tokens)
        served = [engine.serve(Load([prompt], 1, 1, ignore_eos=True)) for prompt in prompts]
        seconds = prefill_seconds(served[1:])
        ledger.add_steps([timing_cell(Phase.PREFILL, 1, point.tokens, 0, seconds, graphs=False)])

    def time_steps(
        self,
        point: StepsPoint,
        plain: RunningEngine | None,
        engine: RunningEngine,
        ledger: Ledger,
    ) -> None:
        """Time plain steps and rounds in turn; which goes first alternates."""
        length = point.num_speculative_tokens
        ends = point.context + self._steps_of_a_block() * (length + 1)
        if ends > self.max_context:
            raise ProfileError(f"It ends at {ends} tokens; at most {self.max_context} fit.")
        sides: list[tuple[RunningEngine, int]] = [(engine, length)]
        if length and plain is not None:
            sides.insert(0, (plain, 0))
        seconds: dict[int, list[float]] = {n: [] for _, n in sides}
        for block in range(self.grid.blocks):
            for side, n in sides if block % 2 == 0 else reversed(sides):
                seconds[n] += self._block(side, point, n)
        for n, values in seconds.items():
            if len(values) < FEWEST_STEPS:
                raise ProfileError(
                    f"Only {len(values)} of the steps with N={n} had {point.batch} requests with "
                    f"{n} drafts each; {FEWEST_STEPS} are needed."
                )
        ledger.add_steps(
            [
                timing_cell(
                    Phase.ROUND if n else Phase.DECODE,
                    point.batch,
                    n + 1,
                    point.context,
                    values,
                    graphs=self.graphs,
                )
                for n, values in seconds.items()
            ]
        )

    def _block(self, engine: RunningEngine, point: StepsPoint, length: int) -> list[float]:
        """Return the seconds of one block of steps of a full batch."""
        steps = self._steps_of_a_block()
        lookup = self.method in LOOKUPS
        prompts = self.prompts.of_length(
            point.batch,
            max(1, point.context - self.grid.steps_per_block),
            period=PERIOD_TOKENS if lookup else None,
        )
        load = Load(
            prompts,
            point.batch,
            max_tokens=(steps + 2) * (length + 1),
            ignore_eos=True,
            max_steps=steps,
        )
        served = engine.serve(load).steps
        kept = (
            full_rounds(served, point.batch, length, lookup=lookup)
            if length
            else full_steps(served, point.batch)
        )
        settled = kept[WARMUP_STEPS - 1 :] if len(kept) > self.grid.steps_per_block else kept
        return [step.seconds for step in settled]

    def _steps_of_a_block(self) -> int:
        return self.grid.steps_per_block + WARMUP_STEPS
