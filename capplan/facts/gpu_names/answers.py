"""Identities out of boards and what the device reports of its memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from capplan.facts.gpu_names.boards import fits_reported
from capplan.facts.gpu_names.outcome import Unresolved, ambiguous, contradiction
from capplan.facts.gpu_names.slices import MigName, MigProfile, VgpuName
from capplan.schema.gpu import GpuIdentity, GpuSlice, GpuSpec, SliceKind
from capplan.units import BYTES_PER_GIB, BYTES_PER_MIB

Answer = GpuIdentity | Unresolved

_SLICE_TOLERANCE = 0.15
"""A slice reports up to a seventh less than its share: driver and page tables come off it."""


class Share(NamedTuple):
    """Memory of a slice."""

    bytes: float
    named_gb: float

    @classmethod
    def of_gib(cls, size: float, gpu: GpuSpec) -> Share:
        """Return a virtual GPU's frame buffer; no more than the GPU has."""
        return cls(min(size * BYTES_PER_GIB, gpu.memory_bytes), size)


def described(boards: Collection[GpuSpec]) -> str:
    """Return the boards with what tells them apart."""
    return "; ".join(f"{g.id} ({g.memory_gb_nominal:g} GB, {g.form_factor})" for g in boards)


def whole(
    text: str, boards: Sequence[GpuSpec], memory_mib: float | None, count: int, how: str
) -> Answer:
    """Return the one board that the device's memory leaves."""
    left = [gpu for gpu in boards if memory_mib is None or fits_reported(gpu, memory_mib)]
    if not left:
        why = f"the device reports {memory_mib:,.0f} MiB, known are {described(boards)}; "
        return contradiction(text, f"{why}it may be a part of one", (gpu.id for gpu in boards))
    if len(left) > 1:
        return ambiguous(text, (gpu.id for gpu in left))
    gpu = left[0]
    return GpuIdentity(
        gpu=gpu.id,
        form_factor=gpu.form_factor,
        count=count,
        memory_bytes=gpu.memory_bytes if memory_mib is None else memory_mib * BYTES_PER_MIB,
        memory_gb_nominal=gpu.memory_gb_nominal,
        how=how,
    )


def part(
    text: str,
    gpu: GpuSpec,
    piece: GpuSlice,
    share: Share,
    memory_mib: float | None,
    how: str,
    count: int = 1,
) -> Answer:
    """Return a slice; the memory reported may be its own or that of the GPU around it."""
    memory = share.bytes
    if memory_mib is not None and not fits_reported(gpu, memory_mib):
        memory = memory_mib * BYTES_PER_MIB
        if abs(memory / share.bytes - 1) > _SLICE_TOLERANCE:
            share_mib = share.bytes / BYTES_PER_MIB
            why = f"the device reports {memory_mib:,.0f} MiB, a {piece.profile} has about "
            return contradiction(text, f"{why}{share_mib:,.0f}", [gpu.id])
    return GpuIdentity(
        gpu=gpu.id,
        form_factor=gpu.form_factor,
        count=count,
        slice=piece,
        memory_bytes=memory,
        memory_gb_nominal=share.named_gb,
        how=how,
    )


def mig(
    text: str, found: MigName, row: MigProfile, gpu: GpuSpec, memory_mib: float | None
) -> Answer:
    """Return a MIG slice; a compute instance has fewer compute slices and all of the memory."""
    slices = min(found.compute_slices or row.compute_slices, row.compute_slices)
    piece = GpuSlice(
        kind=SliceKind.MIG,
        profile=found.shown,
        compute_fraction=slices / row.compute_slices_of,
    )
    share = Share(row.memory_bytes(gpu.memory_bytes), row.named_gb)
    return part(text, gpu, piece, share, memory_mib, "MIG profile")


def vgpu(
    text: str, found: VgpuName, gpu: GpuSpec, slices_of: int | None, memory_mib: float | None
) -> Answer:
    """Return a virtual GPU; ``slices_of`` is into how many MIG divides that GPU."""
    if found.memory_gb > gpu.memory_gb_nominal or not found.memory_gb:
        why = f"{found.memory_gb} GB of the {gpu.memory_gb_nominal:g} GB of {gpu.name}"
        return contradiction(text, why, [gpu.id])
    fraction = None
    if found.compute_slices and slices_of and found.compute_slices <= slices_of:
        fraction = found.compute_slices / slices_of
    piece = GpuSlice(kind=SliceKind.VGPU, profile=found.shown, compute_fraction=fraction)
    share = Share.of_gib(found.memory_gb, gpu)
    return part(text, gpu, piece, share, memory_mib, "virtual GPU type")
