"""A placed fleet of services as an answer: every way with its parts, the cheapest one in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from capplan.economics.decimals import dollars
from capplan.planning.service_causes import sharing_causes, unused_usd
from capplan.planning.service_fleet import PlacedFleet, PlacedServices
from capplan.schema.fleet import FleetWay, ServiceFleet, ServicePart, Sharing, Unplaced
from capplan.schema.plan import PlanOption, PlanRequest
from capplan.schema.quantity import Quantity

_SAME_USD = 1e-9
_HOW: dict[Sharing, str] = {
    "apart": "each on replicas of its own",
    "shared": "on shared replicas",
    "grouped": "in groups",
}


def fleet_of_services(
    found: PlacedFleet, request: PlanRequest, launched: Callable[[PlacedServices], PlanOption]
) -> ServiceFleet:
    """Return the answer.

    Parameters
    ----------
    found
        What was placed.
    request
        Of all services.
    launched
        Returns the option of a part with the text that starts it.
    """
    budget_usd = request.budget_usd_per_month
    parts = {id(part): _part(part, launched(part)) for way in found.ways.values() for part in way}
    ways = tuple(
        _way(sharing, [parts[id(part)] for part in way], budget_usd)
        for sharing, way in found.cheapest_first
    )
    within = bool(ways) and ways[0].within_budget
    return ServiceFleet(
        budget_usd_per_month=budget_usd,
        within_budget=within,
        sentence=_sentence(ways, [one.name for one in request.services], budget_usd),
        needed="" if within else _needed(ways, found.unplaced, budget_usd),
        ways=ways,
        causes=sharing_causes(found),
        unplaced=found.unplaced,
        notes=found.notes,
    )


def _way(sharing: Sharing, parts: Sequence[ServicePart], budget_usd: float) -> FleetWay:
    bills = [part.usd_per_month for part in parts]
    total = Quantity(
        low=sum(usd.low for usd in bills),
        mid=sum(usd.mid for usd in bills),
        high=sum(usd.high for usd in bills),
    )
    within = total.mid <= budget_usd * (1.0 + _SAME_USD)
    return FleetWay(sharing=sharing, parts=tuple(parts), usd_per_month=total, within_budget=within)


_OWN = ("output_tokens_per_month",)
_TAKEN = ("unit", *(set(ServicePart.model_fields) & set(PlanOption.model_fields) - set(_OWN)))
"""What a part says in the words of its option."""


def _part(placed: PlacedServices, option: PlanOption) -> ServicePart:
    tokens = option.output_tokens_per_month
    assert tokens is not None, "options that are made now know it"
    return ServicePart(
        services=tuple(one.name for one in placed.services),
        slo=placed.request.slo,
        option=option.id,
        **{name: getattr(option, name) for name in _TAKEN},
        usd_per_month_unused=unused_usd(placed),
        output_tokens_per_month=tokens.mid,
        planned=option,
    )


def _sentence(ways: Sequence[FleetWay], names: Sequence[str], budget_usd: float) -> str:
    if not ways:
        return f"No way to serve all of {', '.join(names)} was found."
    best = ways[0]
    usd = best.usd_per_month
    if not best.within_budget:
        limit = f"{dollars(budget_usd)} USD a month or less"
        return f"No way to serve {', '.join(names)} costs {limit}."
    interval = f" ({_whole(usd.low)}-{_whole(usd.high)})" if usd.low < usd.high else ""
    others = "".join(f", {_against(best, other)}" for other in ways[1:])
    below = ""
    if len(best.parts) > 1:
        largest = max(best.parts, key=lambda part: part.usd_per_month.mid)
        below = f" Options below are of the largest part, {largest.label}."
    return (
        f"Serve {', '.join(names)} {_how(best)}: {_whole(usd.mid)} USD a month{interval}"
        f"{others}.{below}"
    )


def _whole(usd: float) -> str:
    """Return whole dollars, halves up as in the tables."""
    return f"{math.floor(usd + 0.5):,}"


def _how(way: FleetWay) -> str:
    if way.sharing != "grouped":
        return _HOW[way.sharing]
    return f"in groups ({', '.join(part.label for part in way.parts)})"


def _against(best: FleetWay, other: FleetWay) -> str:
    more = other.usd_per_month.mid - best.usd_per_month.mid
    if more <= best.usd_per_month.mid * _SAME_USD:
        return f"as {_HOW[other.sharing]}"
    return f"{more:,.0f} less than {_HOW[other.sharing]}"


def _needed(ways: Sequence[FleetWay], unplaced: Sequence[Unplaced], budget_usd: float) -> str:
    if ways:
        usd = ways[0].usd_per_month.mid
        return (
            f"The cheapest way, {_how(ways[0])}, costs {dollars(usd)} USD a month: "
            f"{dollars(usd - budget_usd)} more than the budget."
        )
    alone = [one for one in unplaced if len(one.services) == 1]
    return " ".join(f"{one.services[0]}: {one.why}. {one.remedy}" for one in alone)
