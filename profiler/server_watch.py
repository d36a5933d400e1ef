"""Watching a live server: only its metrics are read, window by window."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from capplan.errors import ServerError
from capplan.profiles.store import StoredProfile
from capplan.schema.observation import Observation
from capplan.schema.profile import Skipped
from profiler.request import SECONDS_PER_MINUTE
from profiler.schedule import Progress
from profiler.server_run import ServerRun

WINDOW_S = 60.0


def watch_server(run: ServerRun, minutes: float) -> StoredProfile:
    """Only read the metrics until the time is up; outages and restarts are noted."""
    end_s = time.monotonic() + minutes * SECONDS_PER_MINUTE
    window_s = min(WINDOW_S, minutes * SECONDS_PER_MINUTE)
    if run.recorder.look() is None:
        raise ServerError(run.recorder.problem, "Observe a server that is up.")
    run.ledger.save(complete=False)  # from here on there is a run to go on with
    try:
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(run.request.interval_s, left_s))
            _look_once(run, window_s, left_s)
    finally:
        _keep(run, run.recorder.close())
    run.remember_cache()
    return run.ledger.save(complete=True)


def _look_once(run: ServerRun, window_s: float, left_s: float) -> None:
    recorder = run.recorder
    had_problem = recorder.problem
    before = len(recorder.windows)
    recorder.look()
    if recorder.problem and not had_problem:
        run.ledger.skip([Skipped(what=f"from {_now()}", reason=f"outage: {recorder.problem}")])
    if recorder.length_s() >= window_s:
        recorder.close()
    _keep(run, recorder.windows[before:])
    state = recorder.problem or f"{len(recorder.windows)} windows"
    run.on_progress(Progress(0, 0, f"observing: {state}", left_s))


def _keep(run: ServerRun, windows: Sequence[Observation]) -> None:
    """Write finished windows."""
    run.note_losses()
    if windows:
        run.ledger.add_observations([run.described(w) for w in run.of_model(windows)])
    if windows or run.ledger.profile.skipped:
        run.ledger.save(complete=False)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
