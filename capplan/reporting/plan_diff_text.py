"""Differences of plans: the bill cause by cause, and service by service if there are several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from capplan.reporting.diff_page import DiffPage, Row
from capplan.reporting.diff_words import gate_words, write_notes, write_settings
from capplan.reporting.formatting import cents
from capplan.schema.difference import CostPart, PlanDifference, ServicesChange

MOST_CAUSES = 16
"""Causes of several services that are written out, largest first; the rest stand in the JSON."""


def dollars(value: Decimal) -> str:
    """Return a signed exact amount to the cent."""
    text = cents(value)
    return text if text.startswith("-") else f"+{text}"


def write_plans(found: PlanDifference, page: DiffPage) -> None:
    """Write a difference of plans to any kind of page."""
    page.heading(f"{found.before} -> {found.after}")
    for line in _headline(found):
        page.say(line)
    if found.gate is not None:
        page.say(gate_words(found.gate))
    if found.parts:
        page.heading("Why, in USD a month")
        _causes(found, page)
    if found.services:
        page.heading("By service, USD a month")
        page.table(
            ("services", "before", "after", "USD", "placed before", "placed after"),
            [*map(_service, found.services), _all_services(found.services)],
        )
    write_settings(found.settings, page)
    write_notes(found.notes, page)


def _headline(found: PlanDifference) -> Iterator[str]:
    if found.usd_before is None or found.usd_after is None:
        return
    change = found.usd_after - found.usd_before
    share = float(found.usd_after / found.usd_before) - 1
    yield (
        f"{cents(found.usd_before)} -> {cents(found.usd_after)} USD a month: "
        f"{dollars(change)} USD ({share * 100:+.1f} %)."
    )
    if found.usd_per_million_before is not None and found.usd_per_million_after is not None:
        yield (
            f"{found.usd_per_million_before:.4g} -> {found.usd_per_million_after:.4g} USD a "
            "million output tokens."
        )
    if found.option_before != found.option_after and not found.services:
        yield f"Option: {found.option_before} -> {found.option_after}"


def _causes(found: PlanDifference, page: DiffPage) -> None:
    """Write the causes; of several services each says whose it is, and small ones are summed."""
    if not found.services:
        rows = [*map(_part, found.parts), ("together", _sum(found.parts), "", "")]
        page.table(("cause", "USD", "before", "after"), rows)
        return
    shown, small = found.parts[:MOST_CAUSES], found.parts[MOST_CAUSES:]
    rows = [(part.services, *_part(part)) for part in shown]
    if small:
        rows.append(("", f"{len(small)} smaller causes", _sum(small), "", ""))
    rows.append(("", "together", _sum(found.parts), "", ""))
    page.table(("services", "cause", "USD", "before", "after"), rows)


def _part(part: CostPart) -> Row:
    return part.cause, dollars(part.usd), part.before, part.after


def _sum(parts: Sequence[CostPart]) -> str:
    return dollars(sum((part.usd for part in parts), Decimal(0)))


def _service(row: ServicesChange) -> Row:
    usd = (cents(row.usd_before), cents(row.usd_after), dollars(row.usd_after - row.usd_before))
    return row.services, *usd, row.before or "-", row.after or "-"


def _all_services(rows: Sequence[ServicesChange]) -> Row:
    before, after = (
        sum((getattr(row, name) for row in rows), Decimal(0))
        for name in ("usd_before", "usd_after")
    )
    return "together", cents(before), cents(after), dollars(after - before), "", ""
