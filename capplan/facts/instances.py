"""Instance types of clouds and accelerator labels of schedulers, with the GPUs behind them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from capplan.facts.rows import PROVENANCE, cited, read_family
from capplan.schema.base import Value
from capplan.schema.provenance import Source

INSTANCE_COLUMNS = (
    *("provider", "instance", "kind", "gpu", "gpu_count", "slice", "slice_memory_gb"),
    *PROVENANCE,
)


class InstanceKind(StrEnum):
    """What kind of name it is."""

    INSTANCE = "instance"
    """A machine that can be rented; upper and lower case do not matter."""
    LABEL = "label"
    """A scheduler's name for one accelerator, such as GKE's; matched letter by letter."""


class Instance(Value):
    """What a provider's name stands for."""

    provider: str
    instance: str
    kind: InstanceKind
    gpu: str
    """Id of the GPU in the catalogue."""
    gpu_count: int = Field(ge=1)
    slice: str = ""
    """Where each is a share of a GPU: the virtual GPU's type, or a description."""
    slice_memory_gb: float | None = Field(default=None, gt=0)
    source: Source
    note: str = ""


def load_instances(folder: Path) -> tuple[Instance, ...]:
    """Load instance types and labels.

    Raises
    ------
    FactsError
        If no file is there or a row is wrong; the message names file and line.
    """
    return tuple(cited(Instance, row) for row in read_family(folder, INSTANCE_COLUMNS))
