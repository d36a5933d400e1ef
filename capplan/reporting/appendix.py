"""The appendix on the guide: its checklist applied here, and its figures audited."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from capplan.reporting.audit_text import (
    by_section,
    claimed_text,
    counts_text,
    figure_name,
    reason_text,
    recomputed_text,
    section_title,
    source_text,
)
from capplan.schema.audit import AuditedClaim, GuidePoint, GuideTopic, PointState
from capplan.schema.plan import Plan

_WIDTH = 100
_STYLES = {
    PointState.KEPT: "measured",
    PointState.NOT_KEPT: "assumed",
    PointState.APPLIES: "assumed",
}

_LOUD = (PointState.NOT_KEPT, PointState.APPLIES)
_QUIET = ("v2-block-manager",)
"""True of every plan: left to the page."""


@dataclass(frozen=True)
class PointView:
    """One point of the guide, in words."""

    rule: str
    state: str
    style: str
    says: str


@dataclass(frozen=True)
class ClaimView:
    """One audited figure, in words."""

    figure: str
    claimed: str
    verdict: str
    style: str
    recomputed: str
    reason: str
    source: str


@dataclass(frozen=True)
class SectionView:
    """The figures of one section of the guide."""

    title: str
    claims: tuple[ClaimView, ...]


@dataclass(frozen=True)
class Appendix:
    """What the page says of the guide."""

    checklist: tuple[PointView, ...]
    troubleshooting: tuple[PointView, ...]
    summary: str
    sections: tuple[SectionView, ...]
    counts: str
    claims: int


def build_appendix(plan: Plan, audit: Sequence[AuditedClaim]) -> Appendix:
    """Return the appendix in words; empty parts are left out by the page."""
    points = plan.guide_checklist
    return Appendix(
        checklist=_points(points, GuideTopic.CHECKLIST),
        troubleshooting=_points(points, GuideTopic.TROUBLESHOOTING),
        summary=summary_of(points),
        sections=tuple(
            SectionView(section_title(section), tuple(_claim(item) for item in items))
            for section, items in by_section(audit)
        ),
        counts=counts_text(audit),
        claims=len(audit),
    )


def _points(points: Sequence[GuidePoint], topic: GuideTopic) -> tuple[PointView, ...]:
    return tuple(
        PointView(point.rule, point.state.value, _STYLES.get(point.state, ""), point.says)
        for point in points
        if point.topic is topic
    )


def _claim(item: AuditedClaim) -> ClaimView:
    first = item.findings[0]
    verdict = item.verdict.value
    style = {"reproduced": "measured", "cannot be checked": ""}.get(verdict, "assumed")
    return ClaimView(
        figure=figure_name(item.claim),
        claimed=claimed_text(item.claim),
        verdict=verdict,
        style=style,
        recomputed=recomputed_text(item),
        reason=reason_text(item),
        source=source_text(first),
    )


def summary_of(points: Sequence[GuidePoint]) -> str:
    """Return ``4 of its 10 points kept, 3 not, 3 do not apply``."""
    states = Counter(p.state for p in points if p.topic is GuideTopic.CHECKLIST)
    total = sum(states.values())
    return (
        f"{states[PointState.KEPT]} of its {total} points kept, "
        f"{states[PointState.NOT_KEPT]} not, {states[PointState.DOES_NOT_APPLY]} do not apply"
    )


def lines_of(points: Sequence[GuidePoint]) -> list[str]:
    """Return the points that say something here, for a terminal; nothing for no points."""
    if not points:
        return []
    shown = [p for p in points if p.state in _LOUD and p.id not in _QUIET]
    heading = f"A popular guide's checklist: {summary_of(points)} (its figures: capplan claims)"
    lines = _wrapped(heading, "")
    for point in shown:
        lines += _wrapped(f"- {point.state.value}: {point.rule}. {point.says}", "  ")
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=_WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
