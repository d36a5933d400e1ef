"""The answer on a pair for the terminal: verdict, what to know, what to do."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator

from capplan.reporting.formatting import number, printable
from capplan.schema.pair import (
    EngineAnswer,
    Finding,
    PairReport,
    PairSuggestion,
    PairSuggestions,
    PublishedAcceptance,
    Severity,
)

WIDTH = 100
_MARKS = {True: "yes", False: "NO", None: "unchecked"}
_SHOWN_SOURCES = 2


def render_pair(report: PairReport) -> str:
    """Return the report as text that ends with a newline."""
    sections = (
        _wrap(report.sentence, 0),
        _engines(report),
        _findings("Must know", report.findings, Severity.MUST),
        _findings("Should know", report.findings, Severity.KNOW),
        _acceptance(report),
        _next(report),
    )
    blocks = ["\n".join(lines) for lines in sections if lines]
    return printable("\n\n".join(blocks)) + "\n"


def render_suggestions(found: PairSuggestions) -> str:
    """Return the suggestions as text that ends with a newline."""
    usable = [item for item in found.suggestions if item.works and item.exists]
    others = [item for item in found.suggestions if not (item.works and item.exists)]
    count = f"{len(usable)} way{'s' if len(usable) != 1 else ''} to draft"
    sections = [[f"{count} for {found.target} on {found.engine}:"]]
    sections.extend(_suggestion(item) for item in usable)
    if others:
        sections.append([f"Not usable on {found.engine}:"])
        sections.extend(_unusable(item) for item in others)
    sections.append([line for note in found.notes for line in _wrap(note, 0)])
    if usable:
        sections.append([f"Next: capplan pair {found.target} {_argument(usable[0])}"])
    blocks = ["\n".join(lines) for lines in sections if lines]
    return printable("\n\n".join(blocks)) + "\n"


def _argument(item: PairSuggestion) -> str:
    return "mtp" if item.draft == "(built-in)" else item.draft


def _wrap(text: str, indent: int, hanging: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _engines(report: PairReport) -> list[str]:
    if not report.engines:
        return []
    wide = max(len(answer.engine) for answer in report.engines)
    lines = ["Engines:"]
    for answer in report.engines:
        lines.extend(_engine(answer, wide))
    return lines


def _engine(answer: EngineAnswer, wide: int) -> list[str]:
    source = f" [{answer.source}]" if answer.source else ""
    text = f"{answer.engine:<{wide}}  {_MARKS[answer.accepts]:<9}  {answer.text}{source}"
    return _wrap_columns(text, wide + 2 + 9 + 2)


def _wrap_columns(text: str, column: int) -> list[str]:
    head, tail = text[:column], text[column:]
    lines = textwrap.wrap(tail, WIDTH - column - 2, break_long_words=False) or [""]
    return [f"  {head}{lines[0]}", *(f"  {' ' * column}{line}" for line in lines[1:])]


def _findings(title: str, findings: Iterable[Finding], severity: Severity) -> list[str]:
    chosen = [finding for finding in findings if finding.severity is severity]
    if not chosen:
        return []
    lines = [f"{title}:"]
    for finding in chosen:
        source = f" [{finding.source}]" if finding.source else ""
        lines.extend(_wrap(f"- {finding.text}{source}", 2, 2))
        if finding.remedy:
            lines.extend(_wrap(f"-> {finding.remedy}", 4, 3))
    return lines


def _acceptance(report: PairReport) -> list[str]:
    if not report.acceptance:
        return []
    lines = ["Published acceptance (tokens a round, bonus included):"]
    for figure in report.acceptance:
        lines.extend(_wrap(f"- {acceptance_line(figure)}", 2, 2))
    return lines


def acceptance_line(figure: PublishedAcceptance) -> str:
    """Return ``N = 3: 2.35 (math500) to 2.81 (gsm8k) over 4 tasks, temperature 0 [source]``."""
    low, high = number(figure.lowest), number(figure.highest)
    span = f"{low} ({figure.lowest_task})"
    if figure.tasks > 1:
        span += f" to {high} ({figure.highest_task}) over {figure.tasks} tasks"
    heat = ", ".join(f"{value:g}" for value in figure.temperatures) or "not published"
    dates = f", {figure.dates[0]}" if figure.dates else ""
    more = len(figure.sources) - _SHOWN_SOURCES
    sources = "; ".join(figure.sources[:_SHOWN_SOURCES]) + (f"; {more} more" if more > 0 else "")
    return f"N = {figure.num_speculative_tokens}: {span}, temperature {heat} [{sources}{dates}]"


def _next(report: PairReport) -> list[str]:
    lines = ["What to do:"]
    if report.speculative_config:
        config = json.dumps(report.speculative_config, separators=(",", ":"))
        lines.append(f"  --speculative-config '{config}'")
    for step in report.next_steps:
        lines.extend(_wrap(f"- {step}", 2, 2))
    return lines if len(lines) > 1 else []


def _suggestion(item: PairSuggestion) -> list[str]:
    lines = [*_wrap(_title(item), 2, 4), *_wrap(item.sentence, 4)]
    if item.acceptance:
        lines.extend(
            line for figure in item.acceptance for line in _wrap(acceptance_line(figure), 4, 2)
        )
    elif item.measure:
        lines.extend(_wrap(f"No acceptance published. Measure: {item.measure}", 4, 2))
    return lines


def _title(item: PairSuggestion) -> str:
    return ", ".join([f"{item.draft} ({item.method.value})", *_details(item)])


def _details(item: PairSuggestion) -> Iterator[str]:
    if item.draft_params:
        ratio = f", 1/{item.params_ratio:.0f} of the target" if item.params_ratio else ""
        yield f"{number(item.draft_params / 1e9)} billion parameters{ratio}"
    if not item.listed and item.draft_params:
        yield "same tokenizer, listed by nobody for this target"
    if item.draft_params or item.licence:
        yield f"licence {item.licence or 'unknown'}"


def _unusable(item: PairSuggestion) -> list[str]:
    return [f"  {item.draft} ({item.method.value})", *_wrap(item.sentence, 4)]
