"""Several services: on replicas of their own or on shared ones, what each way costs, and why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.pairing import Method
from capplan.schema.price import Purchase
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Slo

Sharing = Literal["apart", "shared", "grouped"]
"""Every service on replicas of its own; all of one target on the same ones; some of them."""


class ServicePart(Value):
    """Services that share replicas, and the cheapest option that serves them."""

    services: tuple[str, ...] = Field(min_length=1)
    slo: Slo
    """The strictest limit of each kind among them: a replica keeps it for every request."""
    option: str
    """Id of the option."""
    target: str
    draft: str | None
    method: Method
    num_speculative_tokens: int = Field(ge=0)
    gpu: str
    gpu_name: str
    unit: str
    """What is rented by the hour: ``GPU``, or ``CPU host``."""
    tensor_parallel: int = Field(ge=1)
    replicas: int = Field(ge=1)
    gpus_rented: int = Field(ge=1)
    provider: str
    instance: str
    region: str
    purchase: Purchase
    usd_per_gpu_hour: float
    concurrency: int
    utilisation: float
    """At the mean load."""
    tpot_ms: Quantity
    ttft_ms: Quantity
    speedup: Quantity
    usd_per_month: Quantity
    usd_per_month_unused: float
    """What whole replicas and nodes add to the least that parts of them would cost."""
    usd_per_million_output_tokens: Quantity
    output_tokens_per_month: float
    launch: str
    """Text that starts it on the engine, if the engine can run it."""


class FleetWay(Value):
    """One way to put the services on replicas."""

    sharing: Sharing
    parts: tuple[ServicePart, ...] = Field(min_length=1)
    usd_per_month: Quantity
    """Sum over the parts; ends are added in full, as the parts rest on the same estimates."""
    within_budget: bool


class SharingCause(Value):
    """One reason why shared replicas cost more or less than replicas of one's own."""

    cause: Literal[
        "strictest limits", "whole replicas and nodes", "peaks at other hours", "mix of requests"
    ]
    usd_per_month: float
    """What it adds to the bill of shared replicas; negative: what it saves. All causes together
    are shared less apart."""
    said: str


class Unplaced(Value):
    """Services that no option serves together, or at all."""

    services: tuple[str, ...]
    why: str
    remedy: str


class ServiceFleet(Value):
    """Several services on one bill."""

    budget_usd_per_month: float
    """For all of them."""
    within_budget: bool
    """Whether the cheapest way is."""
    sentence: str
    needed: str = ""
    """Where no way is within the budget: what it would take."""
    ways: tuple[FleetWay, ...]
    """Cheapest first; empty where a service cannot be served at all."""
    causes: tuple[SharingCause, ...] = ()
    """Largest first; empty unless all can be served apart as well as shared."""
    unplaced: tuple[Unplaced, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def largest_part(self) -> ServicePart | None:
        """Part of the cheapest way that the plan's options serve; None where there is no way."""
        if not self.ways:
            return None
        return max(self.ways[0].parts, key=lambda part: part.usd_per_month.mid)
