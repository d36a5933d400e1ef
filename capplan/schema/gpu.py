"""A GPU as a data sheet describes it."""

from __future__ import annotations

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
    memory_bytes: float = Field(gt=0)
    """Bytes the driver reports; where unknown, the nominal gigabytes times 1e9 (a lower bound)."""
    memory_is_reported: bool
    memory_bytes_per_s: float = Field(gt=0)
    bf16_flops_per_s: float = Field(gt=0)
    fp8_flops_per_s: float | None = None
    int8_ops_per_s: float | None = None
    fp4_flops_per_s: float | None = None
    interconnect: str
    interconnect_bytes_per_s: float | None = None
    """Both directions together, as data sheets print it; None where only PCIe links the GPUs."""
    tdp_w: float | None = None
    source: Source
