"""Hardware that can hold one replica."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.schema.gpu import GpuSpec


@dataclass(frozen=True)
class HardwareChoice:
    """One entry of the hardware axis."""

    gpu_id: str
    gpu_name: str
    memory_bytes: float
    """Bytes that CUDA hands out."""
    tensor_parallel: int
    gpu: GpuSpec | None
