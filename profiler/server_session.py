"""Profiling a live server: under a load of our own, or only watching the load it has.

Everything that is asked goes to the address given and nowhere else, and every loop ends: by a
count, by a time, or because the server is gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from capplan.errors import Interrupted, ServerError
from capplan.profiles.server_http import get_metrics
from capplan.profiles.store import StoredProfile
from capplan.schema.observation import Observation
from capplan.schema.profile import Backend, Profile, ProfiledLlm, Skipped
from profiler.backends.live_check import CheckRun
from profiler.backends.live_facts import ServerFacts, ask_facts
from profiler.backends.live_http import Ask, Endpoint, ServedLlm, ask_streaming
from profiler.backends.live_ledger import ServerLedger
from profiler.backends.live_load import Bounds, Level, LoadOutcome, drive
from profiler.backends.live_observation import Driven, level_observation, run_totals
from profiler.backends.live_traces import TraceSetting, traces
from profiler.backends.live_windows import WindowRecorder
from profiler.environment import describe
from profiler.ledger import begun_profile
from profiler.prompts import PromptSet, embedded_prompts, load_prompts
from profiler.request import (
    SECONDS_PER_MINUTE,
    check_writable,
    profile_to_resume,
)
from profiler.schedule import Progress
from profiler.server_request import ServerRequest
from profiler.timing.verdict import combine

__all__ = ["ServerRequest", "ask_facts", "run_server_session"]

DEFAULT_PLACES = (1, 4, 16)
"""Without --rate or --concurrency: rates that keep so many requests in flight, by Little's law."""
WINDOW_S = 60.0
_WAIT_FOR_SERVER_S = 60.0
_RETRY_S = 2.0

_DTYPE = "as served"
"""A server does not tell; engines run float32 checkpoints in 16 bits unless told otherwise."""
OnProgress = Callable[[Progress], None]


def run_server_session(request: ServerRequest, *, on_progress: OnProgress) -> StoredProfile:
    """Profile a live server and write it, window by window.

    Raises
    ------
    CapplanError
        With a remedy; every finished window is on disk.
    """
    prompts = load_prompts(request.prompts) if request.prompts else embedded_prompts()
    earlier = _earlier(request, prompts)
    is_done = earlier is not None and earlier.profile.complete
    if earlier is not None and is_done and request.observe_minutes is None:
        return earlier
    check_writable(request.output)
    on_progress(Progress(0, 0, f"asking {request.address}", None))
    facts = ask_facts(request.address, api_key=request.api_key, served_model=request.served_model)
    begun = earlier.profile if earlier is not None else _begun(request, prompts, facts)
    ledger = ServerLedger(request.output, begun, earlier.arrays if earlier is not None else None)
    if prompts.left_out and earlier is None and request.observe_minutes is None:
        ledger.skip([Skipped(what="prompts", reason=prompts.left_out_text)])
    run = _Run(request, prompts, facts, ledger, on_progress)
    try:
        return run.observe() if request.observe_minutes is not None else run.load()
    except KeyboardInterrupt:
        run.ledger.save(complete=False)
        raise Interrupted(
            "Interrupted.", f"What was finished is in {request.output}; go on with --resume."
        ) from None


def _earlier(request: ServerRequest, prompts: PromptSet) -> StoredProfile | None:
    return profile_to_resume(
        request.output, request.identity(prompts), resume=request.resume, force=request.force
    )


def _begun(request: ServerRequest, prompts: PromptSet, facts: ServerFacts) -> Profile:
    return begun_profile(
        request=request.identity(prompts),
        environment=describe(request.device),
        backend=Backend(
            name="server",
            version=facts.version or "unknown",
            arguments={
                "url": str(request.address),
                "served_model": facts.model,
                **facts.arguments(),
            },
        ),
        target=ProfiledLlm(
            spec=request.target,
            dtype=_DTYPE,
            quantisation=request.target.quantisation,
        ),
        draft=request.draft,
    )


@dataclass
class _Run:
    """One session; ``load`` and ``observe`` are its two orders."""

    request: ServerRequest
    prompts: PromptSet
    facts: ServerFacts
    ledger: ServerLedger
    on_progress: OnProgress

    def __post_init__(self) -> None:
        request = self.request
        self.served = ServedLlm(
            request.address, self.facts.model, request.api_key, request.timeout_s
        )
        self.recorder = WindowRecorder(self._fetch, str(request.address))

    def _fetch(self) -> str:
        return get_metrics(self.request.address, api_key=self.request.api_key)

    def load(self) -> StoredProfile:
        """Probe, then level after level: scrape, drive, scrape, write; then check the text."""
        endpoint, alone_s = self.probe()
        levels = self.levels(alone_s)
        points = [(t, level) for t in self.request.temperatures for level in levels]
        seen_before = self.measured()
        share = Bounds(
            max(self.request.max_requests // len(points), 1),
            self.request.max_seconds / len(points),
        )
        complete = True
        for number, (temperature, level) in enumerate(points):
            if number < seen_before:
                continue
            label = f"{level} at temperature {temperature:g}"
            self.on_progress(Progress(number, len(points), label, None))
            complete &= self.level(endpoint, temperature, level, share, number)
            self.ledger.save(complete=False)
        self.check(endpoint)
        self.remember_cache()
        return self.ledger.save(complete=complete)

    def probe(self) -> tuple[Endpoint, float]:
        """Send one request; return the way of asking that works, and how long it took alone."""
        ask = self.asks(self.request.temperatures[0])[0]
        errors = []
        for endpoint in _ENDPOINTS:
            answer = ask_streaming(self.served, endpoint, ask)
            if not answer.error and answer.event_s:
                return endpoint, max(answer.ended_s - answer.sent_s, 1e-3)
            errors.append(answer.error or "no text came")
        raise ServerError(
            f"{self.request.address} writes no text: {'; '.join(errors)}",
            "Give the address of an OpenAI-compatible server that is up.",
        )

    def levels(self, alone_s: float) -> list[Level]:
        """Return the ladder: as asked for, else rates for a few requests in flight."""
        asked = [Level(rate_per_s=rate) for rate in self.request.rates_per_s]
        asked += [Level(concurrency=places) for places in self.request.concurrencies]
        return asked or [Level(rate_per_s=places / alone_s) for places in DEFAULT_PLACES]

    def measured(self) -> int:
        """Return how many levels an earlier part of the run finished."""
        kept = self.ledger.profile.observations
        return sum(seen.format == "capplan-load" for seen in kept)

    def level(
        self, endpoint: Endpoint, temperature: float, level: Level, share: Bounds, number: int
    ) -> bool:
        """Put one level on the server and write what was seen; False if the server was lost."""
        if not self._is_up():
            self.ledger.skip([Skipped(what=str(level), reason=self.recorder.problem)])
            return False
        self.recorder.close()
        asks = self.asks(temperature)
        with self._scraping():
            outcome = drive(
                lambda ask: ask_streaming(self.served, endpoint, ask),
                asks,
                level,
                share,
                seed=self.request.seed + number,
            )
        self.recorder.look()
        self._write(outcome, Driven(level, temperature, self.request.thinking, self._dataset()))
        return not outcome.gave_up

    def _write(self, outcome: LoadOutcome, driven: Driven) -> None:
        request = self.request
        before = len(self.recorder.windows)
        self.recorder.close(run_totals(outcome))
        windows = self._of_model(self.recorder.windows[before:])
        whole = windows[-1] if windows and not self.recorder.lost else None
        seen = [level_observation(outcome, driven, whole, str(request.address))]
        if whole is None:
            seen += windows  # both sides of a restart, each by itself
        seen[0] = self._described(seen[0])
        self.ledger.add_observations(seen)
        self._note_losses()
        setting = TraceSetting(
            driven.temperature, request.thinking, None, self.prompts.sha256, request.seed
        )
        self.ledger.add_traces(traces(outcome.served, setting))

    def observe(self) -> StoredProfile:
        """Only read the metrics until the time is up; outages and restarts are noted."""
        minutes = self.request.observe_minutes or 0.0
        end_s = time.monotonic() + minutes * SECONDS_PER_MINUTE
        window_s = min(WINDOW_S, minutes * SECONDS_PER_MINUTE)
        if self.recorder.look() is None:
            raise ServerError(self.recorder.problem, "Observe a server that is up.")
        self.ledger.save(complete=False)  # from here on there is a run to go on with
        try:
            while (left_s := end_s - time.monotonic()) > 0:
                time.sleep(min(self.request.interval_s, left_s))
                self._observed_once(window_s, left_s)
        finally:
            self._keep(self.recorder.close())
        self.remember_cache()
        return self.ledger.save(complete=True)

    def _observed_once(self, window_s: float, left_s: float) -> None:
        had_problem = self.recorder.problem
        before = len(self.recorder.windows)
        self.recorder.look()
        if self.recorder.problem and not had_problem:
            self.ledger.skip(
                [
                    Skipped(
                        what=f"from {_now()}",
                        reason=f"outage: {self.recorder.problem}",
                    )
                ]
            )
        if self.recorder.length_s() >= window_s:
            self.recorder.close()
        self._keep(self.recorder.windows[before:])
        state = self.recorder.problem or f"{len(self.recorder.windows)} windows"
        self.on_progress(Progress(0, 0, f"observing: {state}", left_s))

    def _keep(self, windows: Sequence[Observation]) -> None:
        """Write finished windows."""
        self._note_losses()
        if windows:
            self.ledger.add_observations([self._described(w) for w in self._of_model(windows)])
        if windows or self.ledger.profile.skipped:
            self.ledger.save(complete=False)

    def _note_losses(self) -> None:
        self.ledger.skip(self.recorder.lost)
        self.recorder.lost.clear()

    def check(self, endpoint: Endpoint) -> None:
        """Let the server score its own text; without speculation there is nothing to check."""
        length = self._length() or (1 if self.request.draft is not None else 0)
        if not self.request.check_text or self.ledger.profile.losslessness or not length:
            return
        self.on_progress(Progress(0, 0, "checking that the text is the target's own", None))
        texts = [ask.prompt for ask in self.asks(0.0)]
        checker = CheckRun(
            self.served, self.request.target.vocab_size, self.request.seed, endpoint
        )
        checked = checker.run(texts, self.request.temperatures, length)
        for cell in checked.cells:
            self.ledger.add_losslessness(cell)
        self.ledger.skip(checked.skipped)
        self.ledger.seen_once = combine([self.ledger.seen_once, checked.reports])

    def remember_cache(self) -> None:
        """Record the KV capacity that the server tells."""
        memory = self.facts.engine_memory(self._length())
        if memory is not None:
            self.ledger.update(engine_memory=(memory,))

    def asks(self, temperature: float) -> list[Ask]:
        """Return the requests, tasks taking turns."""
        rows = [[(task, p.text) for p in ps] for task, ps in self.prompts.by_task.items()]
        longest = max(map(len, rows))
        mixed = [row[i] for i in range(longest) for row in rows if i < len(row)]
        return [
            Ask(
                prompt=text,
                temperature=temperature,
                max_tokens=self.request.max_tokens,
                seed=self.request.seed + number,
                top_p=self.request.top_p,
                thinking=self.request.thinking,
                task=task,
            )
            for number, (task, text) in enumerate(mixed)
        ]

    def _is_up(self) -> bool:
        """Wait a while for a server that went away."""
        end_s = time.monotonic() + _WAIT_FOR_SERVER_S
        while self.recorder.look() is None:
            if time.monotonic() > end_s:
                return False
            time.sleep(_RETRY_S)
        return True

    @contextmanager
    def _scraping(self) -> Iterator[None]:
        """Scrape at intervals in the background; the recorder is used by nobody else meanwhile."""
        stop = threading.Event()

        def scrape() -> None:
            while not stop.wait(self.request.interval_s):
                self.recorder.look()

        thread = threading.Thread(target=scrape, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _of_model(self, windows: Sequence[Observation]) -> list[Observation]:
        """Keep the windows of the model that is asked; all where metrics name none."""
        named = [window for window in windows if window.model == self.facts.model]
        return named or list(windows)

    def _described(self, seen: Observation) -> Observation:
        """Add what the server and the request tell beside the counters."""
        draft, device = self.request.draft, self.request.device
        return seen.model_copy(
            update={
                "model": seen.model or self.facts.model,
                "engine_version": self.facts.version,
                "method": draft.method if draft is not None else None,
                "gpu": device.name if device.kind == "cuda" else "",
                "gpu_count": device.count if device.kind == "cuda" else None,
            }
        )

    def _length(self) -> int:
        """Return the speculation length seen, 0 without speculation."""
        counts = [seen.speculation for seen in self.ledger.profile.observations]
        lengths = [c.num_speculative_tokens for c in counts if c is not None]
        return max([n for n in lengths if n is not None], default=0)

    def _dataset(self) -> str:
        return self.prompts.source


_ENDPOINTS: tuple[Endpoint, ...] = ("chat", "completions")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
