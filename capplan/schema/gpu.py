"""A GPU as a data sheet describes it, and what a reported name turned out to be."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.provenance import Source


class GpuSpec(Value):
    """Data-sheet facts of one GPU. Rates are dense, never with sparsity."""

    id: str
    name: str
    vendor: str
    arch: str
    compute_capability: str
    form_factor: str
    """How it is built in, as its maker writes it: ``SXM5``, ``PCIe``, ``NVL``, ``OAM`` ..."""
    memory_type: str = ""
    memory_bytes: float = Field(gt=0)
    """Bytes the driver reports; where unknown, the nominal gigabytes times 1e9 (a lower bound)."""
    memory_is_reported: bool
    memory_gb_nominal: float = Field(gt=0)
    """Gigabytes of the data sheet, the figure that names carry."""
    memory_bytes_per_s: float = Field(gt=0)
    bf16_flops_per_s: float = Field(ge=0)
    """0 where the hardware has no bf16 tensor cores (before Ampere)."""
    fp16_flops_per_s: float | None = None
    """Stated only where there is no bf16; elsewhere the two are equal."""
    fp8_flops_per_s: float | None = None
    int8_ops_per_s: float | None = None
    fp4_flops_per_s: float | None = None
    interconnect: str
    interconnect_bytes_per_s: float | None = None
    """Both directions together, as data sheets print it; None where only PCIe links the GPUs."""
    tdp_w: float | None = None
    chip_names: tuple[str, ...] = ()
    """What people call the chip; boards that share it share these names."""
    device_names: tuple[str, ...] = ()
    """Names by which drivers know exactly this board."""
    source: Source

    @property
    def not_planned_because(self) -> str:
        """Why no plan is estimated from this data sheet; empty where one is."""
        if self.bf16_flops_per_s == 0:
            return f"{self.arch} has no bf16 tensor cores, and none of its steps was measured"
        return ""


class SliceKind(StrEnum):
    """How a GPU is divided."""

    MIG = "mig"
    """Own compute and own memory, walled off in hardware."""
    VGPU = "vgpu"
    """Own memory; compute in turns with the other virtual GPUs, unless MIG lies below."""
    SHARED = "time-shared"
    """Everything in turns with other containers."""


class GpuSlice(Value):
    """A part of a GPU. It is never planned as the whole one."""

    kind: SliceKind
    profile: str
    """``3g.40gb``, ``A10-4Q`` ..."""
    compute_fraction: float | None = Field(default=None, gt=0, le=1)
    """Share of the compute units; None where they are used in turns."""


class GpuIdentity(Value):
    """Which GPU a name means."""

    gpu: str
    """Id in the catalogue."""
    form_factor: str
    count: int = Field(ge=1)
    slice: GpuSlice | None = None
    memory_bytes: float = Field(gt=0)
    """Of each one, as reported by the device, else as catalogued; of a slice its share."""
    memory_gb_nominal: float = Field(gt=0)
    """Of each one, the figure that data sheets and names carry; of a slice that of its name."""
    how: str
    """What the name was taken for: an id, a device name, an instance type ..."""

    @property
    def total_memory_bytes(self) -> float:
        """All of them together."""
        return self.count * self.memory_bytes

    @property
    def total_memory_gb_nominal(self) -> float:
        """All of them together, in data-sheet gigabytes."""
        return self.count * self.memory_gb_nominal
