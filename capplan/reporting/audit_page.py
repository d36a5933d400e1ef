"""The audit of the guide as a page of Markdown, its findings that matter most first."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from capplan.reporting.audit_words import (
    Group,
    by_section,
    claimed_text,
    grouped,
    section_title,
    source_text,
)
from capplan.schema.audit import AuditedClaim, ClaimVerdict, Finding

_WIDTH = 99

_INTRODUCTION = """\
# A popular guide, audited

A guide in Chinese without an author's name, *Speculative Decoding in practice: settings that
make inference three times faster*, gives pairings, a formula, measurements, prices and a
checklist. This page says of each of its {count} figures what becomes of it when it is checked.
No plan uses them: claims are kept apart from facts.
"""

_READING = """\
## How to read it

One verdict a figure, the strongest objection first; what else was found follows as "also". A
repeated figure is listed where the guide states it first, and again where it promises something
by it. *Recomputed* is what the guide's own figures, a checkpoint or published measurements give
in its place, with the guide's deviation from it. A figure counts as the same within one unit of
the last digit printed, since the guide rounds some and cuts off others. "Published" means the
rows of `models_db`; counts and medians are taken from them each time this page is made
(`capplan claims --format markdown`; `--format csv` has a row a figure).
"""

_MEANINGS = {
    ClaimVerdict.DOES_NOT_EXIST: "it is about a model, class or argument that was never published",
    ClaimVerdict.CONTRADICTED: "a measurement, or the engine itself, says otherwise",
    ClaimVerdict.INCONSISTENT: "it disagrees with another figure or the formula of the guide",
    ClaimVerdict.REPRODUCED: "it follows from its other figures, or evidence agrees",
    ClaimVerdict.CANNOT_BE_CHECKED: "too little is said; the reason names what would tell",
}

_GONE, _CONTRA = ClaimVerdict.DOES_NOT_EXIST, ClaimVerdict.CONTRADICTED
_INCON, _SAME = ClaimVerdict.INCONSISTENT, ClaimVerdict.REPRODUCED
_FIRST = (
    (
        "It measures what does not exist: {gone} of {count} figures rest on such names.",
        "a100-none-decode",
        _GONE,
    ),
    ("Its commands stop vLLM at once.", "name-flag-speculative-model", _CONTRA),
    ("Three times is rare, and its own rules do not give it.", "summary-easily", _CONTRA),
    (
        "Its price column implies a utilisation, unstated, and not one but three.",
        "cost-none-million",
        _INCON,
    ),
    (
        "Maths, its worst task, is rarely the slowest.",
        "task-maths-speedup",
        _CONTRA,
    ),
)
_RIGHT = (
    ("Lossless, as a method.", "headline-quality-loss", _SAME),
    ("Greedy decoding is accepted most.", "config-temperature", _SAME),
    ("Draft three tokens or more.", "rule-n-low", _SAME),
    ("Its table of tasks holds together.", "task-code-speedup", _SAME),
    ("Its speedups follow from its speeds.", "a100-n5-speedup", _SAME),
)
_MORE = {"summary-easily": _INCON}
"""Claims whose second objection belongs to the headline as well."""


def markdown_page(audited: Sequence[AuditedClaim]) -> str:
    """Return the page; of a part of the audit only what that part holds."""
    by_id = {item.claim.id: item for item in audited}
    parts = [_INTRODUCTION.format(count=len(audited))]
    parts += _headlines("The five findings that matter most", _FIRST, by_id)
    parts += _headlines("What it has right", _RIGHT, by_id)
    parts += [_counts(audited), _READING]
    for section, items in by_section(audited):
        parts.append(f"## {section_title(section)}\n")
        parts += [_entry(group) for group in grouped(items)]
        parts.append("")
    return "\n".join(parts)


def _headlines(
    heading: str,
    wanted: Sequence[tuple[str, str, ClaimVerdict]],
    by_id: Mapping[str, AuditedClaim],
) -> Iterator[str]:
    counts = {"gone": sum(i.verdict is _GONE for i in by_id.values()), "count": len(by_id)}
    told = [
        f"{place}. **{lead.format(**counts)}** {_reasons(by_id[claim], verdict)}"
        for place, (lead, claim, verdict) in enumerate(wanted, 1)
        if claim in by_id
    ]
    if told:
        yield f"## {heading}\n"
        yield "\n".join(_wrapped(text, "   ") for text in told) + "\n"


def _reasons(item: AuditedClaim, verdict: ClaimVerdict) -> str:
    """Return what gave a claim this verdict, and the second objection where it belongs here."""
    wanted = (verdict, _MORE.get(item.claim.id))
    said = [f.reason for f in item.findings if f.verdict in wanted]
    return " ".join(said) or f"({claimed_text(item.claim)}: {item.verdict.value}.)"


def _counts(audited: Sequence[AuditedClaim]) -> str:
    lines = [
        "## Verdicts by section\n",
        "| Section | " + " | ".join(verdict.value for verdict in ClaimVerdict) + " | all |",
        "|---" + "|---:" * (len(ClaimVerdict) + 1) + "|",
    ]
    for section, items in by_section(audited):
        lines.append(_counts_row(section_title(section), items))
    lines.append(_counts_row("**all**", audited))
    lines.append("")
    lines += [f"- **{verdict.value}**: {_MEANINGS[verdict]}" for verdict in ClaimVerdict]
    return "\n".join(lines) + "\n"


def _counts_row(title: str, items: Sequence[AuditedClaim]) -> str:
    counts = Counter(item.verdict for item in items)
    cells = (str(counts[verdict] or "") for verdict in ClaimVerdict)
    return f"| {title} | {' | '.join(cells)} | {len(items)} |"


def _entry(group: Group) -> str:
    return "\n".join(
        [
            _wrapped(f"- **{group.finding.verdict.value}** · {group.figures}.", "  "),
            _wrapped(f"  {_why(group.finding)}", "  "),
            *(_wrapped(f"  {text}", "  ") for text in group.others),
        ]
    )


def _why(finding: Finding) -> str:
    return finding.reason + (f" *({source_text(finding)})*" if finding.source else "")


def _wrapped(text: str, hanging: str) -> str:
    """Wrap, but keep a number and its per cent sign together."""
    lines = textwrap.wrap(
        text.replace(" %", "\u00a0%"),
        _WIDTH,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace("\u00a0%", " %")
