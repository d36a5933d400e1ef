"""Two plans of which at least one places several services: what each cause adds to the bill.

Services are matched by their names. Those that share replicas with the same ones before and after
are compared as one plan with another. Where services moved together or apart, each is compared on
replicas of its own, which both plans know the bill of, and what is left is what the placement
does::

    after - before = sum over services (alone after - alone before) + placement
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from capplan.planning.part_plans import (
    PartPlan,
    part_plans,
    placed_together,
    requests_of_services,
)
from capplan.planning.plan_difference import bill_usd, cost_parts
from capplan.planning.plan_settings import (
    budget_settings,
    hardware,
    option_settings,
    request_settings,
    version_settings,
)
from capplan.planning.service_names import named_parts
from capplan.schema.difference import CostPart, PlanDifference, ServicesChange, Setting
from capplan.schema.fleet import service_label
from capplan.schema.plan import Plan

_ABSENT = "not there"


@dataclass(frozen=True)
class _Side:
    """One plan by its parts; a plan of one service has the name that the other plan gives it."""

    plan: Plan
    parts: tuple[PartPlan, ...]

    @property
    def total_usd(self) -> Decimal:
        return _usd(self.parts)

    def alone(self, names: frozenset[str]) -> PartPlan | None:
        """Return services on replicas of their own: as placed, else as they could be."""
        for part in self.parts:
            if names == set(part.services):
                return part
        return placed_together(self.plan, names)

    @property
    def unsplit(self) -> frozenset[str]:
        """Services that one plan without names stands for; none of them alone is known."""
        names = frozenset(self.parts[0].services)
        return names if self.plan.fleet is None and len(names) > 1 else frozenset()

    def touching(self, names: frozenset[str]) -> tuple[PartPlan, ...]:
        return tuple(part for part in self.parts if names & set(part.services))


def compare_fleets(before: Plan, after: Plan, names: tuple[str, str]) -> PlanDifference:
    """Compare two plans service by service; where one found nothing, what was asked for.

    Parameters
    ----------
    before, after
        The earlier plan first; one of them may be of one service.
    names
        What to call them, such as their files.

    Raises
    ------
    RequestError
        If an older capplan wrote a fleet without the options of its parts.
    """
    if not (before.options and after.options):
        return _without_option(before, after, names)
    notes: list[str] = []
    one = _Side(before, named_parts(before, after, names, notes))
    two = _Side(after, named_parts(after, before, names[::-1], notes))
    groups = _connected((*one.parts, *two.parts))
    rows = [row for group in groups for row in _rows(group, one, two, notes)]
    return PlanDifference(
        before=names[0],
        after=names[1],
        option_before=_options(one.parts),
        option_after=_options(two.parts),
        usd_before=one.total_usd,
        usd_after=two.total_usd,
        usd_per_million_before=_usd_per_million(one.parts),
        usd_per_million_after=_usd_per_million(two.parts),
        parts=tuple(sorted(rows, key=lambda row: -abs(row.usd))),
        services=tuple(_change(group, one, two) for group in groups),
        settings=tuple(_settings(groups, one, two)),
        notes=tuple(dict.fromkeys(notes)),
    )


def _connected(parts: Sequence[PartPlan]) -> list[frozenset[str]]:
    """Return the services that share replicas before or after, directly or through others."""
    groups: list[frozenset[str]] = []
    for part in parts:
        names = frozenset(part.services)
        apart = [group for group in groups if not group & names]
        joined = names.union(*(group for group in groups if group & names))
        groups = [*apart, joined]
    return groups


def _rows(group: frozenset[str], one: _Side, two: _Side, notes: list[str]) -> Iterator[CostPart]:
    """Yield what each cause adds to the bill of connected services."""
    parts, others = one.touching(group), two.touching(group)
    left = _usd(others) - _usd(parts)
    for names in _compared(group, one, two):
        for row in _pair(one.alone(names), two.alone(names), notes):
            left -= row.usd
            yield row
    if left:
        yield CostPart(
            cause="placement",
            usd=left,
            before=_placement(parts),
            after=_placement(others),
            services=service_label(_in_order(group, one, two)),
        )


def _compared(group: frozenset[str], one: _Side, two: _Side) -> list[frozenset[str]]:
    """Return the services to compare: as they are placed where that is alike, else each alone."""
    placed, others = ([frozenset(p.services) for p in side.touching(group)] for side in (one, two))
    if set(placed) == set(others):
        return placed
    whole = (one.unsplit | two.unsplit) & group
    singles = [frozenset({name}) for name in _in_order(group, one, two) if name not in whole]
    return [*([whole] if whole else []), *singles]


def _in_order(group: frozenset[str], one: _Side, two: _Side) -> list[str]:
    """Return names as the plans list them."""
    listed = (name for side in (one, two) for part in side.parts for name in part.services)
    return [name for name in dict.fromkeys(listed) if name in group]


def _pair(first: PartPlan | None, second: PartPlan | None, notes: list[str]) -> Iterator[CostPart]:
    """Yield why the same services cost more or less; all of it where they came or went."""
    if first is not None and second is not None:
        said: list[str] = []
        yield from cost_parts(first.plan, second.plan, said, second.label)
        notes.extend(f"{second.label}: {note}" for note in said)
    elif second is not None:
        yield _whole(second, "service added", bill_usd(second.option), (_ABSENT, _runs(second)))
    else:
        assert first is not None, "a group is in one plan at least"
        yield _whole(first, "service removed", -bill_usd(first.option), (_runs(first), _ABSENT))


def _whole(part: PartPlan, cause: str, usd: Decimal, told: tuple[str, str]) -> CostPart:
    before, after = told
    return CostPart(cause=cause, usd=usd, before=before, after=after, services=part.label)


def _runs(part: PartPlan) -> str:
    option = part.option
    return f"{option.replicas} replica{'s' if option.replicas > 1 else ''} of {hardware(option)}"


def _usd(parts: Sequence[PartPlan]) -> Decimal:
    return sum((bill_usd(part.option) for part in parts), Decimal(0))


def _usd_per_million(parts: Sequence[PartPlan]) -> float:
    """Return all dollars over all tokens."""
    bills = [(bill_usd(part.option), part.option) for part in parts]
    millions = (float(usd) / option.usd_per_million_output_tokens.mid for usd, option in bills)
    return float(_usd(parts)) / sum(millions)


def _options(parts: Sequence[PartPlan]) -> str:
    return "; ".join(f"{part.label}: {part.option.id}" for part in parts)


def _placement(parts: Sequence[PartPlan]) -> str:
    return ", ".join(part.label for part in parts)


def _change(group: frozenset[str], one: _Side, two: _Side) -> ServicesChange:
    parts, others = one.touching(group), two.touching(group)
    return ServicesChange(
        services=service_label(_in_order(group, one, two)),
        before=_placement(parts),
        after=_placement(others),
        usd_before=_usd(parts),
        usd_after=_usd(others),
    )


def _settings(groups: Sequence[frozenset[str]], one: _Side, two: _Side) -> Iterator[Setting]:
    """Yield what is not the same of every service that is in both, then of the plans."""
    for names in (names for group in groups for names in _compared(group, one, two)):
        first, second = one.alone(names), two.alone(names)
        if first is not None and second is not None:
            yield from option_settings(first.option, second.option, second.label)
            yield from request_settings(first.plan.request, second.plan.request, second.label)
    yield from _of_plans(one.plan, two.plan)


def _of_plans(before: Plan, after: Plan) -> Iterator[Setting]:
    budgets = (
        plan.request.budget_usd_per_month
        if plan.fleet is None
        else plan.fleet.budget_usd_per_month
        for plan in (before, after)
    )
    yield from budget_settings(*budgets)
    yield from version_settings(before, after)


def _without_option(before: Plan, after: Plan, names: tuple[str, str]) -> PlanDifference:
    """Return what was asked for differently where a plan found nothing: no cause has dollars."""
    placed = [part_plans(plan) if plan.options else () for plan in (before, after)]
    asked, then = (requests_of_services(plan.request) for plan in (before, after))
    found = [
        setting
        for name in asked
        if name in then
        for setting in request_settings(asked[name], then[name], name)
    ]
    lacking = [name for name, parts in zip(names, placed, strict=True) if not parts]
    options = [_options(parts) if parts else None for parts in placed]
    bills = [_usd(parts) if parts else None for parts in placed]
    return PlanDifference(
        before=names[0],
        after=names[1],
        option_before=options[0],
        option_after=options[1],
        usd_before=bills[0],
        usd_after=bills[1],
        settings=(*found, *_of_plans(before, after)),
        notes=(f"no option to compare in {' and '.join(lacking)}",),
    )
