"""What a GPU costs an hour, where, since when."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.provenance import Source


class Purchase(StrEnum):
    """How capacity is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


class PriceRow(Value):
    """One offer: a node with ``gpu_count`` GPUs at a price an hour."""

    provider: str
    instance: str
    gpu: str
    """Id of the GPU in the catalogue."""
    gpu_count: int = Field(ge=1)
    region: str
    purchase: Purchase
    tier: str
    """``list``, ``secure``, ``community``, ``marketplace`` ...: offers of unlike standing are
    never mixed in silence."""
    usd_per_hour: float = Field(gt=0)
    """Price of the whole node."""
    source: Source
    note: str = ""

    @property
    def usd_per_gpu_hour(self) -> float:
        """Price of the node divided by its GPUs."""
        return self.usd_per_hour / self.gpu_count
