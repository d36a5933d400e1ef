"""Services by target, their limits together, and every way to split a group of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from capplan.errors import RequestError
from capplan.estimate.traffic import mean_requests_per_s
from capplan.schema.plan import PlanRequest
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo

MOST_GROUPED = 4
"""Services of one target of which every grouping is tried: 15 searches for four."""

Group = tuple[NamedWorkload, ...]
"""Services that may share replicas."""


def groups_by_target(request: PlanRequest) -> list[Group]:
    """Return the services of each target; what they leave open is the request's.

    Raises
    ------
    RequestError
        If a service has no rate.
    """
    groups: dict[str, list[NamedWorkload]] = {}
    for one in completed_services(request):
        if mean_requests_per_s(one.workload, float(request.hours_per_month)) is None:
            raise RequestError(
                f"Service {one.name!r} has no rate, so its part of the fleet is not known.",
                "Give it requests_per_s or output_tokens_per_month.",
            )
        groups.setdefault(one.target or "", []).append(one)
    return [tuple(group) for group in groups.values()]


def completed_services(request: PlanRequest) -> Group:
    """Return the services with the request's target and limits where they state none."""
    return tuple(
        one.model_copy(
            update={"target": one.target or request.targets[0], "slo": _own_slo(one, request)}
        )
        for one in request.services
    )


def of_one_service(request: PlanRequest) -> PlanRequest:
    """Return the plain request of the only service."""
    (one,) = request.services
    changes: dict[str, object] = {
        "workload": one.workload,
        "slo": _own_slo(one, request),
        "services": (),
    }
    if one.target is not None:
        changes["targets"] = (one.target,)
    return request.model_copy(update=changes)


def _own_slo(one: NamedWorkload, request: PlanRequest) -> Slo:
    """Return the limits of a service; those that it leaves open are the request's."""
    stated = one.slo.model_dump(exclude_none=True)
    return request.slo.model_copy(update=stated)


def combined_slo(
    services: Group, choose: Callable[[Sequence[float]], float], *, all_state_it: bool
) -> Slo:
    """Return one limit of each kind.

    Parameters
    ----------
    choose
        ``min`` for the strictest, ``max`` for the loosest.
    all_state_it
        Whether there is a limit only where every service states one.
    """
    limits: dict[str, float | None] = {}
    for name in ("tpot_ms", "ttft_ms"):
        stated = [getattr(one.slo, name) for one in services]
        known = [limit for limit in stated if limit is not None]
        lacking = all_state_it and len(known) < len(stated)
        limits[name] = choose(known) if known and not lacking else None
    return Slo(**limits)


def partitions(group: Group) -> Iterator[list[Group]]:
    """Yield every way to split a group: the first service alone or with some of the others."""
    if not group:
        yield []
        return
    first, others = group[0], group[1:]
    for size in range(len(others) + 1):
        for joined in combinations(others, size):
            left = tuple(one for one in others if one not in joined)
            yield from ([(first, *joined), *rest] for rest in partitions(left))


def notes_on_groups(groups: Sequence[Group]) -> Iterator[str]:
    """Yield what cannot be shared, and what was not tried."""
    if all(len(group) == 1 for group in groups):
        yield "every service has an LLM of its own, so no replica can be shared"
    for group in groups:
        if len(group) > MOST_GROUPED:
            yield (
                f"{len(group)} services ask for {group[0].target}: groupings other than all apart "
                f"and all together are tried for up to {MOST_GROUPED}"
            )
