"""Several services: each on replicas of its own, all of one target on shared ones, or in groups.

What a part costs is a search of its own: its load, the strictest of its limits, the cheapest
option at any budget. Parts do not touch each other, so the fleet's bill is their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capplan.economics.bill import LARGEST_BILL_USD
from capplan.errors import RequestError
from capplan.estimate.merged_traffic import merged
from capplan.planning.candidates import Candidates
from capplan.planning.feasibility import nearest_miss
from capplan.planning.inputs import PlanInputs
from capplan.planning.options import Finalist, build_options
from capplan.planning.peaks import priced_by_mean, sized_for_peak
from capplan.planning.planner import Found, find
from capplan.planning.pricing import required_tokens_per_s
from capplan.planning.service_groups import (
    MOST_GROUPED,
    Group,
    combined_slo,
    groups_by_target,
    notes_on_groups,
    partitions,
)
from capplan.planning.service_needs import least_need
from capplan.schema.fleet import Sharing, Unplaced
from capplan.schema.plan import PlanOption, PlanRequest
from capplan.schema.services import Services
from capplan.schema.workload import Slo

_SAME_USD = 1e-9

Names = frozenset[str]


@dataclass(frozen=True)
class PlacedServices:
    """Services that share replicas, with the cheapest option that serves them."""

    services: Group
    request: PlanRequest
    """Their load, limits and target, at any budget."""
    option: PlanOption
    unrounded_usd: float
    """The least bill if parts of replicas and of nodes could be rented."""
    sized_tokens_per_s: float
    """The load that replicas are for: the peak, where one is known."""

    @property
    def names(self) -> Names:
        """Names of the services."""
        return frozenset(one.name for one in self.services)

    @property
    def usd_per_month(self) -> float:
        """The bill."""
        return self.option.usd_per_month.mid


Way = tuple[PlacedServices, ...]


@dataclass(frozen=True)
class PlacedFleet:
    """Every way to place the services that serves them all."""

    ways: Mapping[Sharing, Way]
    loosest: Mapping[Names, PlacedServices]
    """Shared parts, and their services alone, without limits that not all of a part ask for."""
    unplaced: tuple[Unplaced, ...]
    main: PlanRequest
    """Of the largest part of the cheapest way; of the first service where nothing serves all."""
    notes: tuple[str, ...]

    @property
    def cheapest_first(self) -> list[tuple[Sharing, Way]]:
        """The ways by their bills."""
        return sorted(self.ways.items(), key=lambda item: way_usd(item[1]))


def way_usd(way: Way) -> float:
    """Return the bill of a way."""
    return sum(part.usd_per_month for part in way)


def place_services(inputs: PlanInputs, request: PlanRequest) -> PlacedFleet:
    """Place the services of a request apart, shared, and in groups where that is cheaper.

    Raises
    ------
    RequestError
        If a service has no rate, or its hours contradict the request's.
    """
    placer = _Placer(inputs, request)
    groups = groups_by_target(request)
    apart = placer.all_of([(one,) for group in groups for one in group])
    # shared requests are averaged, which would hide the one that cannot be served even alone
    ways = {} if apart is None else placer.ways(apart, groups)
    return PlacedFleet(
        ways=ways,
        loosest=placer.loosest(ways),
        unplaced=tuple(placer.unplaced.values()),
        main=_main(ways, groups[0][:1], placer),
        notes=tuple(notes_on_groups(groups)),
    )


def _main(ways: Mapping[Sharing, Way], first: Group, placer: _Placer) -> PlanRequest:
    """Return the request of the largest part of the cheapest way, within what others leave."""
    budget = placer.request.budget_usd_per_month
    if not ways:
        return placer.request_of(first).model_copy(update={"budget_usd_per_month": budget})
    way = min(ways.values(), key=way_usd)
    largest = max(way, key=lambda part: part.usd_per_month)
    left = budget - (way_usd(way) - largest.usd_per_month)
    left = max(left, largest.usd_per_month)
    return largest.request.model_copy(update={"budget_usd_per_month": left})


@dataclass
class _Placer:
    """Searches once for every set of services."""

    inputs: PlanInputs
    request: PlanRequest
    unplaced: dict[Names, Unplaced] = field(default_factory=dict)
    _placed: dict[Names, PlacedServices] = field(default_factory=dict)

    def all_of(self, parts: Sequence[Group]) -> Way | None:
        """Return every part placed; None if one cannot be."""
        placed = [self.place(part) for part in parts]
        found = [part for part in placed if part is not None]
        return tuple(found) if len(found) == len(placed) else None

    def place(self, services: Group) -> PlacedServices | None:
        """Return the cheapest option of some services together; None if there is none."""
        key = frozenset(one.name for one in services)
        if key not in self._placed and key not in self.unplaced:
            found = self._found(services)
            if isinstance(found, Unplaced):
                self.unplaced[key] = found
            else:
                self._placed[key] = found
        return self._placed.get(key)

    def _found(self, services: Group) -> PlacedServices | Unplaced:
        try:
            return self._search(services, self.request_of(services))
        except RequestError as error:
            # what one service asks for wrongly is an error; what two cannot share is an answer
            if len(services) == 1:
                raise
            return _not_placed(services, error.message, error.remedy)

    def loosest(self, ways: Mapping[Sharing, Way]) -> dict[Names, PlacedServices]:
        """Return shared parts, and each of their services, without the stricter limits."""
        found: dict[Names, PlacedServices] = {}
        apart = {part.names: part for part in ways.get("apart", ())}
        for part in ways.get("shared", ()):
            slo = combined_slo(part.services, max, all_state_it=True)
            own = (apart[frozenset({one.name})] for one in part.services)
            for placed in (part, *own):
                found[placed.names] = self._at(placed, slo)
        return found

    def _at(self, part: PlacedServices, slo: Slo) -> PlacedServices:
        if slo == part.request.slo:
            return part
        found = self._search(part.services, part.request.model_copy(update={"slo": slo}))
        return part if isinstance(found, Unplaced) else found

    def ways(self, apart: Way, groups: Sequence[Group]) -> dict[Sharing, Way]:
        """Return the services apart, shared, and in groups where that is cheaper than both."""
        found: dict[Sharing, Way] = {"apart": apart}
        if all(len(group) == 1 for group in groups):
            return found
        shared = self.all_of(groups)
        if shared is not None:
            found["shared"] = shared
        grouped = tuple(part for group in groups for part in self.cheapest_grouping(group))
        if way_usd(grouped) < min(map(way_usd, found.values())) * (1.0 - _SAME_USD):
            found["grouped"] = grouped
        return found

    def cheapest_grouping(self, group: Group) -> Way:
        """Return the parts that cost least together; all apart is one of the ways to group."""
        splits: list[list[Group]] = [[(one,) for one in group], [group]]
        if len(group) <= MOST_GROUPED:
            splits = list(partitions(group))
        return min(filter(None, map(self.all_of, splits)), key=way_usd)

    def request_of(self, services: Group) -> PlanRequest:
        """Return the request of some services that share replicas, at any budget."""
        load = merged(Services(services=services), float(self.request.hours_per_month))
        target = services[0].target or self.request.targets[0]
        return self.request.model_copy(
            update={
                "targets": (target,),
                "workload": load,
                "slo": combined_slo(services, min, all_state_it=False),
                "budget_usd_per_month": float(LARGEST_BILL_USD),
                "services": (),
            }
        )

    def _search(self, services: Group, request: PlanRequest) -> PlacedServices | Unplaced:
        sized = sized_for_peak(request)
        found = find(self.inputs, sized)
        if found.found is None or not found.order.size:
            return self._unplaced(services, request, found)
        best = found.found.candidate(int(found.order[0]))
        finalist = Finalist(best, found.targets[0], with_curve=True)
        option = build_options([finalist], sized.workload)[0]
        load = required_tokens_per_s(sized.workload, sized.hours_per_month)
        assert load is not None, "a service without a rate was refused"
        unrounded = _least_unrounded_usd(found.found, load / sized.workload.utilisation)
        priced = priced_by_mean(option, request)
        return PlacedServices(services, request, priced, unrounded, load)

    def _unplaced(self, services: Group, request: PlanRequest, found: Found) -> Unplaced:
        """Say what it would take; of several that share, what came nearest."""
        rejections = found.log.rejections()
        if not rejections or not found.offers:
            return _not_placed(services, "no offer matches the filters", "Loosen --gpu.")
        need = least_need(self.inputs, request) if len(services) == 1 else None
        nearest = nearest_miss(rejections)
        return _not_placed(services, *(need or (nearest.example, nearest.remedy)))


def _least_unrounded_usd(found: Candidates, tokens_per_s: float) -> float:
    """Return the least bill of exactly the GPUs that make so many tokens a second when busy."""
    rates: dict[tuple[int, int], float] = {}
    least = float("inf")
    hardware = found.columns.hardware_index.tolist()
    for (evaluated, offer), h in zip(found.sources, hardware, strict=True):
        key = id(evaluated), h
        if key not in rates:
            grid = evaluated.grid
            rates[key] = float(grid.throughput[h][grid.feasible[h]].max())
        _, usd_per_gpu_hour, hours = offer.charge
        gpus = tokens_per_s / rates[key] * evaluated.choices[h].tensor_parallel
        least = min(least, gpus * usd_per_gpu_hour * hours)
    return least


def _not_placed(services: Group, why: str, remedy: str) -> Unplaced:
    names = tuple(one.name for one in services)
    return Unplaced(services=names, why=why.rstrip("."), remedy=remedy)
