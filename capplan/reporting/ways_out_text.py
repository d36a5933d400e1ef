"""What would make a plan feasible, as text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from capplan.reporting import formatting as fmt
from capplan.schema.answers import PlanAnswers, WayOut

_LABELS = {
    "budget": "budget",
    "tpot": "TPOT limit",
    "ttft": "TTFT limit",
    "load": "load",
    "limits": "limits",
}


def ways_out_lines(found: PlanAnswers) -> Iterator[str]:
    """Yield each change that makes a plan of one that found nothing."""
    if not found.ways_out:
        yield "No budget, limit or share of the load that was tried makes the plan feasible."
        return
    owners = max(len(way.services) for way in found.ways_out)
    if owners:
        yield "What each service needs, one of its lines:"
    else:
        yield "What would make it feasible, each change alone:"
    heads = f"{'asked':>12}{'needed':>12}  {'':<12}{'USD a month':>12}  TPOT ms  option"
    yield f"  {'':<{owners + bool(owners)}}{'':<12}{heads}"
    for way in found.ways_out:
        above = "*" if way.usd_per_month > max(found.budget_usd_per_month, _budget(way)) else ""
        usd = fmt.usd(way.usd_per_month) + above
        yield (
            f"  {_owner(way, owners)}{_LABELS[way.what]:<12}"
            f"{_value(way, way.asked):>12}{_value(way, way.needed):>12}  "
            f"{_unit(way):<12}{usd:>12}  {way.tpot_ms:>7.2f}  {way.choice}"
        )
        if above:
            yield "  * above the budget"


def _owner(way: WayOut, width: int) -> str:
    return f"{way.services:<{width}} " if width else ""


def _budget(way: WayOut) -> float:
    return way.needed if way.what == "budget" and way.needed is not None else 0.0


def _value(way: WayOut, value: float | None) -> str:
    if value is None:
        return "as asked" if way.needed is not None else "none"
    if way.what == "load":
        return fmt.percent(value)
    if way.what == "budget":
        # up to a whole dollar: a rounded budget must not be too small
        return f"{math.ceil(value):,}"
    return f"{value:,g}"


def _unit(way: WayOut) -> str:
    return "" if way.what == "limits" else way.unit
