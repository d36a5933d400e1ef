"""A profiling run of an inference engine: fresh processes, steps in turn, text compared.

On a CPU the plain engine stays up beside each speculative one and the two take turns, block by
block, because such machines drift by more than what is to be measured. On a GPU, whose memory
one engine fills, they run one after the other, the plain one first and last.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from capplan.errors import CapplanError, EngineError, Interrupted, RequestError
from capplan.profiles.store import StoredProfile
from profiler.engine import PLAIN, Configuration, EngineFactory, EnginePool, RunningEngine
from profiler.engine_measures.bench import EngineBench
from profiler.engine_measures.measured import measured_points
from profiler.engine_plan import (
    EnginePlan,
    EnginePoint,
    StartPoint,
    SyntheticPoint,
    TextPoint,
    label,
)
from profiler.engine_setup import EngineSetup, one_at_a_time
from profiler.ledger import Ledger
from profiler.prompts import PromptSet
from profiler.request import SessionRequest
from profiler.schedule import Pace, Progress, Setbacks
from profiler.telemetry.base import Telemetry
from profiler.timing.clock import Clock


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
    run = _Run(EngineSetup(request, prompts, factory), earlier, clock, on_progress)
    try:
        return run.steps(watch)
    except KeyboardInterrupt:
        raise run.interrupted() from None
    finally:
        run.engines.close()


@dataclass
class _Run:
    """The state of one run; ``steps`` is its order."""

    setup: EngineSetup
    earlier: StoredProfile | None
    clock: Clock
    on_progress: Callable[[Progress], None]
    engines: EnginePool = field(init=False)
    ledger: Ledger | None = None
    done: int = 0
    planned: int = 0
    complete: bool = True
    setbacks: Setbacks = field(default_factory=lambda: Setbacks(str))

    def __post_init__(self) -> None:
        self.request, self.factory = self.setup.request, self.setup.factory
        self.engines = EnginePool(self.factory, beside=self.factory.device_kind() == "cpu")

    def steps(self, watch: Telemetry) -> StoredProfile:
        """Isolation check, start, environment, plan, measure, check again, verdict, write."""
        pace = Pace(self.clock, self.request.budget_s)
        watch = self.setup.watch_of_engine(watch)
        self.setbacks = Setbacks(watch.gone)
        before = watch.isolation(loaded=False)
        plan = self.setup.plan()
        demo = self.request.target is None
        self.progress("fetching the demo LLM" if demo else "finding the checkpoints", None)
        self.factory.prepare(self.setup.engine_request(plan))
        self.progress("starting the plain engine", None)
        plain = self.engines.get(PLAIN)
        self.ledger = ledger = self.setup.open_ledger(self.earlier, watch, plain)
        ledger.session_verdicts.append(before)
        bench = self.setup.bench(plan, plain)
        self.measure(bench, plan, ledger, pace)
        self.engines.close()
        self.setbacks.finish()
        ledger.session_verdicts += [watch.isolation(loaded=False), watch.health()]
        ledger.session_verdicts.append(self.setbacks.verdict())
        ledger.set_memory(self.factory.memory())
        ledger.finish(complete=self.complete and not self.setbacks.ends_run)
        stored = ledger.save(plan.sentinel)
        if self.setbacks.ends_run:
            raise self.setbacks.error(self.done, self.planned, self.request.output)
        return stored

    def measure(self, bench: EngineBench, plan: EnginePlan, ledger: Ledger, pace: Pace) -> None:
        """Measure what is missing, stage by stage, saving after every point."""
        there = measured_points(ledger.profile)
        self.planned = sum(len(stage.points) for stage in plan.stages)
        self.done = sum(p in there for stage in plan.stages for p in stage.points)
        for stage in plan.stages if self.engines.beside else one_at_a_time(plan):
            missing = [point for point in stage.points if point not in there]
            if not missing:
                continue
            self.setbacks.begin_stage()
            refusal = self.setbacks.ends_run or self.factory.refusal(stage.configuration)
            if not refusal:
                refusal = self.started(stage.configuration, ledger, pace)
            for point in missing:
                self.measure_one(bench, plan, ledger, pace, stage.configuration, point, refusal)
            if stage.configuration != PLAIN:
                self.engines.stop(stage.configuration)
            elif not self.engines.beside and not bench.texts.plain_texts:
                self.write_plain_texts(bench, plan, ledger)
        self.finish_texts(bench, plan, ledger)
        self.progress("done", 0.0)

    def write_plain_texts(self, bench: EngineBench, plan: EnginePlan, ledger: Ledger) -> None:
        """Write what the other engines' text is compared with, while the plain one is up."""
        there = measured_points(ledger.profile)
        missing = [p for stage in plan.stages for p in stage.points if p not in there]
        wanted = {p.temperature for p in missing if isinstance(p, TextPoint)}
        wanted |= {0.0 for p in missing if isinstance(p, SyntheticPoint)}
        for temperature in sorted(wanted) if not self.setbacks.refusal else ():
            self.progress(f"plain text at temperature {temperature:g}", None)
            with suppress(EngineError):
                bench.texts.write_plain(self.engines.get(PLAIN), temperature)

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
            self.setbacks.failed()
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
        refusal = refusal or self.setbacks.refusal
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
                self.setbacks.failed()
        else:
            self.done += 1
            self.setbacks.succeeded()
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
        if has_text and temperature not in bench.texts.plain_texts:
            # The run was resumed after its plain stage: the engines change places once.
            bench.texts.write_plain(self.engines.get(PLAIN), temperature)
        return None

    def finish_texts(self, bench: EngineBench, plan: EnginePlan, ledger: Ledger) -> None:
        """Let the plain engine score what was written while it could not run."""
        if not bench.texts.unscored:
            return
        self.progress("scoring the text", None)
        if self.setbacks.ends_run:
            ledger.skip("losslessness", self.setbacks.ends_run)
            return
        try:
            bench.texts.score_waiting(self.engines.get(PLAIN), ledger)
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
