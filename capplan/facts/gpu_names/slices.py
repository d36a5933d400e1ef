"""Parts of a GPU: MIG profiles and virtual GPU types, as drivers and schedulers write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from capplan.facts.gpu_names.words import tokens
from capplan.facts.rows import PROVENANCE, Row, build, read_family
from capplan.schema.base import Value
from capplan.schema.provenance import Kind, Source
from capplan.units import BYTES_PER_GIB

MIG_COLUMNS = (
    *("gpus", "profile", "compute_slices", "compute_slices_of"),
    *("memory_slices", "memory_slices_of", "memory_gib_reported", *PROVENANCE),
)
VGPU_COLUMNS = ("board", "gpu", *PROVENANCE)

_ALTERNATIVES = "|"
_MIG = re.compile(
    r"(?:\bmig[\s\-_]*)?"
    r"(?:(?P<compute>\d{1,2})c\.)?(?P<profile>\d{1,2}g\.\d{1,4}gb)"
    r"(?P<extra>(?:[.+\-](?:me|gfx)(?:\.all)?)?)(?=$|[\s,;)\-])"
)
_MIG_WORD = re.compile(r"\b(?:mig|all)\b")
"""``all-1g.5gb`` is a configuration of the MIG manager."""
_VGPU = re.compile(
    r"(?P<board>[a-z0-9][a-z0-9 \-]*?)-(?:(?P<slices>\d)-)?(?P<gb>\d{1,4})[abcq](?:me)?"
)
_VGPU_PREFIX = re.compile(r"^(?:(?:nvidia|grid|vgpu)[\s\-_]+)+")


class MigProfile(Value):
    """A MIG profile of one GPU, as NVIDIA's user guide tabulates it."""

    gpu: str
    profile: str
    """Without media extensions, which change neither compute nor memory: ``1g.10gb``."""
    compute_slices: int = Field(ge=1)
    compute_slices_of: int = Field(ge=1)
    memory_slices: int = Field(ge=1)
    memory_slices_of: int = Field(ge=1)
    memory_gib_reported: float | None = Field(default=None, gt=0)
    source: Source

    @property
    def named_gb(self) -> float:
        """Gigabytes in the profile's name."""
        return float(self.profile.rpartition(".")[2].removesuffix("gb"))

    def memory_bytes(self, whole_bytes: float) -> float:
        """Return what the driver reports, else the share of the whole memory (a little more)."""
        if self.memory_gib_reported is not None:
            return self.memory_gib_reported * BYTES_PER_GIB
        return whole_bytes * self.memory_slices / self.memory_slices_of


class VgpuBoard(Value):
    """Which board the first word of a virtual GPU's type means: ``A100D`` is A100 PCIe 80GB."""

    board: str
    gpu: str
    source: Source


@dataclass(frozen=True)
class MigName:
    """A MIG profile found in a name."""

    profile: str
    shown: str
    compute_slices: int | None
    """Of a compute instance (``1c.3g.40gb``): fewer than its GPU instance has."""
    rest: str
    """The name of the GPU around it; may be empty."""


@dataclass(frozen=True)
class VgpuName:
    """A virtual GPU's type found in a name."""

    board: str
    shown: str
    memory_gb: int
    compute_slices: int | None
    """Where MIG lies below (``A100D-1-20C``); else compute is used in turns."""


def find_mig(name: str) -> MigName | None:
    """Find a MIG profile: ``... MIG 3g.40gb``, ``nvidia.com/mig-1g.10gb.me``."""
    lowered = name.lower()
    found = _MIG.search(lowered)
    if found is None:
        return None
    rest = f"{lowered[: found.start()]} {lowered[found.end() :]}".removeprefix("nvidia.com/")
    compute = found["compute"]
    shown = f"{compute}c.{found['profile']}" if compute else found["profile"]
    return MigName(
        profile=found["profile"],
        shown=shown + found["extra"],
        compute_slices=int(compute) if compute else None,
        rest=_MIG_WORD.sub(" ", rest).strip(" -_"),
    )


def find_vgpu(name: str) -> VgpuName | None:
    """Find a virtual GPU's type: ``GRID A100D-1-20C``, ``NVIDIA A40-48Q``."""
    bare = _VGPU_PREFIX.sub("", name.strip().lower())
    found = _VGPU.fullmatch(bare)
    if found is None:
        return None
    slices = found["slices"]
    return VgpuName(
        board=" ".join(tokens(found["board"])),
        shown=bare.upper(),
        memory_gb=int(found["gb"]),
        compute_slices=int(slices) if slices else None,
    )


def load_mig(folder: Path) -> tuple[MigProfile, ...]:
    """Load MIG profiles; a row may hold for several GPUs.

    Raises
    ------
    FactsError
        If no file is there or a row is wrong; the message names file and line.
    """
    return tuple(
        _profile(row, gpu)
        for row in read_family(folder, MIG_COLUMNS)
        for gpu in row.required("gpus").split(_ALTERNATIVES)
    )


def _profile(row: Row, gpu: str) -> MigProfile:
    numbers = ("compute_slices", "compute_slices_of", "memory_slices", "memory_slices_of")
    values = {
        "gpu": gpu,
        "profile": row.required("profile"),
        **{name: row.number(name) for name in (*numbers, "memory_gib_reported")},
        "source": row.source(Kind.CITED),
    }
    return build(MigProfile, row, values)


def load_vgpu(folder: Path) -> tuple[VgpuBoard, ...]:
    """Load the boards of virtual GPU types.

    Raises
    ------
    FactsError
        If no file is there or a row is wrong; the message names file and line.
    """
    return tuple(
        build(
            VgpuBoard,
            row,
            {
                "board": " ".join(tokens(row.required("board"))),
                "gpu": row.required("gpu"),
                "source": row.source(Kind.CITED),
            },
        )
        for row in read_family(folder, VGPU_COLUMNS)
    )
