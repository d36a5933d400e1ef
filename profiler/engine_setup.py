"""What a run of an engine begins with: a plan, the engines' request, a profile, the prompts."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.profiles.store import StoredProfile
from capplan.schema.measured_setup import Device
from capplan.schema.pairing import Method
from profiler.engine import (
    GPU_MEMORY_UTILIZATION,
    PLAIN,
    EngineFactory,
    EngineRequest,
    RunningEngine,
)
from profiler.engine_measures.bench import EngineBench
from profiler.engine_measures.prompts import EnginePrompts
from profiler.engine_measures.steps import StepTimer
from profiler.engine_measures.texts import TextWriter
from profiler.engine_plan import EnginePlan, Stage, StepsPoint, engine_grid, engine_plan
from profiler.environment import describe
from profiler.ledger import Ledger, begun_profile, open_ledger
from profiler.prompts import PromptSet, too_long_error
from profiler.registry import demo_target, null_telemetry
from profiler.request import SessionRequest
from profiler.telemetry.base import Telemetry

ROOM_TOKENS = 64
"""Context beyond the longest one timed: the steps themselves, and drafts of the last one."""
SHORTEST_MAX_LEN = 1024


@dataclass(frozen=True)
class EngineSetup:
    """What was asked for and who starts the engines: all that a run's beginnings follow from."""

    request: SessionRequest
    prompts: PromptSet
    factory: EngineFactory

    @property
    def method(self) -> Method | None:
        """How drafts are made, as far as the request says."""
        if self.request.method is not None:
            return self.request.method
        if self.request.draft:
            return Method.DRAFT_MODEL
        return Method.NGRAM if self.request.prompt_lookup else None

    def watch_of_engine(self, watch: Telemetry) -> Telemetry:
        """Keep the telemetry if it watches the device that the engine runs on."""
        seen = watch.device()
        if seen is not None and seen.kind == "cuda" and self.factory.device_kind() == "cpu":
            return null_telemetry()
        return watch

    def plan(self) -> EnginePlan:
        """Lay out the stages of this device and draft."""
        kind = self.factory.device_kind()
        grid = engine_grid(
            "cuda" if kind == "cuda" else "cpu",
            self.request.wishes,
            demo=self.request.target is None,
        )
        return engine_plan(
            grid, self.request.wishes, self.method, synthetic=self.request.synthetic
        )

    def engine_request(self, plan: EnginePlan) -> EngineRequest:
        """Return what every engine of this run is started with; may fetch the demo LLM."""
        request, grid = self.request, plan.grid
        target, target_id = (request.target, None) if request.target else demo_target()
        return EngineRequest(
            target=target,
            target_id=target_id,
            draft=request.draft,
            draft_id=request.draft_id,
            method=self.method,
            prompt_lookup=request.prompt_lookup,
            device=request.device,
            dtype=request.dtype,
            tensor_parallel=request.tensor_parallel,
            max_num_seqs=max(*grid.batches, grid.text_batch),
            max_model_len=max(
                max(grid.contexts) + ROOM_TOKENS * (plan.longest + 1),
                max(grid.prefill_tokens) + 1,
                SHORTEST_MAX_LEN,
            ),
            gpu_memory_utilization=request.gpu_memory_utilization or GPU_MEMORY_UTILIZATION,
            seed=request.seed,
        )

    def open_ledger(
        self, earlier: StoredProfile | None, watch: Telemetry, plain: RunningEngine
    ) -> Ledger:
        """Begin a profile, or go on with the earlier one if the setup is the same."""
        fresh = begun_profile(
            request=self.request.identity(self.prompts),
            environment=describe(self._device(watch)),
            backend=self.factory.record(plain.facts),
            target=self.factory.target(),
            draft=self.factory.draft(),
            memory=tuple(self.factory.memory()),
        )
        left_out = self.prompts.left_out_text if self.prompts.left_out else ""
        ledger = open_ledger(self.request.output, fresh, earlier, left_out)
        ledger.peak_memory_bytes_per_s = watch.peak_memory_bytes_per_s()
        ledger.add_engine_memory(plain.facts.memory)
        for warning in self.factory.warnings():
            ledger.skip("engine version", warning)
        for what, reason in self.factory.left_out():
            ledger.skip(what, reason)
        if self.method is None:
            ledger.skip("acceptance and speculation", "no --draft and no --method was given")
        return ledger

    def _device(self, watch: Telemetry) -> Device | None:
        """Return the GPUs in use; None describes the CPU."""
        seen = watch.device()
        if seen is None:
            return None
        return seen.model_copy(update={"count": self.request.tensor_parallel})

    def bench(self, plan: EnginePlan, plain: RunningEngine) -> EngineBench:
        """Encode the prompts; each must leave room for the text to be generated."""
        limit = self.factory.max_context() - plan.grid.max_tokens - plan.longest
        encoded = {}
        for task, prompts in self.prompts.by_task.items():
            chosen = prompts[: plan.grid.requests_per_task]
            ids = plain.encode([prompt.text for prompt in chosen])
            for prompt, tokens in zip(chosen, ids, strict=True):
                if len(tokens) > limit:
                    raise too_long_error(self.prompts.source, prompt, len(tokens), limit)
            encoded[task] = ids
        cut = EnginePrompts(encoded, self.prompts.sha256, plan.grid.text_batch)
        return EngineBench(
            timer=StepTimer(
                grid=plan.grid,
                method=self.method,
                prompts=cut,
                graphs=plain.facts.cuda_graphs,
                max_context=self.factory.max_context(),
            ),
            texts=TextWriter(
                prompts=cut,
                max_tokens=plan.grid.max_tokens,
                seed=self.request.seed,
                longest=plan.longest,
            ),
        )


def one_at_a_time(plan: EnginePlan) -> tuple[Stage, ...]:
    """Return the stages for engines that cannot share the device: plain ones first and last.

    The plain stage then times and writes what the others are compared with.
    """
    plain, *others = plan.stages
    steps = dict.fromkeys(
        StepsPoint(0, p.batch, p.context)
        for stage in others
        for p in stage.points
        if isinstance(p, StepsPoint)
    )
    first = Stage(PLAIN, (*plain.points, *steps))
    if not others:
        return (first,)
    # Once more at the end: how far the two differ is the drift.
    corner = StepsPoint(0, plan.grid.batches[0], plan.grid.contexts[0])
    return (first, *others, Stage(PLAIN, (corner,)))
