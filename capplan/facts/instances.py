"""Instance types of clouds and accelerator labels of schedulers, with the GPUs behind them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field, model_validator

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
    PATTERN = "pattern"
    """A machine whose name spells out how many GPUs it has: ``#`` is that count and ``*`` any
    other number, as in ``n3-H100x#``."""
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
    """1 in a pattern, whose names carry the count."""
    slice: str = ""
    """Where each is a share of a GPU: the virtual GPU's type, or a description."""
    slice_memory_gb: float | None = Field(default=None, gt=0)
    source: Source
    note: str = ""

    @model_validator(mode="after")
    def _a_pattern_has_one_count(self) -> Instance:
        patterned = self.kind is InstanceKind.PATTERN
        if patterned and (self.instance.count("#") != 1 or self.gpu_count != 1):
            message = "a pattern has exactly one # for the count, and gpu_count 1"
            raise ValueError(message)
        return self


def load_instances(folder: Path) -> tuple[Instance, ...]:
    """Load instance types and labels.

    Raises
    ------
    FactsError
        If no file is there or a row is wrong; the message names file and line.
    """
    return tuple(cited(Instance, row) for row in read_family(folder, INSTANCE_COLUMNS))
