"""Real processes in place of capplan's commands: short scripts that behave, or do not."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capplan.jobs.job import Job, JobResult
from capplan.jobs.local import LocalExecutor
from capplan.jobs.preparing import Prepared, prepare
from capplan.jobs.protocol import Executor
from capplan.jobs.running import Batch, Event, Limits
from capplan.jobs.store import BatchStore

PREFIX = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
def answer(**fields):
    Path("outcome.json").write_text(json.dumps({"ending": "answered", "exit_code": 0, **fields}))
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Let jobs run a script instead of capplan; everything around it is the real thing."""

    def use(script: str) -> None:
        file = tmp_path / "command.py"
        file.write_text(PREFIX + textwrap.dedent(script))
        monkeypatch.setattr("capplan.jobs.process.COMMAND", (sys.executable, str(file)))

    return use


class Runs:
    """Runs jobs in one folder and keeps what was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.executor: Executor = LocalExecutor(workers=2)

    def run(
        self, *jobs: Job, retries: int = 1, limit_s: float = 60.0, afresh: bool = False
    ) -> dict[str, JobResult]:
        prepared = [prepare(job, self.folder, limit_s) for job in jobs]
        with BatchStore(self.folder) as store:
            limits = Limits(retries, wait_s=0.5)
            batch = Batch(self.executor, store, limits, self.events.append, 0, len(jobs))
            todo = [each for each in prepared if afresh or store.finished(each) is None]
            results = {r.name: r for r in batch.run(todo, afresh=afresh)}
            kept = [store.finished(each) for each in prepared if each not in todo]
            return results | {r.name: r for r in kept if r is not None}

    def folder_of(self, job: Job) -> Path:
        return BatchStore(self.folder).folder_of(self.prepared(job))

    def prepared(self, job: Job) -> Prepared:
        return prepare(job, self.folder, 60.0)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """A folder of results and an executor."""
    started = Runs(tmp_path / "out")
    yield started
    started.executor.close()


@pytest.fixture
def plan() -> Callable[..., Job]:
    """Make a plan job by name."""
    return lambda name="a", **options: Job(name=name, kind="recommend", options=options)
