"""A task as a supervised process in its folder, and how its ending is read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import capplan
from capplan.errors import UnreadableFileError
from capplan.inputs.documents import read_json
from capplan.inputs.limits import JOB_RECORD
from capplan.jobs.job import Ending, Outcome, Task
from capplan.jobs.protocol import LOG_FILE, OUTCOME_FILE

COMMAND = (sys.executable, "-m", "capplan.cli.batch_job")
"""Runs a command of capplan and writes how it ended; reached by name, as it stands above us."""
SUPERVISOR = (sys.executable, "-m", "capplan.jobs.supervise")
STOP_WITHIN_S = 10.0
_LOG_TAIL_BYTES = 2000
_LINE_CHARS = 200


class Process:
    """One attempt on this machine.

    Parameters
    ----------
    task
        What to run.
    folder
        Its working directory.
    visible_gpus
        Value of ``CUDA_VISIBLE_DEVICES``; None leaves it as it is.
    place
        Name of where it runs, for people.
    """

    def __init__(
        self, task: Task, folder: Path, visible_gpus: str | None = None, place: str = ""
    ) -> None:
        self._task, self._folder, self._place = task, folder, place
        (folder / OUTCOME_FILE).unlink(missing_ok=True)
        self._started_s = time.monotonic()
        self._reading = threading.Lock()  # on a cluster one thread waits, another one stops
        self._result: Outcome | None = None
        self._process = subprocess.Popen(
            SUPERVISOR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=_environment(visible_gpus),
            start_new_session=True,  # Ctrl-C is for us; we then end it in good order
        )
        asked = {
            "command": [*COMMAND, *task.arguments],
            "limit_s": task.limit_s,
            "log": LOG_FILE,
        }
        assert self._process.stdin is not None, "opened as a pipe"
        with suppress(BrokenPipeError):  # it died at once: poll() says so
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()

    @property
    def place(self) -> str:
        """Where it runs."""
        return self._place

    def poll(self) -> Outcome | None:
        """Return how it ended, or None while it runs."""
        if self._process.poll() is None:
            return None
        return self._ended()

    def wait(self) -> Outcome:
        """Wait for its end; the time limit bounds it."""
        self._process.wait()
        return self._ended()

    def stop(self) -> None:
        """End it and its children now; nothing to do if it has ended."""
        self._hang_up()
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._ended()

    def _hang_up(self) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _ended(self) -> Outcome:
        with self._reading:
            if self._result is None:
                self._result = self._read_ending()
            return self._result

    def _read_ending(self) -> Outcome:
        """Read how it ended, and end what outlived a supervisor that was itself killed."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        said = b""
        if self._process.stdout is not None:
            said = self._process.stdout.read()
            self._process.stdout.close()
        self._hang_up()
        report = json.loads(said) if said else {"returncode": self._process.returncode}
        seconds = report.get("seconds", time.monotonic() - self._started_s)
        if report.get("timed_out"):
            return self._outcome(Ending.TIMED_OUT, seconds, _over_time(self._task, self._folder))
        if report["returncode"] < 0:
            return self._outcome(Ending.KILLED, seconds, _killed(-report["returncode"]))
        return self._outcome(None, seconds, _told(self._folder, report["returncode"]))

    def _outcome(self, ending: Ending | None, seconds: float, told: Mapping[str, Any]) -> Outcome:
        fields = {"ending": ending, **told} if ending is not None else dict(told)
        return Outcome(**fields, place=self._place, seconds=seconds)


def _environment(visible_gpus: str | None) -> dict[str, str]:
    """Return the command's environment: this capplan, and the GPUs dealt to it."""
    here = str(Path(capplan.__file__).parents[1])
    paths = [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    if visible_gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible_gpus
    return environment


def _over_time(task: Task, folder: Path) -> dict[str, str]:
    last = last_line(folder)
    doing = f"; its last line: {last}" if last else ""
    return {
        "reason": f"it was stopped at its time limit of {task.limit_s / 60:g} min{doing}",
        "remedy": "Give it more time (timeout-minutes in the file, or --timeout-minutes), or "
        "less to do.",
    }


def _killed(number: int) -> dict[str, str]:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    often = number == signal.SIGKILL
    return {
        "reason": f"it was killed by signal {number} ({name})"
        + (", as the kernel does where memory runs out" if often else ""),
        "remedy": "Look for it in `dmesg`; give it a machine with more memory, or run fewer jobs "
        "at once with --workers."
        if often
        else "Its log.txt may say more.",
    }


def _told(folder: Path, returncode: int) -> dict[str, Any]:
    """Return what the command itself wrote about its end; without it, the end of its log."""
    try:
        told: dict[str, Any] = read_json(folder / OUTCOME_FILE, JOB_RECORD)
    except UnreadableFileError:
        reason = f"it ended with exit code {returncode}: {last_line(folder) or 'it said nothing'}"
        return {"ending": Ending.FAILED, "exit_code": returncode, "reason": reason}
    return told


def last_line(folder: Path) -> str:
    """Return the last line that a task printed."""
    try:
        with (folder / LOG_FILE).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            lines = log.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:_LINE_CHARS] for line in reversed(lines) if line.strip()), "")
