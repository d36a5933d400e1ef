"""A worker process and the pipe to it: nothing here waits for ever or leaves a process behind."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from capplan.errors import EngineError

START_TIMEOUT_S = 1800.0
"""Large checkpoints load for minutes, and kernels are compiled the first time."""
CLOSE_TIMEOUT_S = 20.0
TAIL_LINES = 8
WORKER = ("-m", "profiler.backends.vllm_worker")
_EXPLAINED = re.compile(r"\b(\w*(?:Error|Exception))\b|assert|Killed|out of memory", re.IGNORECASE)


class WorkerProcess:
    """Talks JSON lines with a worker that leads a process group of its own.

    Parameters
    ----------
    environment
        Of the worker.
    label
        What it runs, for messages.
    command
        What is started; the vLLM worker by default.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        label: str,
        command: Sequence[str] = (sys.executable, *WORKER),
    ) -> None:
        self._label = label
        self._log = tempfile.NamedTemporaryFile(  # noqa: SIM115 - lives as long as the process
            "w+", encoding="utf-8", errors="replace", prefix="capplan-engine-", suffix=".log"
        )
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=dict(environment),
            text=True,
            # Ctrl-C must reach the engine's own children too, which only a group of its own
            # allows; the terminal's signal then goes to us alone and we end the group.
            start_new_session=True,
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, question: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send one request and return its answer.

        Raises
        ------
        EngineError
            If the engine refused, died, or said nothing in time; with the end of its log.
        """
        try:
            self._send(question)
            line = self._answers.get(timeout=timeout_s)
        except (BrokenPipeError, ValueError):
            line = None
        except queue.Empty:
            self.kill()
            raise self._error(f"said nothing for {timeout_s:.0f} s and was stopped") from None
        except BaseException:
            self.kill()
            raise
        if line is None:
            raise self._error(self._ending())
        answer: dict[str, Any] = json.loads(line)
        if not answer.pop("ok"):
            raise self._error(f"refused: {answer['error']}: {first_line(answer['message'])}")
        return answer

    def log_text(self) -> str:
        """Return all that the engine has printed so far."""
        path = Path(self._log.name)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def close(self) -> None:
        """End the worker in good order, then whatever is left of its group."""
        with suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)
        self.kill()
        # With the whole group gone the pipe ends, and with it the thread that reads it.
        self._reader.join(CLOSE_TIMEOUT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def kill(self) -> None:
        """End the worker's whole group at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _send(self, question: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None, "opened as a pipe"
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _ending(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)
        code = self._process.returncode
        if code is not None and code < 0:
            return f"was ended by signal {-code} ({signal.Signals(-code).name})"
        return f"ended with exit code {code}"

    def _error(self, what: str) -> EngineError:
        tail = log_tail(self.log_text())
        told = f" Its log ends: {tail}" if tail else " It printed nothing."
        return EngineError(f"The engine ({self._label}) {what}.{told}", _REMEDY)


_REMEDY = (
    "Check that the engine runs by itself with these checkpoints; free memory, or lower "
    "--batch and --context, if the log speaks of memory."
)


def log_tail(text: str, lines: int = TAIL_LINES) -> str:
    """Return what of a log explains a failure: its last lines that name an error, or its last."""
    written = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in written if _EXPLAINED.search(line)]
    return " | ".join(line[:300] for line in (telling or written)[-lines:])


def first_line(text: str) -> str:
    """Return the first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
