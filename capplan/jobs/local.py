"""Tasks on one machine: a process a GPU for what measures, a few at once for what computes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from capplan.jobs.gpus import VisibleGpu
from capplan.jobs.job import Outcome, Task
from capplan.jobs.process import Process


class LocalExecutor:
    """Runs tasks here.

    A profile has its GPUs to itself; one that runs on the CPU has the machine to itself, since
    anything beside it would be measured too. Plans share the cores.

    Parameters
    ----------
    gpus
        GPUs to deal out (:func:`capplan.jobs.gpus.visible_gpus`).
    workers
        Plans at once; a process a core by default.
    """

    name = "local"

    def __init__(self, gpus: Sequence[VisibleGpu] = (), workers: int | None = None) -> None:
        self._gpus = tuple(gpus)
        self._workers = workers if workers is not None else max(1, os.cpu_count() or 1)
        self._running: list[_Attempt] = []
        self._last_gpus: dict[str, tuple[VisibleGpu, ...]] = {}

    def describe(self) -> str:
        """Return what there is here."""
        gpus = f"{len(self._gpus)} GPU{'s' * (len(self._gpus) != 1)}" if self._gpus else "no GPU"
        return f"this machine, {gpus}, {self._workers} plans at once"

    def refusal(self, task: Task) -> str | None:
        """Return what this machine will never have."""
        if task.node is not None:
            return f"it asks for the node {task.node}; `--executor ray` reaches other machines"
        fitting = self._fitting(task)
        wanted = self._wanted(task)
        if wanted <= len(fitting):
            return None
        kind = f" {task.gpu_type}" if task.gpu_type else ""
        have = ", ".join(f"{gpu.label} ({gpu.name})" for gpu in self._gpus) or "none"
        return f"it asks for {wanted}{kind} GPU(s); to be used on this machine: {have}"

    def has_room(self, task: Task) -> bool:
        """Whether it may start beside what runs."""
        if any(attempt.alone for attempt in self._running):
            return False
        wanted = self._wanted(task)
        if wanted:
            return wanted <= len(self._free(task))
        if task.measures:
            return not self._running
        computing = sum(not attempt.gpus for attempt in self._running)
        return computing < self._workers

    def start(self, task: Task, folder: Path) -> _Attempt:
        """Start it, on the GPUs of its earlier attempt if they are free."""
        free = self._free(task)
        before = self._last_gpus.get(task.name, ())
        preferred = [gpu for gpu in before if gpu in free]
        others = [gpu for gpu in free if gpu not in preferred]
        gpus = tuple((preferred + others)[: self._wanted(task)])
        self._last_gpus[task.name] = gpus
        attempt = _Attempt(self, task, folder, gpus)
        self._running.append(attempt)
        return attempt

    def lacks(self, task: Task) -> str | None:
        """Return nothing: what starts here has its place."""
        del task
        return None

    def close(self) -> None:
        """End what still runs."""
        for attempt in list(self._running):
            attempt.stop()

    def forget(self, attempt: _Attempt) -> None:
        """Take back the GPUs of an attempt that ended."""
        if attempt in self._running:
            self._running.remove(attempt)

    def _wanted(self, task: Task) -> int:
        return task.gpus_where(there_are_some=bool(self._gpus)) if task.measures else 0

    def _fitting(self, task: Task) -> list[VisibleGpu]:
        kind = (task.gpu_type or "").lower()
        return [gpu for gpu in self._gpus if kind in gpu.name.lower()]

    def _free(self, task: Task) -> list[VisibleGpu]:
        taken = {gpu for attempt in self._running for gpu in attempt.gpus}
        return [gpu for gpu in self._fitting(task) if gpu not in taken]


class _Attempt:
    """A process and the GPUs it holds."""

    def __init__(
        self, executor: LocalExecutor, task: Task, folder: Path, gpus: tuple[VisibleGpu, ...]
    ) -> None:
        self._executor = executor
        self.gpus = gpus
        self.alone = task.measures and not gpus
        place = ", ".join(gpu.label for gpu in gpus) or "CPU"
        visible = ",".join(gpu.id for gpu in gpus)
        self._process = Process(task, folder, visible, place)

    @property
    def place(self) -> str:
        """Its GPUs, or the CPU."""
        return self._process.place

    def poll(self) -> Outcome | None:
        """Return how it ended, or None."""
        outcome = self._process.poll()
        if outcome is not None:
            self._executor.forget(self)
        return outcome

    def stop(self) -> None:
        """End it with its children."""
        self._process.stop()
        self._executor.forget(self)
