"""One profiling run, readable as a list of steps: see :func:`run_session` and ``_Run.steps``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from pydantic import ValidationError

from capplan.errors import CapplanError, Interrupted, ProfileError
from capplan.profiles.store import StoredProfile
from capplan.schema.pairing import Method
from profiler import cells
from profiler.cells import Bench, Point, TokenIds
from profiler.engine import EngineFactory
from profiler.engine_session import run_engine
from profiler.environment import describe
from profiler.experiment import AcceptancePoint, ExperimentPlan, Wishes, build_plan, default_grid
from profiler.ledger import Ledger, begun_profile, open_ledger
from profiler.prompts import PromptSet, embedded_prompts, load_prompts, too_long_error
from profiler.protocol import Backend, LoadRequest, TimingPoint
from profiler.registry import (
    check_checkpoints,
    create_backend,
    create_engine,
    demo_draft,
    demo_target,
    is_engine,
    null_telemetry,
    open_telemetry,
)
from profiler.request import SessionRequest, clear_leftovers, earlier_profile, held_output
from profiler.schedule import Pace, Progress, Setbacks, ordered, pending
from profiler.telemetry.base import Telemetry
from profiler.timing.clock import Clock, MonotonicClock

__all__ = ["Progress", "SessionRequest", "Wishes", "run_session"]


def run_session(
    request: SessionRequest,
    *,
    on_progress: Callable[[Progress], None],
    clock: Clock | None = None,
    telemetry: Telemetry | None = None,
    backend: Backend | None = None,
    engine: EngineFactory | None = None,
) -> StoredProfile:
    """Measure a pairing and write its profile, cell by cell.

    Parameters
    ----------
    request
        What to do.
    on_progress
        Called before each cell and after the last.
    clock, telemetry, backend, engine
        Handed in by tests; by default the real ones.

    Raises
    ------
    CapplanError
        With a remedy; every finished cell is on disk.
    """
    request = with_demo_draft(request)
    prompts = load_prompts(request.prompts) if request.prompts else embedded_prompts()
    earlier = earlier_profile(request, prompts)
    if earlier is not None and earlier.profile.complete:
        clear_leftovers(request.output)
        return earlier
    with held_output(request.output):
        earlier = earlier_profile(request, prompts)  # as it is now that nobody else writes it
        if backend is None:
            named = [name for name in (request.target, request.draft) if name]
            check_checkpoints(request.backend, named, request.weights == "dummy")
        clock = clock or MonotonicClock()
        if engine is not None or (backend is None and is_engine(request.backend)):
            return _run_engine(request, prompts, earlier, engine, clock, telemetry, on_progress)
        used = backend or create_backend(request.backend)
        run = _Run(request, prompts, earlier, used, clock, on_progress)
        return _run_backend(run, telemetry)


def with_demo_draft(request: SessionRequest) -> SessionRequest:
    """Complete a request that leaves the draft of the embedded LLM to us."""
    if request.target or request.draft or request.method is not Method.DRAFT_MODEL:
        return request
    draft, draft_id = demo_draft()
    return replace(request, draft=draft, draft_id=draft_id)


def _run_backend(run: _Run, telemetry: Telemetry | None) -> StoredProfile:
    watch = telemetry or open_telemetry(run.request.device)
    try:
        return run.steps(watch)
    except KeyboardInterrupt:
        raise run.interrupted() from None
    finally:
        run.backend.close()
        watch.close()


def _run_engine(
    request: SessionRequest,
    prompts: PromptSet,
    earlier: StoredProfile | None,
    engine: EngineFactory | None,
    clock: Clock,
    telemetry: Telemetry | None,
    on_progress: Callable[[Progress], None],
) -> StoredProfile:
    factory = engine or create_engine(request.backend)
    watch = telemetry or open_telemetry(request.device)
    try:
        return run_engine(request, prompts, earlier, factory, clock, watch, on_progress)
    finally:
        watch.close()


@dataclass
class _Run:
    """The state of one run; ``steps`` is its order."""

    request: SessionRequest
    prompts: PromptSet
    earlier: StoredProfile | None
    backend: Backend
    clock: Clock
    on_progress: Callable[[Progress], None]
    ledger: Ledger | None = None
    planned: int = 0
    setbacks: Setbacks = field(default_factory=lambda: Setbacks(str))

    def steps(self, watch: Telemetry) -> StoredProfile:
        """Isolation check, load, environment, plan, measure, check again, verdict, write."""
        pace = Pace(self.clock, self.request.budget_s)
        before = watch.isolation(loaded=False)
        self.load()
        watch = self.watch_of_backend(watch)
        ledger = self.open_ledger(watch)
        ledger.session_verdicts.append(before)
        plan = self.plan()
        bench = self.bench(plan, watch)
        self.setbacks = Setbacks(watch.gone)
        complete = self.measure(bench, ledger, pace)
        ledger.session_verdicts += [watch.isolation(loaded=True), watch.health()]
        ledger.session_verdicts.append(self.setbacks.verdict())
        if not self.setbacks.lost:
            ledger.set_memory(self.backend.memory())
        ledger.finish(complete=complete)
        stored = ledger.save(plan.sentinel)
        if self.setbacks.lost:
            raise self.setbacks.error(ledger.measured().total(), self.planned, self.request.output)
        return stored

    def load(self) -> None:
        """Load target and draft."""
        request = self.request
        first = "fetching and loading the demo LLM" if request.target is None else "loading"
        self.on_progress(Progress(0, 0, first, None))
        target, target_id = (request.target, None) if request.target else demo_target()
        self.backend.load(
            LoadRequest(
                target=target,
                target_id=target_id,
                draft=request.draft,
                draft_id=request.draft_id,
                prompt_lookup=request.prompt_lookup,
                device=request.device,
                dtype=request.dtype,
                dummy_weights=request.weights == "dummy",
            )
        )

    def watch_of_backend(self, watch: Telemetry) -> Telemetry:
        """Keep the telemetry if it watches the device that the backend chose."""
        device = self.backend.record().arguments.get("device", "cpu")
        seen = watch.device()
        if seen is not None and seen.kind == "cuda" and not device.startswith("cuda"):
            return null_telemetry()
        return watch

    def open_ledger(self, watch: Telemetry) -> Ledger:
        """Begin a profile, or go on with the earlier one if the setup is the same."""
        fresh = begun_profile(
            request=self.request.identity(self.prompts),
            environment=describe(watch.device()),
            backend=self.backend.record(),
            target=self.backend.target(),
            draft=self.backend.draft(),
            memory=tuple(self.backend.memory()),
        )
        left_out = self.prompts.left_out_text if self.prompts.left_out else ""
        self.ledger = open_ledger(self.request.output, fresh, self.earlier, left_out)
        self.ledger.peak_memory_bytes_per_s = watch.peak_memory_bytes_per_s()
        return self.ledger

    def plan(self) -> ExperimentPlan:
        """Lay out the points; without real weights or a draft there is no acceptance."""
        request = self.request
        draft: Literal["none", "lookup", "model"] = "model" if request.draft else "none"
        if request.prompt_lookup is not None:
            draft = "lookup"
        assert self.ledger is not None, "open_ledger() comes first"
        device = self.ledger.profile.environment.device.kind
        assert device != "unknown", "this machine's own device is known"
        grid = default_grid(device, demo=request.target is None)
        plan = build_plan(grid, request.wishes, self.prompts.tasks, draft)
        if request.weights == "dummy":
            reason = "the weights are random (--weights dummy): their text says nothing"
            self.ledger.skip("acceptance and speculation", reason)
            return plan.without_text()
        if draft == "none":
            self.ledger.skip("acceptance and speculation", "no --draft and no --method was given")
        return plan

    def bench(self, plan: ExperimentPlan, watch: Telemetry) -> Bench:
        """Encode the prompts and gather what the measurements need."""
        return Bench(
            backend=self.backend,
            plan=plan,
            clock=self.clock,
            telemetry=watch,
            prompt_ids=self.encode(plan) if plan.acceptance else {},
            prompts_sha256=self.prompts.sha256,
            seed=self.request.seed,
        )

    def encode(self, plan: ExperimentPlan) -> dict[str, list[TokenIds]]:
        """Tokenise the prompts asked for; each must leave room for the text to be generated."""
        limit = self.backend.max_context() - plan.max_tokens
        encoded: dict[str, list[TokenIds]] = {}
        for task, prompts in self.prompts.by_task.items():
            for prompt in prompts[: plan.requests_per_task]:
                ids = self.backend.encode(prompt.text)
                if len(ids) > limit:
                    raise too_long_error(self.prompts.source, prompt, len(ids), limit)
                encoded.setdefault(task, []).append(ids)
        return encoded

    def measure(self, bench: Bench, ledger: Ledger, pace: Pace) -> bool:
        """Measure what is missing, saving after every cell. True if nothing was left for later."""
        points = ordered(bench.plan, self.request.seed)
        todo = pending(points, ledger.measured())
        self.planned = len(points)
        bench.to_write.extend(point for point in todo if isinstance(point, AcceptancePoint))
        complete = True
        for number, point in enumerate(todo):
            done = len(points) - len(todo) + number
            eta_s = pace.eta_s(todo[number:], bench.written)
            self.on_progress(Progress(done, len(points), cells.label(point), eta_s))
            written = point in bench.written
            refusal = self.setbacks.ends_run or pace.refusal(point, text_written=written)
            if refusal:
                complete = False
                ledger.skip(cells.label(point), refusal)
                continue
            started_s = self.clock.now_s()
            self.measure_one(bench, ledger, point)
            ledger.save(bench.plan.sentinel)
            pace.note(point, self.clock.now_s() - started_s, text_written=written)
        self.on_progress(Progress(len(points), len(points), "done", 0.0))
        return complete

    def measure_one(self, bench: Bench, ledger: Ledger, point: Point) -> None:
        """Measure one point; a failure is recorded with its class, and the sweep goes on."""
        try:
            store = self.measured(bench, ledger, point)
        except (RuntimeError, MemoryError, ValidationError, CapplanError) as error:
            first_line = next(iter(str(error).splitlines()), "")
            ledger.skip(cells.label(point), f"{type(error).__name__}: {first_line[:200]}")
            self.setbacks.failed_single(first_line)
        else:
            store()

    def measured(self, bench: Bench, ledger: Ledger, point: Point) -> Callable[[], None]:
        """Return how to enter the result of a point; nothing is entered if it fails."""
        if isinstance(point, TimingPoint):
            longest = self.backend.max_context()
            if point.context + point.tokens_per_sequence > longest:
                message = f"longer than the {longest} tokens that these LLMs hold"
                raise ProfileError(message)
            power = cells.wants_power(point, bench.plan) and not ledger.has_power(point)
            timed = cells.measure_timing(bench, point, with_power=power)
            return partial(ledger.add_timing, timed)
        if isinstance(point, AcceptancePoint):
            return partial(ledger.add_acceptance, cells.measure_acceptance(bench, point))
        return partial(ledger.add_rounds, cells.measure_rounds(bench, point))

    def interrupted(self) -> Interrupted:
        """Return what to tell somebody who pressed Ctrl-C."""
        if self.ledger is None or not self.ledger.is_saved:
            return Interrupted("Interrupted before the first cell; nothing was written.")
        done = sum(self.ledger.measured().values())
        return Interrupted(
            f"Interrupted: {done} of {self.planned} cells are in {self.request.output}.",
            "Go on with the same command and --resume.",
        )
