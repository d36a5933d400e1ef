"""Child processes that are made by a fork: what is imported once serves hundreds of them."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable


def start(task: Callable[[], None]) -> int:
    """Run a task in a child process; return its id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        task()
        status = 0
    except BaseException:  # noqa: BLE001 - nothing of the parent may run in the child
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def ended_well(child: int) -> bool:
    """Wait for a child; whether it did its task to the end."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def was_killed(child: int) -> bool:
    """Wait for a child; whether a kill ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def kill_after(child: int, seconds: float) -> bool:
    """Kill a child at a moment, as ``kill -9`` does; False if it had ended before."""
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return was_killed(child)
