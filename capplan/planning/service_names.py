"""Which services of a fleet a plan without names is of: those of its load."""

from __future__ import annotations

from capplan.planning.part_plans import PartPlan, load_of_part, part_plans
from capplan.schema.plan import Plan

UNNAMED = "plan of one service"
"""What a plan is called whose load is that of no service."""


def named_parts(
    plan: Plan, other: Plan, names: tuple[str, str], notes: list[str]
) -> tuple[PartPlan, ...]:
    """Return the parts of a plan; that of one service is named by what it serves in another.

    Parameters
    ----------
    plan, other
        The plan, and the one whose names it gets.
    names
        What to call the two.
    notes
        How a plan without names was matched is added here, unless its load says so.
    """
    parts = part_plans(plan)
    if plan.fleet is not None:
        return parts
    (part,) = parts
    return (PartPlan(_same_services(part, other, names, notes), part.plan),)


def _same_services(
    part: PartPlan, other: Plan, names: tuple[str, str], notes: list[str]
) -> tuple[str, ...]:
    """Return which services of a fleet a plan without names is of: those of its load."""
    fleet, target = other.fleet, part.option.target
    placed = [one for way in fleet.ways for one in way.parts] if fleet is not None else []
    ours = [one for one in placed if one.target == target]
    for one in ours:
        if load_of_part(other, one) == part.plan.request.workload:
            return one.services
    alone = {one.services for one in ours if len(one.services) == 1}
    if len(alone) == 1:
        (services,) = alone
        notes.append(f"{names[0]} is of one service: taken for {services[0]}, alone of its LLM")
        return services
    notes.append(f"{names[0]} is of one service, whose load is that of none in {names[1]}")
    return (UNNAMED,)
