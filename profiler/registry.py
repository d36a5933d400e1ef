"""Backends and telemetry by name. Their modules, and what those need, are imported on use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module, metadata

from capplan.errors import CapplanError, DeviceError, MissingPackageError, UnknownIdError
from capplan.schema.measured_setup import Device
from profiler.engine import EngineFactory
from profiler.protocol import Backend
from profiler.telemetry.base import Telemetry


@dataclass(frozen=True)
class Need:
    """A distribution that a backend cannot do without."""

    distribution: str
    minimum: str


@dataclass(frozen=True)
class _Entry:
    feature: str
    module: str
    attribute: str
    extra: str
    needs: tuple[Need, ...]
    hidden: bool = False
    reads_checkpoints: bool = False
    """Whether targets and drafts are checkpoints on this machine."""
    is_engine: bool = False
    """Whether it serves requests whole (:mod:`profiler.engine`), not pass by pass."""


_BACKENDS = {
    "torch": _Entry(
        feature="profiling with the torch backend",
        module="profiler.backends.torch_local",
        attribute="TorchBackend",
        extra="profile",
        needs=(
            Need("torch", "2.6"),
            Need("transformers", "5.0"),
            Need("safetensors", "0.5"),
            Need("gguf", "0.17"),
            Need("accelerate", "1.0"),
        ),
        reads_checkpoints=True,
    ),
    "vllm": _Entry(
        feature="profiling with vLLM",
        module="profiler.backends.vllm_engine",
        attribute="VllmFactory",
        extra="vllm",
        needs=(),
        reads_checkpoints=True,
        is_engine=True,
    ),
    "fake-engine": _Entry(
        feature="the fake engine",
        module="profiler.backends.fake_engine",
        attribute="FakeEngineFactory",
        extra="",
        needs=(),
        hidden=True,
        is_engine=True,
    ),
    "fake": _Entry(
        feature="the fake backend",
        module="profiler.backends.fake",
        attribute="FakeBackend",
        extra="",
        needs=(),
        hidden=True,
    ),
}


@dataclass(frozen=True)
class BackendStatus:
    """Whether a backend would work here, and what is missing."""

    name: str
    available: bool
    missing: tuple[str, ...]
    """Distributions absent or too old, with the version needed."""
    install: str
    """The line that mends it; empty if nothing is missing."""
    detail: str = ""


def backend_names() -> tuple[str, ...]:
    """Return the backends a user can choose."""
    return tuple(name for name, entry in _BACKENDS.items() if not entry.hidden)


def available_backends() -> list[BackendStatus]:
    """Return each backend with what it lacks here; nothing heavy is imported."""
    return [_status(name) for name in backend_names()]


def _status(name: str) -> BackendStatus:
    entry = _BACKENDS[name]
    if name == "vllm":
        return _vllm_status(entry)
    missing = tuple(f"{n.distribution}>={n.minimum}" for n in entry.needs if not _satisfied(n))
    install = f"pip install 'capplan[{entry.extra}]'" if missing else ""
    found = (f"{n.distribution} {_version(n.distribution)}" for n in entry.needs if _satisfied(n))
    return BackendStatus(name, not missing, missing, install, ", ".join(found))


def _vllm_status(entry: _Entry) -> BackendStatus:
    """Say which vLLM is there: one of two distributions will do."""
    try:
        found = import_module("profiler.backends.vllm_versions").require_vllm()
    except MissingPackageError as error:
        install = f"pip install 'capplan[{entry.extra}]'"
        return BackendStatus("vllm", False, (error.package,), install)
    known = "" if found.is_known else ", a version that capplan does not know"
    return BackendStatus("vllm", True, (), "", f"{found.distribution} {found.version}{known}")


def is_engine(name: str) -> bool:
    """Whether a backend is an engine that serves requests whole."""
    return _usable(name).is_engine


def create_engine(name: str) -> EngineFactory:
    """Make what starts engines; errors as in :func:`create_backend`."""
    entry = _usable(name)
    factory: EngineFactory = getattr(import_module(entry.module), entry.attribute)()
    return factory


def create_backend(name: str) -> Backend:
    """Make a backend.

    Raises
    ------
    UnknownIdError
        If no backend has that name.
    MissingPackageError
        If a package it needs is absent or too old.
    """
    entry = _usable(name)
    backend: Backend = getattr(import_module(entry.module), entry.attribute)()
    return backend


def check_checkpoints(backend: str, names: Sequence[str], dummy_weights: bool) -> None:
    """Find what a backend would load, before the seconds that importing its libraries takes.

    Raises
    ------
    CapplanError
        As :func:`create_backend`, or because a checkpoint is unknown or cannot be read.
    """
    if _usable(backend).reads_checkpoints:
        find = import_module("profiler.backends.checkpoints").find_checkpoint
        for name in names:
            find(name, dummy_weights)


def _usable(name: str) -> _Entry:
    entry = _BACKENDS.get(name)
    if entry is None:
        raise UnknownIdError(
            f"There is no backend {name!r}.", f"Known: {', '.join(backend_names())}."
        )
    for need in entry.needs:
        if not _satisfied(need):
            raise MissingPackageError(
                entry.feature, f"{need.distribution}>={need.minimum}", entry.extra
            )
    return entry


def demo_target() -> tuple[str, str]:
    """Return path and id of the embedded checkpoint, fetched into the user's cache if need be."""
    _usable("torch")  # converting it takes torch and transformers
    embedded = import_module("profiler.backends.embedded")
    return str(embedded.demo_checkpoint()), str(embedded.DEMO_ID)


def demo_draft() -> tuple[str, str]:
    """Return path and id of the embedded draft for the embedded checkpoint."""
    _usable("torch")
    embedded = import_module("profiler.backends.embedded_draft")
    return str(embedded.demo_draft()), str(embedded.DEMO_DRAFT_ID)


def open_telemetry(device: str) -> Telemetry:
    """Return the telemetry of a device: NVML for CUDA, the load average of a CPU otherwise.

    ``auto`` watches the first NVIDIA GPU if the driver shows one.
    """
    if device.startswith("cuda") or (device == "auto" and not isinstance(gpus(), str)):
        try:
            name = "cuda" if device == "auto" else device
            nvml: Telemetry = import_module("profiler.telemetry.nvml").NvmlTelemetry(name)
        except (MissingPackageError, DeviceError):
            return null_telemetry()
        return nvml
    return null_telemetry()


def null_telemetry() -> Telemetry:
    """Return the telemetry of a machine without a GPU."""
    null: Telemetry = import_module("profiler.telemetry.null").NullTelemetry()
    return null


def gpus() -> list[Device] | str:
    """Return the GPUs that NVML sees, or one line that says why there are none."""
    try:
        found: list[Device] = import_module("profiler.telemetry.nvml").list_gpus()
    except CapplanError as error:
        return error.message
    return found or "NVML answers, but shows no GPU."


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _satisfied(need: Need) -> bool:
    version = _version(need.distribution)
    return version is not None and _release(version) >= _release(need.minimum)


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: enough to compare with a minimum."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])
