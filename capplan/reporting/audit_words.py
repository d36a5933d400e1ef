"""The audit of the guide in words: figures, verdicts, reasons, sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from capplan.schema.audit import AuditedClaim, ClaimVerdict, Finding
from capplan.schema.pairing import Claim

_FRACTIONS = ("rate", "gain", "saving", "loss", "acceptance")
_SECTIONS = {
    "introduction": "Title and introduction",
    "1": "Principle and formula",
    "2": "Choosing a draft",
    "3.1": "vLLM, first command",
    "3.2": "vLLM, parameters",
    "3.3": "vLLM, in Python",
    "4.1": "Measured on four A100",
    "4.2": "Speedup by task",
    "4.3": "Speedup by temperature",
    "5.1": "Adaptive length",
    "5.2": "EAGLE and Medusa",
    "5.3": "Several levels of drafts",
    "6": "Cost",
    "7": "Monitoring and troubleshooting",
    "8": "Checklist",
    "9": "Summary",
}
_STATEMENTS = ("offered_by_the_engine", "must_be_on")
"""Claims without a number, kept as 1."""
_FIGURES = {
    "num_speculative_tokens": "N",
    "best_num_speculative_tokens": "best N",
    "params_billion": "parameters",
    "target_to_draft_size": "target over draft",
    "decode_tokens_per_s": "decode speed",
    "ttft": "time to first token",
    "throughput_64_concurrent": "throughput at 64 requests",
    "usd_per_month": "bill a month",
    "usd_per_million_tokens": "price per million tokens",
    "threshold": "limit",
    "draft_share_of_target": "share of the target",
    "acceptance_threshold": "acceptance",
    "gpus": "hardware",
    "concurrent_requests": "load",
    "output_tokens": "answer",
    "levels": "depth",
    "offered_by_the_engine": "offered by vLLM",
    "least_share_of_target_context": "at least, of the target's context",
}
_GUIDE = "the guide's own figures"


def section_title(section: str) -> str:
    """Return number and subject of a section."""
    title = _SECTIONS.get(section, section)
    return title if section == "introduction" else f"{section} {title}"


def claimed_text(claim: Claim, value: float | None = None) -> str:
    """Return a claim's figure as the guide prints it: ``82 %``, ``3.1x``, ``$2.31``, ``1/3``."""
    number = claim.value if value is None else value
    shown = f"{number:,.4g}" if abs(number) < 1e4 else f"{number:,.0f}"
    if claim.unit == "1" and any(word in claim.figure for word in _FRACTIONS):
        return f"{number * 100:.3g} %"
    if claim.figure in _STATEMENTS and number == 1:
        return "yes"
    if claim.figure == "draft_share_of_target":
        return f"1/{1 / number:.0f}"
    if number == 1 and claim.unit.endswith("s"):
        return f"1 {claim.unit.removesuffix('s')}"
    whole = f"{number:.0f}"
    by_figure = {"year_proposed": whole, "num_speculative_tokens": shown}
    by_unit = {"x": f"{shown}x", "B": f"{shown}B", "USD": f"${shown}", "1": shown}
    return by_figure.get(claim.figure) or by_unit.get(claim.unit, f"{shown} {claim.unit}")


def recomputed_text(audited: AuditedClaim) -> str:
    """Return ``1.73x recomputed, +74 %``, or nothing where the same figure comes out."""
    recomputed, deviation = audited.recomputed, audited.deviation
    if recomputed is None:
        return ""
    shown = claimed_text(audited.claim, recomputed)
    if shown == claimed_text(audited.claim):
        return ""
    return f"{shown} recomputed" + (f", {deviation * 100:+.3g} %" if deviation else "")


def figure_of(claim: Claim) -> str:
    """Return what kind of figure a claim is, in words."""
    return _FIGURES.get(claim.figure, claim.figure.replace("_", " "))


def printed_text(audited: AuditedClaim) -> str:
    """Return figure, value and what is recomputed: ``speedup 3x (1.73x recomputed, +74 %)``."""
    claim, again = audited.claim, recomputed_text(audited)
    if claim.figure in _STATEMENTS:
        return figure_of(claim)
    return f"{figure_of(claim)} {claimed_text(claim)}" + (f" ({again})" if again else "")


def source_text(finding: Finding) -> str:
    """Return where the evidence of a finding stands."""
    if finding.source is None:
        return _GUIDE
    dated = f", {finding.source.date}" if finding.source.date else ""
    return f"{finding.source.reference}{dated}"


def counts_text(audited: Sequence[AuditedClaim]) -> str:
    """Return ``17 reproduced, 21 inconsistent ...`` in the order of the verdicts."""
    counts = Counter(item.verdict for item in audited)
    several = {ClaimVerdict.DOES_NOT_EXIST: "do not exist"}
    words = {v: several.get(v, v.value) if counts[v] > 1 else v.value for v in ClaimVerdict}
    return ", ".join(f"{counts[v]} {words[v]}" for v in ClaimVerdict if counts[v])


def by_section(
    audited: Iterable[AuditedClaim],
) -> tuple[tuple[str, tuple[AuditedClaim, ...]], ...]:
    """Group claims by section, in the guide's order."""
    grouped: dict[str, list[AuditedClaim]] = {}
    for item in audited:
        grouped.setdefault(item.claim.section, []).append(item)
    order = list(_SECTIONS)
    ranked = sorted(grouped, key=lambda name: order.index(name) if name in order else len(order))
    return tuple((section, tuple(grouped[section])) for section in ranked)


@dataclass(frozen=True)
class Group:
    """Figures of one section with one verdict for one reason."""

    items: tuple[AuditedClaim, ...]

    @property
    def finding(self) -> Finding:
        """What gives the verdict to all of them."""
        return self.items[0].findings[0]

    @property
    def figures(self) -> str:
        """The figures as the guide prints them, by subject."""
        by_subject: dict[str, list[str]] = {}
        for item in self.items:
            by_subject.setdefault(item.claim.subject, []).append(printed_text(item))
        told, before = [], ""
        for subject, printed in by_subject.items():
            told.append(f"{_unlike(subject, before)}: {', '.join(printed)}")
            before = subject
        return "; ".join(told)

    @property
    def others(self) -> tuple[str, ...]:
        """What was also found of some of the figures."""
        by_finding: dict[tuple[str, str], list[str]] = {}
        for item in self.items:
            name = f"{figure_of(item.claim)} {claimed_text(item.claim)}"
            for finding in item.findings[1:]:
                by_finding.setdefault((finding.verdict.value, finding.reason), []).append(name)
        return tuple(
            f"{', '.join(names)}: also {verdict}: {reason}"
            if len(names) < len(self.items)
            else f"Also {verdict}: {reason}"
            for (verdict, reason), names in by_finding.items()
        )


def _unlike(subject: str, before: str) -> str:
    """Return a subject without the parts, between commas, that the one before began with."""
    parts, others = subject.split(", "), before.split(", ")
    same = 0
    while same < min(len(parts) - 1, len(others)) and parts[same] == others[same]:
        same += 1
    return ", ".join(parts[same:])


def grouped(items: Iterable[AuditedClaim]) -> tuple[Group, ...]:
    """Group the figures of a section by the finding that gives their verdict."""
    by_finding: dict[tuple[ClaimVerdict, str], list[AuditedClaim]] = {}
    for item in items:
        by_finding.setdefault((item.verdict, item.findings[0].reason), []).append(item)
    return tuple(Group(tuple(found)) for found in by_finding.values())
