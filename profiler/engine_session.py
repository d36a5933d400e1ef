"""A profiling run of an inference engine: fresh processes, steps in turn, text compared.

On a CPU the plain engine stays up beside each speculative one and the two take turns, block by
block, because such machines drift by more than what is to be measured. On a GPU, whose memory
one engine fills, they run one after the other, the plain one first and last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from capplan.errors import CapplanError, EngineError, Interrupted, RequestError
from capplan.profiles.store import StoredProfile
from capplan.schema.pairing import Method
from capplan.schema.profile import Device
from profiler.engine import (
    GPU_MEMORY_UTILIZATION,
    PLAIN,
    Configuration,
    EngineFactory,
    EngineRequest,
    RunningEngine,
)
from profiler.engine_measures import EngineBench, Texts, measured_points
from profiler.engine_plan import (
    EngineGrid,
    EnginePlan,
    EnginePoint,
    Stage,
    StartPoint,
    StepsPoint,
    SyntheticPoint,
    TextPoint,
    engine_grid,
    engine_plan,
    label,
)
from profiler.environment import describe
from profiler.ledger import Ledger, begun_profile, open_ledger
from profiler.prompts import PromptSet, too_long_error
from profiler.registry import demo_target, null_telemetry
from profiler.request import SessionRequest
from profiler.schedule import Pace, Progress
from profiler.telemetry.base import Telemetry
from profiler.timing.clock import Clock

ROOM_TOKENS = 64
"""Context beyond the longest one timed: the steps themselves, and drafts of the last one."""
SHORTEST_MAX_LEN = 1024


def run_engine(
    request: SessionRequest,
    prompts: PromptSet,
    earlier: StoredProfile | None,
    factory: EngineFactory,
    clock: Clock,
    watch: Telemetry,
    on_progress: Callable[[Progress], None],
) -> StoredProfile:
    """Measure an engine and write its profile, cell by cell; see :func:`session.run_session`."""
    if request.weights == "dummy":
        raise RequestError(
            "An engine is profiled with real weights: its text is compared and its acceptance "
            "counted.",
            "Leave --weights away, or time the shape alone with --backend torch.",
        )
    run = _Run(request, prompts, earlier, factory, clock, on_progress)
    try:
        return run.steps(watch)
    except KeyboardInterrupt:
        raise run.interrupted() from None
    finally:
        run.engines.close()


class _Engines:
    """The engines that are up, by configuration."""

    def __init__(self, factory: EngineFactory, *, beside: bool) -> None:
        self._factory = factory
        self._up: dict[Configuration, RunningEngine] = {}
        self.beside = beside
        """Whether the plain engine may stay up while another one runs."""

    def get(self, configuration: Configuration) -> RunningEngine:
        """Return a running engine; what must make room for it is stopped first."""
        if configuration not in self._up:
            for other in list(self._up):
                if not (self.beside and PLAIN in (other, configuration)):
                    self.stop(other)
            self._up[configuration] = self._factory.start(configuration)
        return self._up[configuration]

    def is_up(self, configuration: Configuration) -> bool:
        """Whether an engine runs."""
        return configuration in self._up

    def stop(self, configuration: Configuration) -> None:
        """Stop an engine, if it is up."""
        engine = self._up.pop(configuration, None)
        if engine is not None:
            engine.close()

    def close(self) -> None:
        """Stop them all."""
        for configuration in list(self._up):
            with suppress(EngineError):
                self.stop(configuration)


@dataclass
class _Run:
    """The state of one run; ``steps`` is its order."""

    request: SessionRequest
    prompts: PromptSet
    earlier: StoredProfile | None
    factory: EngineFactory
    clock: Clock
    on_progress: Callable[[Progress], None]
    engines: _Engines = field(init=False)
    ledger: Ledger | None = None
    done: int = 0
    planned: int = 0
    complete: bool = True

    def __post_init__(self) -> None:
        self.engines = _Engines(self.factory, beside=self.factory.device_kind() == "cpu")

    def steps(self, watch: Telemetry) -> StoredProfile:
        """Isolation check, start, environment, plan, measure, check again, verdict, write."""
        pace = Pace(self.clock, self.request.budget_s)
        watch = self.watch_of_engine(watch)
        before = watch.isolation(loaded=False)
        grid, plan = self.plan()
        self.factory.prepare(self.engine_request(grid, plan))
        self.progress("starting the plain engine", None)
        plain = self.engines.get(PLAIN)
        ledger = self.open_ledger(watch, plain)
        ledger.session_verdicts.append(before)
        bench = self.bench(grid, plan, plain)
        self.measure(bench, plan, ledger, pace)
        self.engines.close()
        ledger.session_verdicts += [watch.isolation(loaded=False), watch.health()]
        ledger.set_memory(self.factory.memory())
        ledger.finish(complete=self.complete)
        return ledger.save(plan.sentinel)

    def watch_of_engine(self, watch: Telemetry) -> Telemetry:
        """Keep the telemetry if it watches the device that the engine runs on."""
        seen = watch.device()
        if seen is not None and seen.kind == "cuda" and self.factory.device_kind() == "cpu":
            return null_telemetry()
        return watch

    def plan(self) -> tuple[EngineGrid, EnginePlan]:
        """Lay out the stages of this device and draft."""
        kind = self.factory.device_kind()
        grid = engine_grid(
            "cuda" if kind == "cuda" else "cpu",
            self.request.wishes,
            demo=self.request.target is None,
        )
        plan = engine_plan(
            grid, self.request.wishes, self.method(), synthetic=self.request.synthetic
        )
        return grid, plan

    def method(self) -> Method | None:
        """Return how drafts are made, as far as the request says."""
        if self.request.method is not None:
            return self.request.method
        if self.request.draft:
            return Method.DRAFT_MODEL
        return Method.NGRAM if self.request.prompt_lookup else None

    def engine_request(self, grid: EngineGrid, plan: EnginePlan) -> EngineRequest:
        """Return what every engine of this run is started with."""
        request = self.request
        first = "fetching the demo LLM" if request.target is None else "finding the checkpoints"
        self.progress(first, None)
        target, target_id = (request.target, None) if request.target else demo_target()
        return EngineRequest(
            target=target,
            target_id=target_id,
            draft=request.draft,
            draft_id=request.draft_id,
            method=self.method(),
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

    def open_ledger(self, watch: Telemetry, plain: RunningEngine) -> Ledger:
        """Begin a profile, or go on with the earlier one if the setup is the same."""
        fresh = begun_profile(
            request=self.request.identity(self.prompts),
            environment=describe(self.device(watch)),
            backend=self.factory.record(plain.facts),
            target=self.factory.target(),
            draft=self.factory.draft(),
            memory=tuple(self.factory.memory()),
        )
        left_out = self.prompts.left_out_text if self.prompts.left_out else ""
        self.ledger = open_ledger(self.request.output, fresh, self.earlier, left_out)
        self.ledger.peak_memory_bytes_per_s = watch.peak_memory_bytes_per_s()
        self.ledger.add_engine_memory(plain.facts.memory)
        for warning in self.factory.warnings():
            self.ledger.skip("engine version", warning)
        for what, reason in self.factory.left_out():
            self.ledger.skip(what, reason)
        if self.method() is None:
            self.ledger.skip("acceptance and speculation", "no --draft and no --method was given")
        return self.ledger

    def device(self, watch: Telemetry) -> Device | None:
        """Return the GPUs in use; None describes the CPU."""
        seen = watch.device()
        if seen is None:
            return None
        return seen.model_copy(update={"count": self.request.tensor_parallel})

    def bench(self, grid: EngineGrid, plan: EnginePlan, plain: RunningEngine) -> EngineBench:
        """Encode the prompts; each must leave room for the text to be generated."""
        limit = self.factory.max_context() - grid.max_tokens - plan.longest
        encoded = {}
        for task, prompts in self.prompts.by_task.items():
            chosen = prompts[: grid.requests_per_task]
            ids = plain.encode([prompt.text for prompt in chosen])
            for prompt, tokens in zip(chosen, ids, strict=True):
                if len(tokens) > limit:
                    raise too_long_error(self.prompts.source, prompt, len(tokens), limit)
            encoded[task] = ids
        return EngineBench(
            grid=grid,
            method=self.method(),
            prompt_ids=encoded,
            prompts_sha256=self.prompts.sha256,
            seed=self.request.seed,
            longest=plan.longest,
            graphs=plain.facts.cuda_graphs,
            max_context=self.factory.max_context(),
        )

    def measure(self, bench: EngineBench, plan: EnginePlan, ledger: Ledger, pace: Pace) -> None:
        """Measure what is missing, stage by stage, saving after every point."""
        there = measured_points(ledger.profile)
        self.planned = sum(len(stage.points) for stage in plan.stages)
        self.done = sum(p in there for stage in plan.stages for p in stage.points)
        for stage in self.stages(bench, plan):
            missing = [point for point in stage.points if point not in there]
            if not missing:
                continue
            refusal = self.factory.refusal(stage.configuration)
            if not refusal:
                refusal = self.started(stage.configuration, ledger, pace)
            for point in missing:
                self.measure_one(bench, plan, ledger, pace, stage.configuration, point, refusal)
            if stage.configuration != PLAIN:
                self.engines.stop(stage.configuration)
            elif not self.engines.beside and not bench.plain_texts:
                self.write_plain_texts(bench, plan, ledger)
        self.finish_texts(bench, plan, ledger)
        self.progress("done", 0.0)

    def write_plain_texts(self, bench: EngineBench, plan: EnginePlan, ledger: Ledger) -> None:
        """Write what the other engines' text is compared with, while the plain one is up."""
        there = measured_points(ledger.profile)
        missing = [p for stage in plan.stages for p in stage.points if p not in there]
        wanted = {p.temperature for p in missing if isinstance(p, TextPoint)}
        wanted |= {0.0 for p in missing if isinstance(p, SyntheticPoint)}
        for temperature in sorted(wanted):
            self.progress(f"plain text at temperature {temperature:g}", None)
            with suppress(EngineError):
                bench.write_plain(self.engines.get(PLAIN), temperature)

    def stages(self, bench: EngineBench, plan: EnginePlan) -> Iterator[Stage]:
        """Yield the stages; where engines cannot share the device, plain ones come first and last.

        The plain stage then times and writes what the others are compared with.
        """
        if self.engines.beside:
            yield from plan.stages
            return
        plain, *others = plan.stages
        steps = dict.fromkeys(
            StepsPoint(0, p.batch, p.context)
            for stage in others
            for p in stage.points
            if isinstance(p, StepsPoint)
        )
        yield Stage(PLAIN, (*plain.points, *steps))
        yield from others
        # Once more at the end: how far the two differ is the drift.
        corner = StepsPoint(0, bench.grid.batches[0], bench.grid.contexts[0])
        if others:
            yield Stage(PLAIN, (corner,))

    def started(self, configuration: Configuration, ledger: Ledger, pace: Pace) -> str:
        """Start what a stage needs; return why it cannot be, or nothing."""
        point = StartPoint(configuration)
        if self.engines.is_up(configuration):
            return ""
        refusal = pace.refusal(point)
        if refusal:
            self.complete = False
            return refusal
        self.progress(label(point), None)
        started_s = self.clock.now_s()
        try:
            engine = self.engines.get(configuration)
        except (CapplanError, ValidationError) as error:
            return _reason(error)
        ledger.add_engine_memory(engine.facts.memory)
        pace.note(point, self.clock.now_s() - started_s)
        return ""

    def measure_one(
        self,
        bench: EngineBench,
        plan: EnginePlan,
        ledger: Ledger,
        pace: Pace,
        configuration: Configuration,
        point: EnginePoint,
        refusal: str,
    ) -> None:
        """Measure one point; a failure is recorded with its class, and the run goes on."""
        self.progress(label(point), pace.eta_s([point]))
        late = "" if refusal else pace.refusal(point)
        if refusal or late:
            self.complete = self.complete and not late
            ledger.skip(label(point), refusal or late)
            return
        started_s = self.clock.now_s()
        try:
            plain = self.plain_beside(bench, configuration, point)
            engine = self.engines.get(configuration)
            bench.measure(point, plain, engine, ledger)
        except (RuntimeError, MemoryError, ValueError, CapplanError) as error:
            ledger.skip(label(point), _reason(error))
            if isinstance(error, EngineError):
                # Whatever is left of it cannot be trusted; the next point starts a fresh one.
                self.engines.close()
        else:
            self.done += 1
            pace.note(point, self.clock.now_s() - started_s)
        ledger.save(plan.sentinel)

    def plain_beside(
        self, bench: EngineBench, configuration: Configuration, point: EnginePoint
    ) -> RunningEngine | None:
        """Return the plain engine if it runs beside; otherwise see that its text is there."""
        if configuration == PLAIN or self.engines.beside:
            return self.engines.get(PLAIN)
        temperature = point.temperature if isinstance(point, TextPoint) else 0.0
        has_text = isinstance(point, TextPoint | SyntheticPoint)
        if has_text and temperature not in bench.plain_texts:
            # The run was resumed after its plain stage: the engines change places once.
            bench.write_plain(self.engines.get(PLAIN), temperature)
        return None

    def finish_texts(self, bench: EngineBench, plan: EnginePlan, ledger: Ledger) -> None:
        """Let the plain engine score what was written while it could not run."""
        waiting: list[Texts] = bench.unscored
        if not waiting:
            return
        self.progress("scoring the text", None)
        try:
            bench.score_waiting(self.engines.get(PLAIN), ledger)
        except CapplanError as error:
            self.complete = False
            ledger.skip("losslessness", _reason(error))
        ledger.save(plan.sentinel)

    def progress(self, what: str, eta_s: float | None) -> None:
        """Report how far the run is."""
        self.on_progress(Progress(self.done, self.planned, what, eta_s))

    def interrupted(self) -> Interrupted:
        """Return what to tell somebody who pressed Ctrl-C."""
        if self.ledger is None or not self.ledger.is_saved:
            return Interrupted("Interrupted before the first cell; nothing was written.")
        return Interrupted(
            f"Interrupted: {self.done} of {self.planned} points are in {self.request.output}.",
            "Go on with the same command and --resume.",
        )


def _reason(error: Exception) -> str:
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first[:400]}"
