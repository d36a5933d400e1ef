"""The appendix on the guide: its checklist applied here, and its figures audited."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from capplan.reporting.audit_words import (
    Group,
    by_section,
    counts_text,
    grouped,
    section_title,
)
from capplan.schema.audit import AuditedClaim, GuidePoint, GuideTopic, PointState
from capplan.schema.plan import Plan

_WIDTH = 100
_STYLES = {
    PointState.KEPT: "measured",
    PointState.NOT_KEPT: "assumed",
    PointState.APPLIES: "assumed",
}


@dataclass(frozen=True)
class PointView:
    """One point of the guide, in words."""

    rule: str
    state: str
    style: str
    says: str


@dataclass(frozen=True)
class ClaimView:
    """Figures with one verdict for one reason, in words."""

    figures: str
    verdict: str
    style: str
    reason: str


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
        checklist=point_views(points, GuideTopic.CHECKLIST),
        troubleshooting=point_views(points, GuideTopic.TROUBLESHOOTING),
        summary=summary_of(points),
        sections=tuple(
            SectionView(section_title(section), tuple(_claim(group) for group in grouped(items)))
            for section, items in by_section(audit)
        ),
        counts=counts_text(audit),
        claims=len(audit),
    )


def point_views(points: Sequence[GuidePoint], topic: GuideTopic) -> tuple[PointView, ...]:
    """Return the points of one topic in words."""
    return tuple(
        PointView(point.rule, point.state.value, _STYLES.get(point.state, ""), point.says)
        for point in points
        if point.topic is topic
    )


def _claim(group: Group) -> ClaimView:
    verdict = group.finding.verdict.value
    style = {"reproduced": "measured", "cannot be checked": ""}.get(verdict, "assumed")
    return ClaimView(group.figures, verdict, style, group.finding.reason)


def summary_of(points: Sequence[GuidePoint]) -> str:
    """Return ``4 of its 10 points kept, 3 not, 3 do not apply``."""
    states = Counter(p.state for p in points if p.topic is GuideTopic.CHECKLIST)
    return (
        f"{states[PointState.KEPT]} of its {sum(states.values())} points kept, "
        f"{states[PointState.NOT_KEPT]} not, {states[PointState.DOES_NOT_APPLY]} do not apply"
    )


def short_lines(points: Sequence[GuidePoint]) -> list[str]:
    """Return the counts and the rules not kept in three lines at most; nothing for no points."""
    if not points:
        return []
    not_kept = [p.rule for p in points if p.state is PointState.NOT_KEPT]
    text = f"A popular guide's checklist (why: capplan claims --on FILE): {summary_of(points)}"
    text += f". Not kept: {'; '.join(not_kept)}." if not_kept else "."
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", max_lines=3, placeholder=" ...")


def render_points(points: Sequence[GuidePoint], fmt: str) -> str:
    """Return every point with its sentence as ``table`` or ``json``; ends with a newline."""
    if fmt == "json":
        content = {"points": [point.model_dump(mode="json") for point in points]}
        return f"{json.dumps(content, indent=2, ensure_ascii=False)}\n"
    lines = [f"A popular guide's checklist: {summary_of(points)} (its figures: capplan claims)"]
    for topic in GuideTopic:
        lines += ["", f"{topic.value.capitalize()}:"]
        for point in points:
            if point.topic is topic:
                lines += _wrapped(f"- {point.state.value}: {point.rule}. {point.says}", "  ")
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=_WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
