"""The pipe to an engine: whatever happens at its other end is explained, and nothing is left."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from capplan.errors import EngineError
from profiler.backends.vllm_process import WorkerProcess, log_tail

ECHO = """
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    print(json.dumps({"ok": True, "said": question["op"]}), flush=True)
"""
REFUSES = """
import json, sys
sys.stdin.readline()
print("loading", file=sys.stderr, flush=True)
answer = {"ok": False, "error": "ValueError", "message": "no such head\\nmore"}
print(json.dumps(answer), flush=True)
sys.stdin.readline()
"""
DIES = """
import sys
sys.stdin.readline()
print("RuntimeError: the weights do not fit", file=sys.stderr, flush=True)
sys.exit(3)
"""
KILLED = "import os, sys, signal; sys.stdin.readline(); os.kill(os.getpid(), signal.SIGKILL)"
SILENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, file=sys.stderr, flush=True)
time.sleep(60)
"""


def worker(code: str) -> WorkerProcess:
    return WorkerProcess(os.environ, "test engine", (sys.executable, "-c", code))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def test_questions_are_answered_in_turn():
    process = worker(ECHO)
    assert process.ask({"op": "one"}, 20)["said"] == "one"
    assert process.ask({"op": "two"}, 20)["said"] == "two"
    process.close()


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (REFUSES, "refused: ValueError: no such head"),
        (DIES, "ended with exit code 3"),
        (DIES, "RuntimeError: the weights do not fit"),
        (KILLED, "ended by signal 9"),
    ],
)
def test_a_failure_is_told_with_the_end_of_the_log(code, what):
    process = worker(code)
    with pytest.raises(EngineError) as caught:
        process.ask({"op": "start"}, 20)
    assert what in caught.value.message
    assert "test engine" in caught.value.message
    assert caught.value.remedy
    process.close()


def test_a_silent_engine_is_stopped_with_all_it_started():
    process = worker(SILENT)
    with pytest.raises(EngineError, match="said nothing for 3 s"):
        process.ask({"op": "start"}, 3)
    child = int(process.log_text().split()[0])
    deadline = time.monotonic() + 10
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child)
    process.close()


def test_a_question_to_an_engine_that_is_gone_is_an_error_not_a_broken_pipe():
    process = worker(DIES)
    with pytest.raises(EngineError):
        process.ask({"op": "start"}, 20)
    with pytest.raises(EngineError, match="exit code 3"):
        process.ask({"op": "serve"}, 20)
    process.close()


def test_a_log_is_cut_to_the_lines_that_name_an_error():
    log = "\n".join(["loading"] * 50 + ["ValueError: bad head"] + ["shutting down"] * 50)
    assert log_tail(log) == "ValueError: bad head"
    assert log_tail("\n".join(f"line {n}" for n in range(50)), lines=2) == "line 48 | line 49"
    assert log_tail("") == ""
