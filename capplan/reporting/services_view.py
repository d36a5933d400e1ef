"""Several services on the page: what each way to place them costs, and why."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.reporting import formatting as fmt
from capplan.reporting.services_text import CENT, HEADS, draft_text, with_limit
from capplan.reporting.tables import Section, Table
from capplan.schema.fleet import FleetWay, ServiceFleet, ServicePart

_HEAD = (
    *("Services", "Served by", "Replicas", "USD a month", "of it unused", "USD a million"),
    *("TPOT", "TTFT"),
)


def services_section(fleet: ServiceFleet | None) -> Section | None:
    """Return the section; None for a plan of one service."""
    if fleet is None:
        return None
    several = len(fleet.ways) > 1
    tables = [_way(way, cheapest=several and not i) for i, way in enumerate(fleet.ways)]
    if fleet.causes:
        tables.append(_why(fleet))
    return Section(
        "services",
        "Several services, apart and together",
        tuple(_said(fleet)),
        (),
        tuple(tables),
    )


def _said(fleet: ServiceFleet) -> Iterator[str]:
    yield f"{fmt.usd(fleet.budget_usd_per_month)} USD a month are there for all of them."
    for one in fleet.unplaced:
        yield f"Not {'together' if len(one.services) > 1 else 'at all'}: " + (
            f"{' + '.join(one.services)}: {one.why}"
        )
    yield from (f"{note[:1].upper()}{note[1:]}." for note in fleet.notes)


def _way(way: FleetWay, *, cheapest: bool) -> Table:
    mark = ", the cheapest" if cheapest else ""
    above = "" if way.within_budget else ", above the budget"
    label = f"{HEADS[way.sharing]}: {fmt.usd_interval(way.usd_per_month)} a month{mark}{above}"
    return Table(label, _HEAD, tuple(map(_row, way.parts)), words=3, two_lines=True)


def _row(part: ServicePart) -> tuple[str, ...]:
    return (
        part.label,
        f"{part.target.rsplit('/', 1)[-1]} with "
        + draft_text(part).replace(" = ", "\u00a0=\u00a0"),
        f"{part.replicas} of {part.tensor_parallel} x {part.gpu_name}, {part.provider}",
        _interval(fmt.usd_interval(part.usd_per_month)),
        fmt.usd(part.usd_per_month_unused),
        _interval(fmt.usd_interval(part.usd_per_million_output_tokens)),
        with_limit(part.tpot_ms.mid, part.slo.tpot_ms),
        with_limit(part.ttft_ms.mid, part.slo.ttft_ms),
    )


def _interval(told: str) -> str:
    return told.replace(" USD", "")


def _why(fleet: ServiceFleet) -> Table:
    difference = sum(cause.usd_per_month for cause in fleet.causes)
    label = "Shared costs as much as apart, for reasons that cancel out"
    if abs(difference) >= CENT:
        more = "more" if difference > 0 else "less"
        label = f"Why shared costs {fmt.usd(abs(difference))} USD {more} than apart"
    rows = [
        (
            cause.cause,
            cause.said,
            f"{'+' if cause.usd_per_month > 0 else '-'}{fmt.usd(abs(cause.usd_per_month))}",
        )
        for cause in fleet.causes
    ]
    return Table(label, ("Cause", "Here", "USD a month"), tuple(rows), words=2)
