"""Executors by name; Ray is imported only when it is chosen."""

from __future__ import annotations

from importlib import import_module, util

from capplan.errors import MissingPackageError, RequestError
from capplan.jobs.gpus import visible_gpus
from capplan.jobs.local import LocalExecutor
from capplan.jobs.protocol import Executor

EXECUTORS = ("local", "ray")


def create_executor(
    name: str, *, gpus: str = "all", workers: int | None = None, address: str | None = None
) -> Executor:
    """Make an executor.

    Parameters
    ----------
    name
        One of :data:`EXECUTORS`.
    gpus
        For ``local``: ``all``, ``none``, or numbers with commas.
    workers
        For ``local``: plans at once.
    address
        For ``ray``: the cluster's head.

    Raises
    ------
    RequestError
        For another name.
    MissingPackageError
        If Ray is chosen and not installed.
    DeviceError, ExecutorError
        If the GPUs or the cluster are not there.
    """
    if name == "local":
        return LocalExecutor(visible_gpus(gpus), workers)
    if name != "ray":
        raise RequestError(f"No executor is called {name!r}; known: {', '.join(EXECUTORS)}.")
    if util.find_spec("ray") is None:
        raise MissingPackageError("running jobs on a Ray cluster", "ray", "ray")
    executor: Executor = import_module("capplan.jobs.ray_cluster").RayExecutor(address)
    return executor
