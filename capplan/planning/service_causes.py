"""Why shared replicas cost more or less than replicas of one's own, in dollars that add up.

::

    shared - apart = rounding + limits + peaks + mix

    rounding   what whole replicas and nodes add to shared parts, less what they add apart
    limits     what the stricter limits cost shared, less what they cost the services apart
    peaks      what the peak of the sum saves on the sum of the peaks
    mix        the rest: requests of all lengths and texts in the same batches

Only rounding looks at whole replicas; the others compare the least that parts of replicas and
nodes could cost, so that a choice among equal bills moves none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from capplan.planning.service_fleet import Names, PlacedFleet, PlacedServices, Way
from capplan.schema.fleet import SharingCause
from capplan.schema.services import NamedWorkload

_CENT = 0.005


def sharing_causes(found: PlacedFleet) -> tuple[SharingCause, ...]:
    """Return the causes, largest first; none unless both ways serve every service."""
    apart, shared = found.ways.get("apart"), found.ways.get("shared")
    if apart is None or shared is None:
        return ()
    causes: dict[str, float] = {}
    for part in shared:
        own = _members(part, apart)
        if len(own) > 1:
            for name, usd in _of_part(part, own, found.loosest):
                causes[name] = causes.get(name, 0.0) + usd
    told = _told(shared, apart)
    listed = [
        SharingCause.model_validate({"cause": name, "usd_per_month": usd, "said": told[name]})
        for name, usd in causes.items()
        if abs(usd) > _CENT
    ]
    return tuple(sorted(listed, key=lambda one: -abs(one.usd_per_month)))


def _members(part: PlacedServices, apart: Way) -> Way:
    return tuple(one for one in apart if one.names <= part.names)


def _of_part(
    part: PlacedServices, own: Way, loosest: Mapping[Names, PlacedServices]
) -> Iterator[tuple[str, float]]:
    """Yield the causes of one part that several services share."""
    loose, alone = loosest[part.names].unrounded_usd, _least(loosest[one.names] for one in own)
    yield "whole replicas and nodes", unused_usd(part) - sum(map(unused_usd, own))
    yield "strictest limits", (part.unrounded_usd - loose) - (_least(own) - alone)
    ratio = 1.0
    if any(one.workload.arrival is not None for one in part.services):
        ratio = sum(one.sized_tokens_per_s for one in own) / part.sized_tokens_per_s
    yield "peaks at other hours", loose * (1.0 - ratio)
    yield "mix of requests", loose * ratio - alone


def _least(parts: Iterable[PlacedServices]) -> float:
    return sum(part.unrounded_usd for part in parts)


def unused_usd(part: PlacedServices) -> float:
    """Return what whole replicas and whole nodes add to the bill."""
    return part.usd_per_month - part.unrounded_usd


def _told(shared: Way, apart: Way) -> dict[str, str]:
    spare = [sum(map(unused_usd, way)) for way in (apart, shared)]
    peaks = [sum(part.sized_tokens_per_s for part in way) for way in (apart, shared)]
    together = [part.services for part in shared if len(part.services) > 1]
    return {
        "whole replicas and nodes": (
            f"apart they leave {spare[0]:,.0f} USD unused, shared {spare[1]:,.0f}"
        ),
        "strictest limits": "; ".join(_strict(part) for part in shared if len(part.services) > 1),
        "peaks at other hours": (
            f"peaks of {peaks[0]:,.0f} output tokens/s one by one, {peaks[1]:,.0f} together"
        ),
        "mix of requests": "prompt + output tokens in one batch: "
        + "; ".join(", ".join(map(_lengths, group)) for group in together),
    }


def _lengths(one: NamedWorkload) -> str:
    load = one.workload
    return f"{one.name} {load.prompt_tokens:,} + {load.output_tokens:,}"


def _strict(part: PlacedServices) -> str:
    """Say which limits every request gets, and for whose sake."""
    said = []
    for name, label in (("tpot_ms", "TPOT"), ("ttft_ms", "TTFT")):
        limit = getattr(part.request.slo, name)
        if limit is not None:
            whose = [one.name for one in part.services if getattr(one.slo, name) == limit]
            said.append(f"{label} {limit:g} ms ({', '.join(whose)})")
    return f"every request is served within {' and '.join(said)}" if said else "no limits"
