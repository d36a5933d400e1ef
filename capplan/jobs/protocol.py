"""What runs tasks: this machine or a cluster behind the same few questions.

A task's folder holds all it reads (``inputs/``, what an earlier attempt began) and, once an
attempt has ended, all it wrote. Executors on other machines carry it there and back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from capplan.jobs.job import Outcome, Task

OUTCOME_FILE = "outcome.json"
"""Written by the command itself: how it ended, in its own words."""
LOG_FILE = "log.txt"


class Running(Protocol):
    """One attempt that was started, or waits for its machine."""

    @property
    def place(self) -> str | None:
        """Where it runs; None while it waits for a machine."""

    def poll(self) -> Outcome | None:
        """Return how it ended, or None; what it wrote is then in the task's folder."""

    def stop(self) -> None:
        """End it and all its children now; it is polled no more."""


class Executor(Protocol):
    """Where tasks run."""

    @property
    def name(self) -> str:
        """How it is chosen: ``local``, ``ray``."""

    def describe(self) -> str:
        """Return what it has, in a few words."""

    def refusal(self, task: Task) -> str | None:
        """Return why a task can never run here, if that is certain."""

    def has_room(self, task: Task) -> bool:
        """Whether the task may be started now."""

    def start(self, task: Task, folder: Path) -> Running:
        """Begin an attempt."""

    def lacks(self, task: Task) -> str | None:
        """Return what it has not at present and the task needs; None if it only is busy."""

    def close(self) -> None:
        """Let go of what it holds."""
