"""NVIDIA GPUs through NVML. pynvml (distribution nvidia-ml-py) is imported on use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

from capplan.errors import DeviceError, MissingPackageError
from capplan.schema.measured_setup import Device
from capplan.schema.verdict import Reason, Stability, Verdict
from capplan.units import BYTES_PER_MIB

STABLE = Verdict(stability=Stability.STABLE)
MILLI = 1e-3
TRANSFERS_PER_CLOCK = 2
"""HBM and GDDR move data on both clock edges, and NVML gives the clock, not the data rate."""
BITS_PER_BYTE = 8
HERTZ_PER_MHZ = 1e6

_THROTTLES = {
    "nvmlClocksEventReasonSwPowerCap": "power_cap",
    "nvmlClocksThrottleReasonHwSlowdown": "hardware_slowdown",
    "nvmlClocksEventReasonSwThermalSlowdown": "thermal_slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "hardware_thermal_slowdown",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power_brake",
}
GPU_LOST_REMEDY = "Look for Xid errors in dmesg; a GPU that is lost often needs a reboot."
_HARMLESS = frozenset({"power_cap"})
"""A data-centre GPU under full load runs at its power cap: that is its normal speed."""


def _load() -> ModuleType:
    try:
        import pynvml  # optional: only GPU hosts have it
    except ImportError as error:
        raise MissingPackageError("reading NVIDIA GPUs", "nvidia-ml-py", "profile") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DeviceError(
            f"NVML sees no GPU: {error}.",
            "Check the driver with nvidia-smi; in a container, pass the GPUs through.",
        ) from error
    module: ModuleType = pynvml
    return module


def list_gpus() -> list[Device]:
    """Return every GPU that NVML sees.

    Raises
    ------
    MissingPackageError, DeviceError
        If there is no pynvml, no driver or no permission.
    """
    nvml = _load()
    try:
        return [_describe(nvml, _handle(nvml, i)) for i in range(nvml.nvmlDeviceGetCount())]
    finally:
        nvml.nvmlShutdown()


def nvml_index(device: str, environ: Mapping[str, str] | None = None) -> int | str:
    """Return NVML's index (or UUID) of a CUDA device name; NVML ignores CUDA_VISIBLE_DEVICES.

    >>> nvml_index("cuda:1", {"CUDA_VISIBLE_DEVICES": "4,6"})
    6
    """
    number = int(device.partition(":")[2] or 0)
    visible = (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES", "")
    entries = [entry.strip() for entry in visible.split(",") if entry.strip()]
    if not entries:
        return number
    if number >= len(entries):
        raise DeviceError(
            f"{device} was asked for, but CUDA_VISIBLE_DEVICES={visible} "
            f"shows {len(entries)} GPUs.",
            "Choose a smaller number, or change CUDA_VISIBLE_DEVICES.",
        )
    return int(entries[number]) if entries[number].isdigit() else entries[number]


class NvmlTelemetry:
    """One NVIDIA GPU, watched through the driver.

    Parameters
    ----------
    device
        ``cuda`` or ``cuda:1``.
    """

    def __init__(self, device: str) -> None:
        self._nvml = _load()
        self._handle = _handle(self._nvml, nvml_index(device))
        self._own_pid = os.getpid()

    def device(self) -> Device | None:
        """Return what the driver says about the GPU.

        Raises
        ------
        DeviceError
            If it is lost.
        """
        try:
            return _describe(self._nvml, self._handle)
        except self._nvml.NVMLError as error:
            raise DeviceError(f"The GPU does not answer: {error}.", GPU_LOST_REMEDY) from error

    def isolation(self, *, loaded: bool) -> Verdict:
        """Judge by the processes that NVML names: one that is not ours invalidates."""
        foreign = self._foreign_bytes(loaded=loaded)
        if not foreign:
            return STABLE
        remedy = (
            f"Stop the other {len(foreign)} process(es) on this GPU "
            f"({sum(foreign) / BYTES_PER_MIB:,.0f} MiB), or take another GPU."
        )
        reason = Reason(check="foreign_process", value=len(foreign), threshold=0.0, remedy=remedy)
        return Verdict(stability=Stability.INVALID, reasons=(reason,))

    def health(self) -> Verdict:
        """Judge by the throttle reasons that the driver gives at this moment."""
        active = [name for name in self._throttles() if name not in _HARMLESS]
        if not active:
            return STABLE
        celsius = _ask(self._nvml.nvmlDeviceGetTemperature, self._handle, 0)
        remedy = (
            f"Cool the GPU or raise its limits ({', '.join(active)}; {celsius} C), and repeat."
        )
        reason = Reason(check="throttled", value=len(active), threshold=0.0, remedy=remedy)
        return Verdict(stability=Stability.NOISY, reasons=(reason,))

    def gone(self) -> str:
        """Return the driver's error where it does not even know the memory in use any more."""
        try:
            self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
        except self._nvml.NVMLError as error:
            return str(error)
        return ""

    def energy_j(self) -> float | None:
        """Return the energy counter, which NVML keeps in millijoules since the driver loaded."""
        millijoules = _ask(self._nvml.nvmlDeviceGetTotalEnergyConsumption, self._handle)
        return None if millijoules is None else millijoules * MILLI

    def peak_memory_bytes_per_s(self) -> float | None:
        """Return bus width times the largest memory clock times two transfers a clock."""
        nvml = self._nvml
        bits = _ask(nvml.nvmlDeviceGetMemoryBusWidth, self._handle)
        mhz = _ask(nvml.nvmlDeviceGetMaxClockInfo, self._handle, nvml.NVML_CLOCK_MEM)
        if not bits or not mhz:
            return None
        return float(TRANSFERS_PER_CLOCK * mhz * HERTZ_PER_MHZ * bits / BITS_PER_BYTE)

    def close(self) -> None:
        """Let go of NVML."""
        with suppress(self._nvml.NVMLError):  # a driver that lost its GPU may refuse even that
            self._nvml.nvmlShutdown()

    def _foreign_bytes(self, *, loaded: bool) -> list[float]:
        """Return the memory of each process that is not ours.

        NVML may number processes as the host does, not as a container does: where our own number
        is not among them, one of them is taken to be ours.
        """
        running = _ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, self._handle) or []
        others = [p for p in running if p.pid != self._own_pid]
        if loaded and others and len(others) == len(running):
            others = others[1:]
        return [float(p.usedGpuMemory or 0) for p in others]

    def _throttles(self) -> list[str]:
        nvml = self._nvml
        ask = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        mask = _ask(ask or nvml.nvmlDeviceGetCurrentClocksThrottleReasons, self._handle)
        bits = {short: getattr(nvml, name, 0) for name, short in _THROTTLES.items()}
        return [short for short, bit in bits.items() if (mask or 0) & bit]


def _ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Ask NVML; None where this GPU or driver does not answer the question."""
    import pynvml

    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _handle(nvml: ModuleType, index: int | str) -> Any:
    try:
        if isinstance(index, str):
            return nvml.nvmlDeviceGetHandleByUUID(index)
        return nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        raise DeviceError(
            f"NVML has no GPU {index}: {error}.",
            "`capplan doctor` lists the GPUs that are seen.",
        ) from error


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")


def _describe(nvml: ModuleType, handle: Any) -> Device:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    limit_mw = _ask(nvml.nvmlDeviceGetPowerManagementLimit, handle)
    cuda = _ask(nvml.nvmlSystemGetCudaDriverVersion)
    mig = _ask(nvml.nvmlDeviceGetMigMode, handle)
    ecc = _ask(nvml.nvmlDeviceGetEccMode, handle)
    return Device(
        kind="cuda",
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(_ask(nvml.nvmlDeviceGetUUID, handle)),
        memory_bytes=float(memory.total),
        driver=_text(_ask(nvml.nvmlSystemGetDriverVersion)),
        cuda="" if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        power_limit_w=None if limit_mw is None else limit_mw * MILLI,
        clocks_mhz=_clocks(nvml, handle),
        mig=None if mig is None else bool(mig[0]),
        ecc=None if ecc is None else bool(ecc[0]),
    )


def _clocks(nvml: ModuleType, handle: Any) -> dict[str, float]:
    wanted = {
        "sm": (nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        "memory": (nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        "sm_max": (nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        "memory_max": (nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
    }
    answers = {name: _ask(ask, handle, kind) for name, (ask, kind) in wanted.items()}
    return {name: float(mhz) for name, mhz in answers.items() if mhz is not None}
