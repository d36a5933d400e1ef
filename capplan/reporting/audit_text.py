"""The audit of the guide as table, JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from capplan.schema.audit import AuditedClaim, ClaimVerdict, Finding
from capplan.schema.pairing import Claim

AUDIT_FORMATS = ("table", "json", "csv", "markdown")
_SCHEMA_VERSION = 1
_FRACTIONS = ("rate", "gain", "saving", "loss")
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
    "least_share_of_target_context": "at least, of the target's context",
}
_COLUMNS = (
    *("id", "topic", "section", "subject", "figure", "value", "unit", "verdict", "recomputed"),
    *("deviation", "reason", "other_findings", "source", "source_date"),
)
_GUIDE = "the guide's own figures"

_INTRODUCTION = """\
# A popular guide, audited

A popular guide in Chinese, whose author is not named, promises that speculative decoding
makes inference three times faster, and gives pairings, a formula, measurements, prices and a
checklist. This page takes each of its figures and says what becomes of it. Nothing here is used
for a plan: claims are kept apart from facts (`models_db/claims`).

A figure has one verdict, the strongest objection first:

| Verdict | Meaning | Figures |
|---|---|---:|
{counts}

*Recomputed* is what the guide's own figures, a checkpoint or published measurements give where
the guide prints something; the deviation is the guide's figure against it. A figure agrees when
it lies within one unit of the last digit printed: the guide rounds some figures and cuts off
others. All counts and medians are taken from the rows of `models_db` each time.

This page is made by `capplan claims --format markdown`.
"""

_MEANINGS = {
    ClaimVerdict.DOES_NOT_EXIST: "it names a model, class or argument that was never published",
    ClaimVerdict.CONTRADICTED: "a measurement or the engine itself says otherwise",
    ClaimVerdict.INCONSISTENT: "it disagrees with another figure or the formula of the guide",
    ClaimVerdict.REPRODUCED: "it follows from other figures, or a measurement reaches it",
    ClaimVerdict.CANNOT_BE_CHECKED: "too little is said; the reason names what would tell",
}


def section_of(claim: Claim) -> str:
    """Return the section of the guide that a claim stands in: ``4.1``, ``introduction``."""
    return claim.source.reference.rpartition("section ")[2]


def section_title(section: str) -> str:
    """Return number and subject of a section."""
    title = _SECTIONS.get(section, section)
    return title if section == "introduction" else f"{section} {title}"


def claimed_text(claim: Claim, value: float | None = None) -> str:
    """Return a claim's figure as the guide prints it: ``82 %``, ``3.1x``, ``$2.31``."""
    number = claim.value if value is None else value
    shown = f"{number:,.4g}" if abs(number) < 1e4 else f"{number:,.0f}"
    if claim.unit == "1" and any(word in claim.figure for word in _FRACTIONS):
        return f"{number * 100:.3g} %"
    if claim.figure in _STATEMENTS and number == 1:
        return "yes"
    if claim.figure == "year_proposed":
        return f"{number:.0f}"
    if claim.unit == "USD":
        return f"${shown}"
    joined = {"x": f"{shown}x", "B": f"{shown}B", "1": shown}
    if number == 1 and claim.unit.endswith("s"):
        return f"1 {claim.unit.removesuffix('s')}"
    return joined.get(claim.unit, f"{shown} {claim.unit}")


def recomputed_text(audited: AuditedClaim) -> str:
    """Return the recomputed figure with the guide's deviation from it, or nothing."""
    recomputed, deviation = audited.recomputed, audited.deviation
    if recomputed is None:
        return ""
    shown = claimed_text(audited.claim, recomputed)
    same = deviation is None or abs(deviation) < 5e-4
    return shown if same else f"{shown} ({deviation * 100:+.3g} %)"  # type: ignore[operator]


def figure_name(claim: Claim) -> str:
    """Return what a claim is about, in words."""
    figure = _FIGURES.get(claim.figure, claim.figure.replace("_", " "))
    return f"{claim.subject}: {figure}"


def reason_text(audited: AuditedClaim) -> str:
    """Return why: what gives the verdict, then what else was found."""
    first, *others = audited.findings
    return first.reason + "".join(f" Also {f.verdict.value}: {f.reason}" for f in others)


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


def render_audit(audited: Sequence[AuditedClaim], fmt: str) -> str:
    """Return the audit in one of ``AUDIT_FORMATS``; ends with a newline."""
    renderers = {"table": _table, "json": _json, "csv": _csv, "markdown": _markdown}
    return renderers[fmt](audited)


def _table(audited: Sequence[AuditedClaim]) -> str:
    lines: list[str] = []
    for item in audited:
        again = recomputed_text(item)
        lines += [
            f"{item.claim.id}  {claimed_text(item.claim)}  {item.verdict.value}"
            + (f"  recomputed {again}" if again else ""),
            *(f"    {finding.reason}" for finding in item.findings[:1]),
            *(f"    also {f.verdict.value}: {f.reason}" for f in item.findings[1:]),
        ]
    return "\n".join([*lines, f"{len(audited)} figures: {counts_text(audited)}."]) + "\n"


def _json(audited: Sequence[AuditedClaim]) -> str:
    claims = [
        {
            **item.model_dump(mode="json"),
            "section": section_of(item.claim),
            "recomputed": item.recomputed,
            "deviation": item.deviation,
        }
        for item in audited
    ]
    content = {"schema_version": _SCHEMA_VERSION, "claims": claims}
    return f"{json.dumps(content, indent=2, ensure_ascii=False)}\n"


def _csv(audited: Sequence[AuditedClaim]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_record(item) for item in audited)
    return text.getvalue()


def _record(item: AuditedClaim) -> dict[str, Any]:
    claim, first = item.claim, item.findings[0]
    return {
        "id": claim.id,
        "topic": claim.topic,
        "section": section_of(claim),
        "subject": claim.subject,
        "figure": claim.figure,
        "value": f"{claim.value:.10g}",
        "unit": claim.unit,
        "verdict": item.verdict.value,
        "recomputed": "" if item.recomputed is None else f"{item.recomputed:.6g}",
        "deviation": "" if item.deviation is None else f"{item.deviation:.4g}",
        "reason": first.reason,
        "other_findings": " | ".join(f"{f.verdict.value}: {f.reason}" for f in item.findings[1:]),
        "source": source_text(first),
        "source_date": (first.source.date or "") if first.source else "",
    }


def _markdown(audited: Sequence[AuditedClaim]) -> str:
    counts = Counter(item.verdict for item in audited)
    rows = "\n".join(f"| {v.value} | {_MEANINGS[v]} | {counts[v]} |" for v in ClaimVerdict)
    parts = [_INTRODUCTION.format(counts=rows)]
    for section, items in by_section(audited):
        parts.append(f"\n## {section_title(section)}\n")
        parts.append("| Figure | Guide | Verdict | Recomputed | Why | Source |")
        parts.append("|---|---:|---|---:|---|---|")
        parts += [_markdown_row(item) for item in items]
    return "\n".join(parts) + "\n"


def _markdown_row(item: AuditedClaim) -> str:
    first = item.findings[0]
    cells = (
        figure_name(item.claim),
        claimed_text(item.claim),
        item.verdict.value,
        recomputed_text(item),
        reason_text(item),
        source_text(first),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def by_section(
    audited: Iterable[AuditedClaim],
) -> tuple[tuple[str, tuple[AuditedClaim, ...]], ...]:
    """Group claims by section, in the guide's order."""
    grouped: dict[str, list[AuditedClaim]] = {}
    for item in audited:
        grouped.setdefault(section_of(item.claim), []).append(item)
    order = list(_SECTIONS)
    ranked = sorted(grouped, key=lambda name: order.index(name) if name in order else len(order))
    return tuple((section, tuple(grouped[section])) for section in ranked)
