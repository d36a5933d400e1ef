"""A worker process and the pipe to it: nothing here waits for ever or leaves a process behind."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from capplan.errors import EngineError
from profiler.backends.live_quotes import one_line, quoted
from profiler.backends.worker_pipes import Lines, Log, TooMuchError

START_TIMEOUT_S = 1800.0
"""Large checkpoints load for minutes, and kernels are compiled the first time."""
CLOSE_TIMEOUT_S = 20.0
TAIL_LINES = 8
WORKER = ("-m", "profiler.backends.vllm_worker")
ALIVE = "alive"
"""Key of a line that answers nothing and says that the worker still makes steps."""
_EXPLAINED = re.compile(r"\b(\w*(?:Error|Exception))\b|assert|Killed|out of memory", re.IGNORECASE)
_SHORTEST_S = 0.001
_LAST_WORDS_S = 2.0
_LOOK_S = 0.5
"""Between two looks at whether the worker still lives: its children may hold its pipe open."""
_REASON_CHARS = 400


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
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            # Ctrl-C must reach the engine's own children too, which only a group of its own
            # allows; the terminal's signal then goes to us alone and we end the group.
            start_new_session=True,
        )
        assert self._process.stdout is not None, "opened as a pipe"
        assert self._process.stderr is not None, "opened as a pipe"
        self._answers = Lines(self._process.stdout)
        self._log = Log(self._process.stderr)
        self._sending: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """Number of the worker and of its process group."""
        return self._process.pid

    def ask(
        self, question: Mapping[str, Any], timeout_s: float, *, idle_s: float | None = None
    ) -> dict[str, Any]:
        """Send one request and return its answer.

        Parameters
        ----------
        question
            What is sent.
        timeout_s
            Longest wait for the answer.
        idle_s
            Longest silence on the way to it, where the worker says that it is alive.

        Raises
        ------
        EngineError
            If the engine refused, died, answered with garbage or said nothing in time; with the
            end of its log. Whatever is not a refusal ends it.
        """
        try:
            # A worker that hangs reads nothing either: a long question would fill the pipe and
            # wait there for ever.
            self._sending = threading.Thread(target=self._send, args=(question,), daemon=True)
            self._sending.start()
            answer = self._answer(timeout_s, idle_s or timeout_s)
        except BaseException:
            self.kill()
            raise
        if answer.pop("ok") is not True:
            told = quoted(first_line(str(answer.get("message"))), *_texts(question))
            raise self._error(f"refused: {one_line(str(answer.get('error')))}: {told}")
        return answer

    def log_text(self) -> str:
        """Return what the engine has printed so far; of a flood the beginning and the end."""
        return self._log.text()

    def close(self) -> None:
        """End the worker in good order, then whatever is left of its group."""
        if self._sending is not None and self._sending.is_alive():
            self.kill()  # it does not read, so it would not see the end of its input either
            self._sending.join(CLOSE_TIMEOUT_S)
        with suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)
        self.kill()
        # With the whole group gone the pipes end, and with them the threads that read them.
        self._answers.close(CLOSE_TIMEOUT_S)
        self._log.close(CLOSE_TIMEOUT_S)

    def kill(self) -> None:
        """End the worker's whole group at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # A process that waits for a GPU that fell off the bus cannot even be killed.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)

    def _send(self, question: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None, "opened as a pipe"
        with suppress(OSError, ValueError):  # it is gone, which its answer tells
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()

    def _answer(self, timeout_s: float, idle_s: float) -> dict[str, Any]:
        end_s = time.monotonic() + timeout_s
        while True:
            left_s = end_s - time.monotonic()
            try:
                line = self._line(max(min(left_s, idle_s), _SHORTEST_S))
            except queue.Empty:
                waited_s = timeout_s if left_s <= idle_s else idle_s
                raise self._error(f"said nothing for {waited_s:.0f} s and was stopped") from None
            except TooMuchError:
                raise self._error("answered without an end and was stopped") from None
            if line is None:
                raise self._error(self._ending())
            answer = _read(line)
            if answer is None:
                shown = one_line(line[:_REASON_CHARS].decode("utf-8", errors="replace"), 80)
                raise self._error(f"answered with something that is no answer ({shown})")
            if ALIVE not in answer:
                return answer

    def _line(self, wait_s: float) -> bytes | None:
        """Return the next line; None once the worker is gone, whoever else holds its pipe open."""
        end_s = time.monotonic() + wait_s
        while True:
            left_s = end_s - time.monotonic()
            try:
                return self._answers.next(max(min(left_s, _LOOK_S), _SHORTEST_S))
            except queue.Empty:
                if self._process.poll() is not None:
                    return self._answers.last(_LOOK_S)
                if left_s <= _LOOK_S:
                    raise

    def _ending(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)
        self.kill()  # what it started may outlive it
        self._log.close(_LAST_WORDS_S)
        code = self._process.returncode
        if code is None:
            return "closed its pipe and did not end"
        if code >= 0:
            return f"ended with exit code {code}"
        name = _signal_name(-code)
        hint = "; Linux does so where memory runs out" if -code == signal.SIGKILL else ""
        return f"was ended by signal {-code} ({name}{hint})"

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
    return " | ".join(one_line(line, 300) for line in (telling or written)[-lines:])


def first_line(text: str) -> str:
    """Return the first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def _read(line: bytes) -> dict[str, Any] | None:
    """Return a line as an answer; None if it is none."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_answer = isinstance(answer, dict) and (ALIVE in answer or "ok" in answer)
    return answer if is_answer else None


def _texts(question: Mapping[str, Any]) -> list[str]:
    """Return the prompts of a question: no message repeats them."""
    prompts = question.get("prompts")
    return [one for one in prompts if isinstance(one, str)] if isinstance(prompts, list) else []


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
