"""Putting load on a live server: a probe, level after level, then a check of the text."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from capplan.errors import ServerError
from capplan.profiles.store import StoredProfile
from capplan.schema.profile import Skipped
from profiler.backends.live_check import CheckRun
from profiler.backends.live_http import Ask, Endpoint, ask_streaming
from profiler.backends.live_ledger import LEVEL
from profiler.backends.live_load import Bounds, Level, LevelKey, LoadOutcome, drive
from profiler.backends.live_observation import (
    FORMAT,
    SERVER_LOST,
    Driven,
    level_key,
    level_observation,
    run_totals,
)
from profiler.backends.live_traces import TraceSetting, traces
from profiler.schedule import Progress
from profiler.server_run import ServerRun
from profiler.timing.verdict import combine

_RETRY_S = 2.0
_ALONE = "one_request_alone_s"
_ENDPOINTS: tuple[Endpoint, ...] = ("chat", "completions")


class ServerLoad:
    """The load of one session; ``run_all`` is its order."""

    def __init__(self, run: ServerRun) -> None:
        self.run, self.request, self.ledger = run, run.request, run.ledger
        self.served = run.request.served(run.facts.model)
        self.is_gone = False
        """Whether the server was waited for and did not come back."""

    def run_all(self) -> StoredProfile:
        """Probe, then level after level: scrape, drive, scrape, write; then check the text."""
        endpoint, alone_s = self.probe()
        levels = self.request.levels(self.kept_ladder(alone_s))
        points = [(t, level) for t in self.request.temperatures for level in levels]
        there = self.measured()
        share = Bounds(
            max(self.request.max_requests // len(points), 1),
            self.request.max_seconds / len(points),
        )
        complete = True
        for number, (temperature, level) in enumerate(points):
            if level.key(temperature) in there:
                continue
            label = f"{level} at temperature {temperature:g}"
            self.run.on_progress(Progress(number, len(points), label, None))
            complete &= self.level(endpoint, temperature, level, share, number)
            self.ledger.save(complete=False)
        self.check(endpoint)
        self.run.remember_cache()
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

    def kept_ladder(self, alone_s: float) -> float:
        """Return the time of one request that the default ladder stands on.

        It is kept: the run that goes on must find the levels of the one before.
        """
        if self.request.rates_per_s or self.request.concurrencies:
            return alone_s
        backend = self.ledger.profile.backend
        known = {_ALONE: f"{alone_s:.6g}", **backend.arguments}
        self.ledger.update(backend=backend.model_copy(update={"arguments": known}))
        return float(known[_ALONE])

    def measured(self) -> set[LevelKey]:
        """Return the levels that an earlier part of the run finished."""
        return {
            level_key(seen)
            for seen in self.ledger.profile.observations
            if seen.format == FORMAT and not any(f.check == SERVER_LOST for f in seen.flags)
        }

    def level(
        self, endpoint: Endpoint, temperature: float, level: Level, share: Bounds, number: int
    ) -> bool:
        """Put one level on the server and write what was seen; False if the server was lost."""
        recorder = self.run.recorder
        if not self._is_up():
            self.ledger.skip([Skipped(what=f"{LEVEL}{level}", reason=recorder.problem)])
            return False
        recorder.close()
        asks = self.asks(temperature)
        with self._scraping():
            outcome = drive(
                lambda ask: ask_streaming(self.served, endpoint, ask),
                asks,
                level,
                share,
                seed=self.request.seed + number,
            )
        recorder.look()
        self._write(
            outcome, Driven(level, temperature, self.request.thinking, self.run.prompts.source)
        )
        return not outcome.gave_up

    def _write(self, outcome: LoadOutcome, driven: Driven) -> None:
        request, recorder = self.request, self.run.recorder
        before = len(recorder.windows)
        recorder.close(run_totals(outcome))
        windows = self.run.of_model(recorder.windows[before:])
        whole = windows[-1] if windows and not recorder.lost else None
        seen = [level_observation(outcome, driven, whole, str(request.address))]
        if whole is None:
            seen += windows  # both sides of a restart, each by itself
        seen[0] = self.run.described(seen[0])
        self.ledger.add_observations(seen)
        self.run.note_losses()
        setting = TraceSetting(
            driven.temperature, request.thinking, None, self.run.prompts.sha256, request.seed
        )
        self.ledger.add_traces(traces(outcome.served, setting))

    def check(self, endpoint: Endpoint) -> None:
        """Let the server score its own text; without speculation there is nothing to check."""
        length = self.run.speculation_length() or (1 if self.request.draft is not None else 0)
        if not self.request.check_text or self.ledger.profile.losslessness or not length:
            return
        self.run.on_progress(Progress(0, 0, "checking that the text is the target's own", None))
        texts = [ask.prompt for ask in self.asks(0.0)]
        checker = CheckRun(
            self.served, self.request.target.vocab_size, self.request.seed, endpoint
        )
        checked = checker.run(texts, self.request.temperatures, length)
        for cell in checked.cells:
            self.ledger.add_losslessness(cell)
        self.ledger.skip(checked.skipped)
        self.ledger.seen_once = combine([self.ledger.seen_once, checked.reports])

    def asks(self, temperature: float) -> list[Ask]:
        """Return the requests of a temperature."""
        return self.request.asks(self.run.prompts, temperature)

    def _is_up(self) -> bool:
        """Wait a while for a server that went away, but not once more for every level."""
        wait_s = 0.0 if self.is_gone else self.request.wait_for_server_s
        end_s = time.monotonic() + wait_s
        while self.run.recorder.look() is None:
            if time.monotonic() >= end_s:
                self.is_gone = True
                return False
            time.sleep(min(_RETRY_S, wait_s))
        self.is_gone = False
        return True

    @contextmanager
    def _scraping(self) -> Iterator[None]:
        """Scrape at intervals in the background; the recorder is used by nobody else meanwhile."""
        stop = threading.Event()

        def scrape() -> None:
            while not stop.wait(self.request.interval_s):
                self.run.recorder.look()

        thread = threading.Thread(target=scrape, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
