"""The audit of the guide as table, JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from capplan.files.spreadsheets import inert
from capplan.reporting.audit_page import markdown_page
from capplan.reporting.audit_words import (
    claimed_text,
    counts_text,
    recomputed_text,
    source_text,
)
from capplan.schema.audit import AuditedClaim

AUDIT_FORMATS = ("table", "json", "csv", "markdown")
_SCHEMA_VERSION = 1
_COLUMNS = (
    *("id", "topic", "section", "subject", "figure", "value", "unit", "verdict", "recomputed"),
    *("deviation", "reason", "other_findings", "source", "source_date"),
)


def render_audit(audited: Sequence[AuditedClaim], fmt: str) -> str:
    """Return the audit in one of ``AUDIT_FORMATS``; ends with a newline."""
    renderers = {"table": _table, "json": _json, "csv": _csv, "markdown": markdown_page}
    return renderers[fmt](audited)


def _table(audited: Sequence[AuditedClaim]) -> str:
    lines: list[str] = []
    for item in audited:
        again = recomputed_text(item)
        lines += [
            f"{item.claim.id}  {claimed_text(item.claim)}  {item.verdict.value}"
            + (f"  {again}" if again else ""),
            *(f"    {finding.reason}" for finding in item.findings[:1]),
            *(f"    also {f.verdict.value}: {f.reason}" for f in item.findings[1:]),
        ]
    return "\n".join([*lines, f"{len(audited)} figures: {counts_text(audited)}."]) + "\n"


def _json(audited: Sequence[AuditedClaim]) -> str:
    claims = [
        {
            **item.model_dump(mode="json"),
            "section": item.claim.section,
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
    for item in audited:
        cells = _record(item).items()
        writer.writerow({name: inert(c) if isinstance(c, str) else c for name, c in cells})
    return text.getvalue()


def _record(item: AuditedClaim) -> dict[str, Any]:
    claim, first = item.claim, item.findings[0]
    return {
        "id": claim.id,
        "topic": claim.topic,
        "section": claim.section,
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
