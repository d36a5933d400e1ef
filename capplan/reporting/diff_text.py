"""Differences of profiles and plans as text, and as markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.reporting.diff_page import DiffPage, Row, TextPage
from capplan.reporting.diff_words import (
    gate_words,
    signed_interval,
    signed_percent,
    write_notes,
    write_settings,
)
from capplan.reporting.formatting import factor_interval, number_interval
from capplan.reporting.plan_diff_text import write_plans
from capplan.schema.difference import (
    Change,
    PlanCheck,
    PlanDifference,
    ProfileDifference,
    Quality,
    RangeTable,
    Reported,
)
from capplan.units import BYTES_PER_GB, MS_PER_S

MOST_UNCHANGED = 12
"""Unchanged rows written out; the rest are counted and stand in the JSON."""
_TITLES = {
    Quality.SPEEDUP: "Speedup",
    Quality.TOKENS_PER_ROUND: "Tokens a round",
    Quality.STEP_TIME: "Step time",
}


def render_diff(found: ProfileDifference | PlanDifference, *, markdown: bool = False) -> str:
    """Return a difference as text for a terminal, or as markdown for a comment."""
    page = TextPage(markdown=markdown)
    write_diff(found, page)
    return page.text()


def write_diff(found: ProfileDifference | PlanDifference, page: DiffPage) -> None:
    """Write a difference to any kind of page."""
    if isinstance(found, ProfileDifference):
        _profiles(found, page)
    else:
        write_plans(found, page)


def _profiles(found: ProfileDifference, page: DiffPage) -> None:
    page.heading(f"{found.before} -> {found.after}")
    changed = [row for row in found.changes if row.changed]
    page.say(
        f"{len(changed)} of {len(found.changes)} compared figures changed (intervals hold for all "
        "of them together, 95 %)."
    )
    if found.gate is not None:
        page.say(gate_words(found.gate))
    if found.plan is not None:
        _check(found.plan, page)
    for quality in Quality:
        _changes([row for row in found.changes if row.quality is quality], quality, page)
    if any(found.losslessness):
        before, after = (verdict or "not checked" for verdict in found.losslessness)
        page.heading("Text unchanged by speculation")
        page.say(f"{before} -> {after}")
    _reported(found.reported, page)
    write_settings(found.settings, page)
    for table in found.ranges:
        _range(table, page)
    write_notes(found.notes, page)


def _changes(rows: Sequence[Change], quality: Quality, page: DiffPage) -> None:
    if not rows:
        return
    changed = [row for row in rows if row.changed]
    same = [row for row in rows if not row.changed]
    page.heading(f"{_TITLES[quality]}: {len(changed)} of {len(rows)} changed")
    shown = [*changed, *same[:MOST_UNCHANGED]]
    page.table(("what", "before", "after", "change", ""), [_change(row) for row in shown])
    if len(same) > MOST_UNCHANGED:
        page.say(f"  and {len(same) - MOST_UNCHANGED} more without a change")


def _change(row: Change) -> Row:
    n = f", N={row.num_speculative_tokens}" if row.num_speculative_tokens else ""
    before, after = (_figure(row.quality, value) for value in (row.before, row.after))
    if row.relative is None:
        return f"{row.label}{n}", before, after, "no interval", ""
    told = "changed" if row.changed else "no change shown"
    paired = ", same requests" if row.paired else ""
    return f"{row.label}{n}", before, after, signed_percent(row.relative), told + paired


def _figure(quality: Quality, value: float) -> str:
    if quality is Quality.STEP_TIME:
        return f"{value * MS_PER_S:.3g} ms"
    return f"{value:.2f}x" if quality is Quality.SPEEDUP else f"{value:.3f}"


def _reported(rows: Sequence[Reported], page: DiffPage) -> None:
    if not rows:
        return
    page.heading("Memory, as reported (exact, without an interval)")
    page.table(
        ("what", "before", "after", "change"),
        [
            (
                row.name,
                _amount(row, row.before),
                _amount(row, row.after),
                "" if row.relative is None else f"{row.relative * 100:+.1f} %",
            )
            for row in rows
        ],
    )


def _amount(row: Reported, value: float) -> str:
    if row.unit == "bytes" and value >= BYTES_PER_GB / 100:
        return f"{value / BYTES_PER_GB:.2f} GB"
    return f"{value:,.0f} {row.unit}"


def _check(check: PlanCheck, page: DiffPage) -> None:
    page.heading(f"The plan {check.standing.value}")
    page.say(check.sentence)
    if not check.decided and check.speedup_now is not None:
        page.say(
            f"Not decided: the interval of the speedup holds 1 "
            f"({factor_interval(check.speedup_now)})."
        )


def range_lines(table: RangeTable) -> list[str]:
    """Return a table by context or hour as lines of text."""
    page = TextPage(markdown=False)
    _range(table, page)
    return page.lines


def _range(table: RangeTable, page: DiffPage) -> None:
    at = "" if table.temperature is None else f", temperature {table.temperature:g}"
    page.heading(f"Tokens a round by {table.by}{at}, profile {table.profile}")
    if table.rows:
        page.table(
            (table.by, "tokens a round", "N", "rounds", "requests or windows"),
            [
                (
                    row.label,
                    number_interval(row.tokens_per_round),
                    str(row.num_speculative_tokens or "-"),
                    f"{row.rounds:,.0f}",
                    str(row.samples),
                )
                for row in table.rows
            ],
        )
    if table.trend is not None:
        trend = table.trend
        told = "it falls" if trend.declines else "no fall is shown"
        same = ", at the same context" if trend.at_same_context else ""
        page.say(
            f"Trend: {signed_interval(trend.per_hour, '.4f')} tokens a round an hour, "
            f"{trend.label}{same}: {told}."
        )
    write_notes(table.notes, page)
