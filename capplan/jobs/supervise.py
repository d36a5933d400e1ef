"""Runs one command with a time limit and leaves none of its children behind.

A process of its own between an executor and the command: ``python -m capplan.jobs.supervise``.
It reads one line of JSON and then keeps reading: when its input ends, whoever asked has stopped
or died, and the command with everything that it started is ended. It needs Linux to find children
that left the process group (inference engines do); elsewhere it ends the group.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

LOOK_EVERY_S = 0.05
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_KILL_ROUNDS = 200
_ON_LINUX = sys.platform == "linux"


def main() -> None:
    """Run what standard input asks for; say on standard output how it ended."""
    asked = json.loads(sys.stdin.buffer.readline())
    if _ON_LINUX:  # orphans of the command become ours, so that they can be found and ended
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    started_s = time.monotonic()
    with Path(asked["log"]).open("ab") as log:
        command = subprocess.Popen(
            asked["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=not _ON_LINUX,
            preexec_fn=_die_with_parent if _ON_LINUX else None,
        )
    timed_out = _wait(command, started_s + asked["limit_s"])
    _end(command)
    said = {"returncode": command.returncode, "timed_out": timed_out}
    sys.stdout.write(json.dumps({**said, "seconds": time.monotonic() - started_s}))


def _wait(command: subprocess.Popen[Any], deadline_s: float) -> bool:
    """Wait until the command ends, its time is up (True) or nobody wants it any more."""
    while command.poll() is None:
        if time.monotonic() >= deadline_s:
            return True
        readable, _, _ = select.select([sys.stdin], [], [], LOOK_EVERY_S)
        if readable and not os.read(sys.stdin.fileno(), 1):
            return False
    return False


def _end(command: subprocess.Popen[Any]) -> None:
    if not _ON_LINUX:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()
        return
    for _ in range(_KILL_ROUNDS):  # a child may be born while its parent is being ended
        left = _descendants(os.getpid())
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        command.poll()
        _reap(left - {command.pid})
        if not left:
            break
        time.sleep(LOOK_EVERY_S / 5)
    command.wait()


def _descendants(ancestor: int) -> set[int]:
    """Return the living processes below one, by the parents that /proc names."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            # pid (name, which may hold anything) state parent ...
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state != "Z" or int(parent) != ancestor:
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    found: set[int] = set()
    unseen = [ancestor]
    while unseen:
        below = children.get(unseen.pop(), [])
        unseen += below
        found.update(below)
    return found


def _reap(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
