"""GPUs of this machine as ``nvidia-smi`` lists them; no library of a GPU stack is needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from capplan.errors import DeviceError

_TIMEOUT_S = 20
_GPU = re.compile(r"^GPU (?P<index>\d+): (?P<name>.*) \(UUID: (?P<uuid>[^)]+)\)")
_SLICE = re.compile(r"^\s+(?P<name>MIG .*?)\s+Device\s+\d+: \(UUID: (?P<uuid>[^)]+)\)")


@dataclass(frozen=True)
class VisibleGpu:
    """A GPU, or a slice of one, that a job can be given."""

    id: str
    """What ``CUDA_VISIBLE_DEVICES`` takes."""
    label: str
    """For people: ``GPU 0``."""
    name: str = ""


def visible_gpus(chosen: str = "all") -> tuple[VisibleGpu, ...]:
    """Return the GPUs that jobs may use.

    Parameters
    ----------
    chosen
        ``all``, ``none``, or numbers or UUIDs with commas between them.

    Raises
    ------
    DeviceError
        If one is named that is not there.
    """
    if chosen == "none":
        return ()
    found = _allowed(parse_listing(_listing()))
    if chosen == "all":
        return found
    known = {key: gpu for gpu in found for key in (gpu.id, gpu.label.removeprefix("GPU "))}
    wanted = [name.strip() for name in chosen.split(",") if name.strip()]
    missing = [name for name in wanted if name not in known]
    if missing or not wanted:
        have = ", ".join(gpu.label for gpu in found) or "none that nvidia-smi lists"
        raise DeviceError(
            f"--gpus {chosen}: no GPU {', '.join(missing) or 'is named'} on this machine, "
            f"which has {have}.",
            "Give numbers of `nvidia-smi -L`, or all, or none for the CPU.",
        )
    return tuple(dict.fromkeys(known[name] for name in wanted))


def parse_listing(text: str) -> tuple[VisibleGpu, ...]:
    """Return what ``nvidia-smi -L`` lists: a GPU cut into MIG slices is given slice by slice."""
    found: list[VisibleGpu] = []
    whole: VisibleGpu | None = None
    for line in text.splitlines():
        if match := _GPU.match(line):
            whole = VisibleGpu(match["uuid"], f"GPU {match['index']}", match["name"])
            found.append(whole)
        elif whole is not None and (match := _SLICE.match(line)):
            if found[-1] is whole:
                found.pop()
            count = sum(gpu.label.startswith(f"{whole.label}/") for gpu in found)
            name = f"{whole.name} {match['name']}"
            found.append(VisibleGpu(match["uuid"], f"{whole.label}/{count}", name))
    return tuple(found)


def _allowed(found: Sequence[VisibleGpu]) -> tuple[VisibleGpu, ...]:
    """Keep to what the caller's own ``CUDA_VISIBLE_DEVICES`` allows."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return tuple(found)
    names = [name.strip() for name in allowed.split(",") if name.strip()]
    known = {key: gpu for gpu in found for key in (gpu.id, gpu.label.removeprefix("GPU "))}
    return tuple(known[name] for name in names if name in known)


def _listing() -> str:
    if shutil.which("nvidia-smi") is None:
        return ""
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
