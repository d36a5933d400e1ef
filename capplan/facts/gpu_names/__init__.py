"""Names that drivers, schedulers, clouds and people give to GPUs, to the catalogue. Never a guess.

A name resolves only if every word of it fits exactly one board: an A100 without a size or a form
factor is ambiguous and the choices are listed; an ``RTX 4090 Laptop GPU`` or ``4090 D`` is another
board and unknown; an H100 slice keeps its slice. ``words`` reads a name, ``boards`` finds the
catalogue's boards, ``slices`` knows MIG and virtual GPUs, ``names`` puts them together.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from shlex import quote

from capplan.errors import UnknownIdError
from capplan.facts.gpu_names.answers import Answer
from capplan.facts.gpu_names.names import GpuNames
from capplan.facts.gpu_names.outcome import Reason, Unresolved
from capplan.facts.gpu_names.slices import load_mig, load_vgpu
from capplan.facts.gpus import load_gpus
from capplan.facts.instances import load_instances
from capplan.resources import models_db_dir
from capplan.schema.gpu import GpuIdentity, GpuSpec

__all__ = [
    "Answer",
    "GpuNames",
    "Reason",
    "Unresolved",
    "gpu_id_from_device_name",
    "identify_gpu",
    "load_gpu_names",
    "whole_gpu",
]


def load_gpu_names(directory: Path, gpus: tuple[GpuSpec, ...]) -> GpuNames:
    """Load what names the GPUs of a catalogue; folders that a small catalogue lacks are empty.

    Raises
    ------
    FactsError
        If a row is wrong; the message names file and line.
    """
    instances, mig, vgpu = (directory / name for name in ("instances", "mig", "vgpu"))
    return GpuNames(
        gpus,
        load_instances(instances) if instances.is_dir() else (),
        load_mig(mig) if mig.is_dir() else (),
        load_vgpu(vgpu) if vgpu.is_dir() else (),
    )


@lru_cache(maxsize=1)
def _shipped() -> GpuNames:
    directory = models_db_dir()
    return load_gpu_names(directory, load_gpus(directory / "gpus"))


def identify_gpu(
    name: str, memory_mib: float | None = None, names: GpuNames | None = None
) -> GpuIdentity:
    """Return which GPU a name means, with count, form factor and slice.

    Parameters
    ----------
    name
        What a driver, PyTorch, a scheduler, a cloud or a person calls it.
    memory_mib
        Memory that the device reports, where it is known.
    names
        Names to look in; those shipped by default.

    Raises
    ------
    UnknownIdError
        If the name is unknown, ambiguous or contradicts itself; the remedy lists the choices.

    Examples
    --------
    >>> identify_gpu("NVIDIA H100 80GB HBM3").gpu
    'h100-sxm-80gb'
    >>> identify_gpu("Standard_ND96asr_v4").count
    8
    """
    answer = (names or _shipped()).look_up(name, memory_mib)
    if isinstance(answer, Unresolved):
        raise answer.error()
    return answer


def whole_gpu(answer: Answer, typed: str, use: str = "--gpu") -> str:
    """Return the id of one whole GPU, for what plans with it; ``use`` is how to name it there.

    Raises
    ------
    UnknownIdError
        If the name means no GPU, a part of one, or a machine with several.
    """
    if isinstance(answer, Unresolved):
        raise answer.error()
    remedy = f"Name the whole GPU: {use} {answer.gpu}. More: capplan facts resolve {quote(typed)}"
    if answer.slice is not None:
        raise UnknownIdError(
            f"{typed!r} is a part of a GPU, {answer.slice.profile} of {answer.gpu}: "
            "a part is never planned as the whole.",
            remedy,
        )
    if answer.count > 1 or answer.how.startswith("instance type"):
        raise UnknownIdError(f"{typed!r} is {answer.count} x {answer.gpu}.", remedy)
    return answer.gpu


def gpu_id_from_device_name(name: str, memory_mib: float | None = None) -> str | None:
    """Return the catalogue's id of the whole GPU that NVML, PyTorch or a node label names.

    None for what is no whole GPU of the catalogue: an unknown variant, a slice, a CPU, or a name
    that several boards share and the memory does not tell apart.

    Examples
    --------
    >>> gpu_id_from_device_name("NVIDIA H100 80GB HBM3")
    'h100-sxm-80gb'
    >>> gpu_id_from_device_name("NVIDIA GeForce RTX 4090 Laptop GPU") is None
    True
    """
    answer = _shipped().look_up(name, memory_mib)
    if isinstance(answer, Unresolved) or answer.slice is not None or answer.count > 1:
        return None
    return answer.gpu
