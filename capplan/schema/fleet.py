"""Several services: on replicas of their own or on shared ones, what each way costs, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.option import Placement, PlanOption
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Slo

Sharing = Literal["apart", "shared", "grouped"]
"""Every service on replicas of its own; all of one target on the same ones; some of them."""


def service_label(services: Sequence[str]) -> str:
    """Return the name of services that share replicas: ``chat + extract``."""
    return " + ".join(services)


class _Served(Value):
    """Comes last among the bases, so that the services are the first field of a file."""

    services: tuple[str, ...] = Field(min_length=1)
    slo: Slo
    """The strictest limit of each kind among them: a replica keeps it for every request."""
    option: str
    """Id of the option."""


class ServicePart(Placement, _Served):
    """Services that share replicas, and the cheapest option that serves them."""

    unit: str
    """What is rented by the hour: ``GPU``, or ``CPU host``."""
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
    planned: PlanOption | None = None
    """The whole option, as a plan of these services alone has it; None in plans of older
    versions."""

    @property
    def label(self) -> str:
        """The services' names in one: ``chat + extract``."""
        return service_label(self.services)


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
    def parts(self) -> tuple[ServicePart, ...]:
        """Those of the cheapest way, which are paid for together; empty where there is no way."""
        return self.ways[0].parts if self.ways else ()

    @property
    def largest_part(self) -> ServicePart | None:
        """Part of the cheapest way that the plan's options serve; None where there is no way."""
        return max(self.parts, key=lambda part: part.usd_per_month.mid, default=None)
