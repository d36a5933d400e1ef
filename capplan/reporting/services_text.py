"""Several services as text: what each way to place them costs, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capplan.reporting import formatting as fmt
from capplan.schema.fleet import FleetWay, ServiceFleet, ServicePart

CENT = 0.005
HEADS = {
    "apart": "Apart, each on replicas of its own",
    "shared": "Shared, all of one LLM on the same replicas",
    "grouped": "In groups",
}


def services_lines(fleet: ServiceFleet | None) -> Iterator[str]:
    """Yield the section; nothing for a plan of one service."""
    if fleet is None:
        return
    yield f"Services, {fmt.usd(fleet.budget_usd_per_month)} USD a month for all of them:"
    for place, way in enumerate(fleet.ways):
        yield _way(way, cheapest=place == 0 and len(fleet.ways) > 1)
        yield from (line for part in way.parts for line in _part(part))
    yield from _why(fleet)
    for one in fleet.unplaced:
        yield f"  Not {'together' if len(one.services) > 1 else 'at all'}: "
        yield f"    {' + '.join(one.services)}: {one.why}"
    yield from (f"  Note: {note}" for note in fleet.notes)


def launches_of_parts(fleet: ServiceFleet | None) -> list[ServicePart]:
    """Return the parts that each have a text to start them; none where one text starts all."""
    parts = fleet.parts if fleet is not None else ()
    return [part for part in parts if part.launch] if len(parts) > 1 else []


def _way(way: FleetWay, *, cheapest: bool) -> str:
    mark = ", the cheapest" if cheapest else ""
    above = "" if way.within_budget else ", above the budget"
    return f"  {HEADS[way.sharing]}: {fmt.usd_interval(way.usd_per_month)} a month{mark}{above}"


def draft_text(part: ServicePart) -> str:
    """Return the draft and its length."""
    if not part.num_speculative_tokens:
        return "no speculation"
    name = (part.draft or part.method.value).rsplit("/", 1)[-1]
    return f"{name} N = {part.num_speculative_tokens}"


def with_limit(ms: float, limit_ms: float | None) -> str:
    """Return a time, and the limit that it keeps."""
    limit = "" if limit_ms is None else f" (limit {limit_ms:g})"
    return f"{fmt.number(ms)} ms{limit}"


def _part(part: ServicePart) -> Sequence[str]:
    replicas = f"{part.replicas} replica{'s' if part.replicas > 1 else ''}"
    return (
        f"    {part.label}: {part.target.rsplit('/', 1)[-1]} with {draft_text(part)}, "
        f"{replicas} of {part.tensor_parallel} x {part.gpu_name}, {part.provider}",
        f"      {fmt.usd_interval(part.usd_per_month)} a month, "
        f"{fmt.usd(part.usd_per_month_unused)} of it unused (whole replicas and nodes);",
        f"      {fmt.usd_interval(part.usd_per_million_output_tokens)} per million output tokens; "
        f"TPOT {with_limit(part.tpot_ms.mid, part.slo.tpot_ms)}, "
        f"TTFT {with_limit(part.ttft_ms.mid, part.slo.ttft_ms)}",
    )


def _why(fleet: ServiceFleet) -> Iterator[str]:
    if not fleet.causes:
        return
    difference = sum(cause.usd_per_month for cause in fleet.causes)
    if abs(difference) < CENT:
        yield "  Shared costs as much as apart, for reasons that cancel out:"
    else:
        more = "more" if difference > 0 else "less"
        yield f"  Why shared costs {fmt.usd(abs(difference))} USD {more} than apart:"
    for cause in fleet.causes:
        sign = "+" if cause.usd_per_month > 0 else "-"
        usd = f"{sign}{fmt.usd(abs(cause.usd_per_month))}"
        yield f"  {usd:>10}  {cause.cause}: {cause.said}"
