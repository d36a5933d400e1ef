"""The parts of a fleet as plans of their own: what is true of a plan is true of each of them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from capplan.errors import RequestError
from capplan.estimate.merged_traffic import merged
from capplan.planning.service_groups import of_one_service
from capplan.schema.fleet import ServicePart, service_label
from capplan.schema.paid_parts import PaidPart, one_part, paid_parts, whole_option
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.services import Services
from capplan.schema.workload import Workload


@dataclass(frozen=True)
class PartPlan:
    """Services that share replicas, as if they alone had been planned.

    Attributes
    ----------
    services
        Empty for a plan of one service.
    plan
        Its only option is the one that is paid for; its request is that of these services within
        the budget of them all.
    """

    services: tuple[str, ...]
    plan: Plan

    @property
    def option(self) -> PlanOption:
        """What serves them."""
        return self.plan.options[0]

    @property
    def label(self) -> str:
        """The services' names in one: ``chat + extract``."""
        return service_label(self.services)


def part_plans(plan: Plan, rank: int = 1) -> tuple[PartPlan, ...]:
    """Return every part of a plan; a plan of one service is its only part.

    Parameters
    ----------
    plan
        With at least one option.
    rank
        As for :func:`capplan.schema.paid_parts.paid_parts`.

    Raises
    ------
    RequestError
        If the plan has no such option, or an older capplan wrote a fleet without its options.
    """
    parts = paid_parts(plan, rank)
    return tuple(_as_plan(plan, part) for part in parts)


def plan_of_service(plan: Plan, service: str, rank: int = 1) -> PartPlan:
    """Return the part that serves a service.

    Raises
    ------
    RequestError
        If no part does, or as for all parts.
    """
    return _as_plan(plan, one_part(plan, service, rank))


def the_part(plan: Plan, service: str | None, rank: int = 1, *, otherwise: str = "") -> PartPlan:
    """Return the replicas that are asked about: those of a service, or the only ones there are.

    Parameters
    ----------
    plan, service, rank
        As for :func:`plan_of_service`.
    otherwise
        What else to do than to name a service, for the error's remedy.

    Raises
    ------
    RequestError
        If the plan has several sets of replicas and no service is named, or as for all parts.
    """
    if service is not None:
        return plan_of_service(plan, service, rank)
    parts = part_plans(plan, rank)
    if len(parts) > 1:
        labels = ", ".join(part.label for part in parts)
        raise RequestError(
            f"The plan has {len(parts)} sets of replicas ({labels}), and this is about one.",
            f"Name a service (--service NAME, service=...){otherwise}.",
        )
    return parts[0]


def asked_plan(plan: Plan, service: str | None, rank: int | None) -> tuple[Plan, int | None]:
    """Return the plan that options are taken from: itself, or that of a service's replicas.

    Raises
    ------
    RequestError
        As for :func:`the_part`.
    """
    if service is None and (plan.fleet is None or len(plan.fleet.parts) < 2):
        return plan, rank
    return the_part(plan, service, rank or 1).plan, None if rank is None else 1


def requests_of_parts(plan: Plan) -> dict[str, PlanRequest]:
    """Return what is asked for by every part of the cheapest way, be it above the budget.

    Where a service cannot be served, so that there is no way, by every service alone.
    """
    if plan.fleet is None:
        return {}
    if plan.fleet.parts:
        return {part.label: _request(plan, part) for part in plan.fleet.parts}
    return requests_of_services(plan.request)


def requests_of_services(request: PlanRequest) -> dict[str, PlanRequest]:
    """Return what each service asks for, as if it were alone."""
    return {
        one.name: of_one_service(request.model_copy(update={"services": (one,)}))
        for one in request.services
    }


def placed_together(plan: Plan, services: Set[str]) -> PartPlan | None:
    """Return just these services on replicas of their own, if a way of the fleet has them so."""
    ways = plan.fleet.ways if plan.fleet is not None else ()
    for part in (part for way in ways for part in way.parts):
        if set(part.services) == services:
            return _as_plan(plan, PaidPart(part.services, whole_option(part), part))
    return None


def load_of_part(plan: Plan, part: ServicePart) -> Workload:
    """Return the load of services that share replicas.

    Raises
    ------
    RequestError
        If the plan does not say what one of them asks for.
    """
    named = tuple(one for one in plan.request.services if one.name in part.services)
    if len(named) < len(part.services):
        raise RequestError(
            f"The plan's request does not hold all services that share replicas: {part.label}.",
            "Make the plan again with: capplan recommend",
        )
    return merged(Services(services=named), float(plan.request.hours_per_month))


def _as_plan(plan: Plan, part: PaidPart) -> PartPlan:
    changes: dict[str, object] = {"options": (part.option,)}
    if part.placed is not None:
        changes |= {"request": _request(plan, part.placed), "fleet": None}
    return PartPlan(part.services, plan.model_copy(update=changes))


def _request(plan: Plan, placed: ServicePart) -> PlanRequest:
    """Return what was asked for on behalf of the services of one part."""
    assert plan.fleet is not None, "parts are of fleets"
    return plan.request.model_copy(
        update={
            "targets": (placed.target,),
            "slo": placed.slo,
            "workload": load_of_part(plan, placed),
            "budget_usd_per_month": plan.fleet.budget_usd_per_month,
            "services": (),
        }
    )
