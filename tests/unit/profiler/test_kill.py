"""Real signals and a really full disk, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capplan.profiles.store import load_profile

ROOT = Path(__file__).parents[3]
SCRIPT = """
import resource, signal, sys, time
from pathlib import Path
from capplan.errors import CapplanError
from profiler.backends.fake import FakeBackend
from profiler.experiment import Wishes
from profiler.session import SessionRequest, run_session
from profiler.telemetry.fake import FakeTelemetry

pause = float(sys.argv[2])
if "--small-files" in sys.argv:
    # The kernel refuses writes beyond this size, as a full disk would.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
backend = FakeBackend(hook=lambda what: time.sleep(pause))
wishes = Wishes(batches=(1, 2), contexts=(64,), max_tokens=12, requests_per_task=2)
request = SessionRequest(
    output=Path(sys.argv[1]), target="big", prompt_lookup=(2, 4), backend="fake", wishes=wishes,
    resume="--resume" in sys.argv,
)
try:
    run_session(request, on_progress=lambda step: print(step.done, flush=True),
                clock=backend.clock, telemetry=FakeTelemetry(backend.clock), backend=backend)
except CapplanError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def start(path, pause_s, *more):
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    # Where the disk is made to be full, the report of `make coverage` could not be written either.
    environ.pop("COVERAGE_PROCESS_CONFIG", None)
    command = [sys.executable, "-c", SCRIPT, str(path), str(pause_s), *more]
    return subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_cells(process, count):
    for line in process.stdout:
        if int(line) >= count:
            return
    pytest.fail(f"ended early: {process.stderr.read()}")


def cells(path):
    profile = load_profile(path).profile
    return len(profile.timing) + len(profile.acceptance) + len(profile.rounds)


def test_kill_9_loses_at_most_the_cell_being_measured(tmp_path):
    path = tmp_path / "p.json"
    process = start(path, 0.02)
    wait_for_cells(process, 8)
    process.kill()
    process.communicate()
    kept = cells(path)
    assert kept >= 8
    resumed = start(path, 0.0, "--resume")
    assert resumed.wait(60) == 0, resumed.communicate()
    resumed.communicate()
    assert load_profile(path).profile.complete
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"p.json", load_profile(path).profile.sidecar}


def test_ctrl_c_exits_with_130_and_a_readable_file(tmp_path):
    path = tmp_path / "p.json"
    process = start(path, 0.02)
    wait_for_cells(process, 5)
    time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "--resume" in errors
    assert cells(path) >= 5


def test_a_full_disk_stops_the_run_with_one_explained_error(tmp_path):
    path = tmp_path / "p.json"
    process = start(path, 0.0, "--small-files")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "Cannot write" in errors
    assert cells(path) > 0
    assert not list(tmp_path.glob(".*.part"))
