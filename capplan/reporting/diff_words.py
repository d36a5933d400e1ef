"""Words that differences of profiles and of plans share: intervals, the gate, what differs."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.reporting.diff_page import DiffPage
from capplan.schema.difference import Gate, Interval, Setting

TELLS_NOTHING = 10.0
"""A relative interval that reaches elevenfold comes from one or two points."""


def signed_interval(value: Interval, spec: str) -> str:
    """Return ``+0.12 (+0.03 to +0.21)``."""
    low, mid, high = (f"{end:+{spec}}" for end in (value.low, value.mid, value.high))
    return f"{mid} ({low} to {high})"


def signed_percent(value: Interval) -> str:
    """Return ``+3.1 % (+1.2 to +5.0)``; an interval that tells nothing is not spelt out."""
    low, mid, high = (f"{100 * end:+.1f}" for end in (value.low, value.mid, value.high))
    if value.high > TELLS_NOTHING:
        return f"{mid} % (too few points to tell)"
    return f"{mid} % ({low} to {high})"


def gate_words(gate: Gate) -> str:
    """Return whether something became worse by more than was allowed."""
    verdict = "FAILED" if gate.failed else "passed"
    worse = "" if gate.worsening is None else f" worsened by {signed_percent(gate.worsening)},"
    return f"{verdict}: {gate.figure}{worse} allowed {gate.allowed * 100:g} % ({gate.rule})."


def write_settings(rows: Sequence[Setting], page: DiffPage) -> None:
    """Write what was not the same, without being measured."""
    if not rows:
        return
    page.heading("Not the same")
    page.table(
        ("", "what", "before", "after"),
        [(row.group, row.name, row.before or "-", row.after or "-") for row in rows],
    )


def write_notes(notes: Sequence[str], page: DiffPage) -> None:
    """Write what to know of a difference."""
    for note in notes:
        page.say(f"Note: {note}.")
