"""What a plan's month pays for: one of its options, or an option of every part of a fleet."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.errors import RequestError
from capplan.schema.fleet import ServicePart, service_label
from capplan.schema.plan import Plan, PlanOption


@dataclass(frozen=True)
class PaidPart:
    """An option that is on the bill.

    Attributes
    ----------
    services
        Those that it serves; empty for a plan of one service.
    option
        With its bill.
    placed
        Target and limits of the services; None for a plan of one service.
    """

    services: tuple[str, ...]
    option: PlanOption
    placed: ServicePart | None = None

    @property
    def label(self) -> str:
        """The services' names in one: ``chat + extract``."""
        return service_label(self.services)


def ranked_option(plan: Plan, rank: int) -> PlanOption:
    """Return an option by its rank, 1 for the recommended one.

    Raises
    ------
    RequestError
        If the plan has no such option.
    """
    if not plan.options:
        raise RequestError(
            f"The plan has no option: {plan.verdict.sentence}",
            "capplan what-if PLAN says which budget, limits or load would make it feasible.",
        )
    if not 1 <= rank <= len(plan.options):
        raise RequestError(
            f"The plan has {len(plan.options)} options, no option {rank}.",
            "See them with: capplan report PLAN",
        )
    return plan.options[rank - 1]


def paid_parts(plan: Plan, rank: int = 1) -> tuple[PaidPart, ...]:
    """Return all that is paid for together: one part, or those of the cheapest way to place.

    Parameters
    ----------
    plan
        Of one service or of several.
    rank
        Which option, 1 for the recommended one. Of a fleet in several parts it is that of the
        largest; the others stay as they are.

    Raises
    ------
    RequestError
        If the plan has no such option, or an older capplan wrote a fleet without its options.
    """
    option = ranked_option(plan, rank)
    if plan.fleet is None or not plan.fleet.parts:
        return (PaidPart((), option),)
    largest = plan.fleet.largest_part
    return tuple(
        PaidPart(part.services, option if part is largest else whole_option(part), part)
        for part in plan.fleet.parts
    )


def whole_option(part: ServicePart) -> PlanOption:
    """Return the option of a part with all that a plan knows of it.

    Raises
    ------
    RequestError
        If an older capplan wrote the plan, which kept a summary alone.
    """
    if part.planned is None:
        raise RequestError(
            f"The plan holds only a summary of what serves {part.label}: an older capplan wrote "
            "it.",
            "Make the plan again with: capplan recommend",
        )
    return part.planned


def one_part(plan: Plan, service: str, rank: int = 1) -> PaidPart:
    """Return the part that serves a service.

    Raises
    ------
    RequestError
        If no part does, or as for all parts.
    """
    parts = paid_parts(plan, rank)
    for part in parts:
        if service in part.services:
            return part
    known = [name for part in parts for name in part.services]
    raise RequestError(
        f"The plan has no service {service!r}.",
        f"Its services: {', '.join(known)}." if known else "It is a plan of one service.",
    )
