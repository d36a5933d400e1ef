"""A Ray cluster: each attempt is an actor that Ray places by the GPUs and cores it reserves.

An actor, not a Ray task: its first answer says that it has a machine, so that waiting for one and
working on one have limits of their own; and it can be asked for what it has so far, so that a
machine that dies takes only the last seconds with it. Ray's own retries are off: the batch counts.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ray
from ray.exceptions import RayError

import capplan
from capplan.errors import ExecutorError
from capplan.files import write_atomic
from capplan.jobs.answers import read_answer
from capplan.jobs.job import Ending, Outcome, Task
from capplan.jobs.ray_host import JobHost

MOST_WAITING = 64
"""Attempts handed to Ray before their machines are there; the rest wait with us."""
ASK_FOR_BEGUN_EVERY_S = 5.0
_PLACING = 0.001
"""Share of a marker resource (a host, a kind of GPU) that an attempt takes: it only places it."""
_CALLS_AT_ONCE = 3
"""The run, a question for what it has so far, and one to spare."""
_FETCH_TIMEOUT_S = 60.0
_END_WITHIN_S = 15.0
_KNOCK_TIMEOUT_S = 10.0


class RayExecutor:
    """Runs tasks on a cluster that is already up.

    Parameters
    ----------
    address
        ``host:port`` of its head; None takes the one that this machine belongs to.

    Raises
    ------
    ExecutorError
        If no cluster answers.
    """

    name = "ray"

    def __init__(self, address: str | None = None) -> None:
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            _connect(address)
        self._waiting: set[_Attempt] = set()

    def describe(self) -> str:
        """Return what the cluster has."""
        nodes = _nodes()
        gpus = sum(node.get("GPU", 0) for node in nodes)
        cpus = sum(node.get("CPU", 0) for node in nodes)
        return f"a Ray cluster of {len(nodes)} nodes with {cpus:g} CPUs and {gpus:g} GPUs"

    def refusal(self, task: Task) -> str | None:
        """Return nothing: another node may join at any time."""
        del task
        return None

    def has_room(self, task: Task) -> bool:
        """Whether Ray may be given another one to place."""
        del task
        return len(self._waiting) < MOST_WAITING

    def start(self, task: Task, folder: Path) -> _Attempt:
        """Ask Ray for a place and hand the task over."""
        attempt = _Attempt(self, task, folder, needs(task, _nodes()))
        self._waiting.add(attempt)
        return attempt

    def lacks(self, task: Task) -> str | None:
        """Return what no node has, even if it were idle."""
        nodes = _nodes()
        wanted = needs(task, nodes)
        if any(all(node.get(k, 0) >= v for k, v in wanted.items()) for node in nodes):
            return None
        asked = ", ".join(_in_words(name, amount) for name, amount in wanted.items())
        return f"no node has {asked}; this is {self.describe()}"

    def close(self) -> None:
        """Leave the cluster, unless the caller was in it before."""
        if self._connected_here:
            ray.shutdown()

    def placed(self, attempt: _Attempt) -> None:
        """Count an attempt as waiting no more."""
        self._waiting.discard(attempt)


class _Attempt:
    """One actor and the answers it owes."""

    def __init__(
        self, executor: RayExecutor, task: Task, folder: Path, wanted: Mapping[str, float]
    ) -> None:
        self._executor, self._task, self._folder = executor, task, folder
        self._place: str | None = None
        self._has_gpus = "GPU" in wanted
        self._submitted_s = time.monotonic()
        self._placed_s = self._asked_s = 0.0
        extra = {name: v for name, v in wanted.items() if name not in ("CPU", "GPU")}
        actor = ray.remote(JobHost).options(
            num_cpus=wanted.get("CPU", 1),
            num_gpus=wanted.get("GPU", 0),
            resources=extra,
            max_restarts=0,
            max_concurrency=_CALLS_AT_ONCE,
        )
        self._actor = actor.remote()
        self._about = self._actor.about.remote()
        self._begun: Any = None
        self._run: Any = None

    @property
    def place(self) -> str | None:
        """Host that it runs on."""
        return self._place

    def poll(self) -> Outcome | None:
        """Return how it ended; bring home what it has so far."""
        try:
            if self._place is None:
                return self._look_for_place()
            if _is_ready(self._run):
                return self._bring_home()
            self._fetch_begun()
        except RayError as error:
            return self._lost(error)
        return None

    def stop(self) -> None:
        """End the job with its children, then the actor."""
        if self._place is not None:
            with suppress(RayError):
                ray.get(self._actor.end.remote(), timeout=_END_WITHIN_S)
        self._kill()

    def _kill(self) -> None:
        """End the actor; should a job still run, its supervisor notices and ends it."""
        self._executor.placed(self)
        ray.kill(self._actor, no_restart=True)

    def _look_for_place(self) -> Outcome | None:
        if not _is_ready(self._about):
            return None
        about = ray.get(self._about, timeout=_FETCH_TIMEOUT_S)
        self._executor.placed(self)
        self._place = about["host"]
        self._placed_s = self._asked_s = time.monotonic()
        if about["capplan"] != capplan.__version__:
            self.stop()
            return self._outcome(
                Ending.FAILED,
                f"{self._place} has capplan {about['capplan']}, this machine "
                f"{capplan.__version__}",
                remedy="Install the same version on every node.",
                error="ExecutorError",
            )
        self._run = self._actor.run.remote(
            self._task.model_dump_json(), self._to_send(), has_gpus=self._has_gpus
        )
        return None

    def _to_send(self) -> dict[str, bytes]:
        """Return what the task reads, and what an earlier attempt began."""
        inputs = {
            str(path.relative_to(self._folder)): path.read_bytes()
            for path in sorted((self._folder / "inputs").rglob("*"))
            if path.is_file()
        }
        return {**inputs, **read_answer(self._folder, self._task.output)}

    def _fetch_begun(self) -> None:
        now_s = time.monotonic()
        if self._begun is None and now_s - self._asked_s >= ASK_FOR_BEGUN_EVERY_S:
            self._begun, self._asked_s = self._actor.begun.remote(), now_s
        if self._begun is not None and _is_ready(self._begun):
            files = ray.get(self._begun, timeout=_FETCH_TIMEOUT_S)
            self._begun = None
            self._keep(files)

    def _bring_home(self) -> Outcome:
        outcome, files = ray.get(self._run, timeout=_FETCH_TIMEOUT_S)
        self._keep(files)
        self.stop()
        told = {**json.loads(outcome), "place": self._place}
        return Outcome.model_validate(told)

    def _keep(self, files: Mapping[str, bytes]) -> None:
        # The text that names the arrays is written after them: between the two nothing is broken.
        for name in sorted(files, key=lambda name: name == self._task.output):
            write_atomic(self._folder / Path(name).name, files[name])

    def _lost(self, error: RayError) -> Outcome:
        self._kill()
        first_line = next(iter(str(error).strip().splitlines()), "")
        where = self._place or "the machine it was given"
        return self._outcome(
            Ending.LOST,
            f"{where} was lost ({type(error).__name__}: {first_line[:160]})",
            remedy="See `ray status` and the logs of that node.",
        )

    def _outcome(self, ending: Ending, reason: str, remedy: str, error: str = "") -> Outcome:
        since_s = self._placed_s or self._submitted_s
        return Outcome(
            ending=ending,
            reason=reason,
            remedy=remedy,
            error=error,
            place=self._place or "",
            seconds=time.monotonic() - since_s,
        )


def needs(task: Task, nodes: list[dict[str, float]]) -> dict[str, float]:
    """Return the resources that a task reserves.

    A profile on a CPU takes as many cores as the smallest node has, so that no second one is
    measured beside it there.
    """
    gpus = task.gpus_where(there_are_some=any(node.get("GPU", 0) for node in nodes))
    gpus = gpus if task.measures else 0
    cpus = task.cpus or 1.0
    if task.cpus is None and task.measures and not gpus and nodes:
        cpus = max(1.0, min(node.get("CPU", 1.0) for node in nodes))
    wanted = {"CPU": cpus}
    if gpus:
        wanted["GPU"] = float(gpus)
    if task.gpu_type:
        wanted[f"accelerator_type:{task.gpu_type}"] = _PLACING
    if task.node:
        wanted[f"node:{task.node}"] = _PLACING
    return wanted


def _in_words(name: str, amount: float) -> str:
    kind, _, which = name.partition(":")
    if which:
        return f"the address {which}" if kind == "node" else f"a GPU of type {which}"
    return f"{amount:g} {kind}{'s' * (amount != 1)}"


def _nodes() -> list[dict[str, float]]:
    """Return the resources of each living node, idle or not."""
    return [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def _is_ready(reference: Any) -> bool:
    ready, _ = ray.wait([reference], timeout=0, fetch_local=False)
    return bool(ready)


def _connect(address: str | None) -> None:
    try:
        _check_listening(address or os.environ.get("RAY_ADDRESS", ""))
        ray.init(
            address=address or "auto",
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (OSError, RuntimeError, ValueError, RayError) as error:
        said = getattr(error, "strerror", None) or str(error)
        first_line = next(iter(said.strip().splitlines()), type(error).__name__)
        raise ExecutorError(
            f"No Ray cluster answers at {address or 'this machine'}: {first_line[:300]}",
            "Start one (`ray start --head` here, `ray start --address HEAD:6379` on the other "
            "machines), or give --address HEAD:6379. Without a cluster: --executor local.",
        ) from error


def _check_listening(address: str) -> None:
    """Knock once: Ray itself tries an address where nobody is for a quarter of an hour."""
    place = urlsplit(f"//{address.rpartition('://')[2]}")
    if place.hostname and place.port:
        socket.create_connection((place.hostname, place.port), _KNOCK_TIMEOUT_S).close()
