"""The answer on a pair for the terminal: verdict, what to know, what to do."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from capplan.reporting.formatting import number, printable
from capplan.schema.pair import (
    Finding,
    PairReport,
    PairSuggestion,
    PairSuggestions,
    PublishedAcceptance,
    Severity,
)

WIDTH = 80
_MARKS = {True: "yes", False: "NO", None: "unchecked"}
_SHOWN_SOURCES = 2
_SOURCE_CHARACTERS = 60
_BILLION = 1e9


def render_pair(report: PairReport) -> str:
    """Return the report as text that ends with a newline."""
    sections = (
        [*_wrap(report.sentence, 0), *_evidence(report)],
        _engines(report),
        _findings("Must know", report.findings, Severity.MUST),
        _findings("Should know", _worth(report), Severity.KNOW),
        _acceptance(report),
        _next(report),
    )
    blocks = ["\n".join(lines) for lines in sections if lines]
    return printable("\n\n".join(blocks)) + "\n"


def render_suggestions(found: PairSuggestions) -> str:
    """Return the suggestions as text that ends with a newline."""
    usable = [item for item in found.suggestions if item.works]
    others = [item for item in found.suggestions if not item.works]
    count = f"{len(usable)} way{'s' if len(usable) != 1 else ''} to draft"
    sections = [[f"{count} for {found.target} on {found.engine}:"]]
    sections.append([line for item in usable for line in _suggestion(item)])
    if others:
        lines = [line for item in others for line in _unusable(item)]
        sections.append([f"Not for {found.engine}:", *lines])
    sections.append([line for note in found.notes for line in _wrap(note, 0)])
    if usable:
        sections.append(list(_after(found, usable)))
    blocks = ["\n".join(lines) for lines in sections if lines]
    return printable("\n\n".join(blocks)) + "\n"


def _after(found: PairSuggestions, usable: list[PairSuggestion]) -> Iterator[str]:
    unmeasured = next((item.measure for item in usable if "capplan" in item.measure), "")
    if unmeasured:
        yield from _wrap(f"Measure what has no figure: {unmeasured}", 0, 2)
    yield f"Next: capplan pair {found.target} {_argument(usable[0])}"


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


def _evidence(report: PairReport) -> list[str]:
    """Say what the verdict rests on, where the first sentence does not."""
    if report.reason in report.sentence:
        return []
    return _wrap(f"Evidence: {report.reason}.", 0)


def _engines(report: PairReport) -> list[str]:
    if not report.engines:
        return []
    wide = max(len(answer.engine) for answer in report.engines)
    lines = ["Engines, by the vocabulary alone:"]
    for answer in report.engines:
        head = f"{answer.engine:<{wide}}  {_MARKS[answer.accepts]:<9}  "
        wrapped = textwrap.wrap(answer.text, WIDTH - len(head) - 2)
        lines.append(f"  {head}{wrapped[0]}")
        lines.extend(f"  {' ' * len(head)}{line}" for line in wrapped[1:])
    return lines


def _findings(title: str, findings: Iterable[Finding], severity: Severity) -> list[str]:
    chosen = [finding for finding in findings if finding.severity is severity]
    if not chosen:
        return []
    lines = [f"{title}:"]
    for finding in chosen:
        source = f" [{_brief(finding.source)}]" if finding.source else ""
        lines.extend(_wrap(f"- {finding.text}{source}", 2, 2))
        if finding.remedy:
            lines.extend(_wrap(f"-> {finding.remedy}", 4, 3))
    return lines


def _worth(report: PairReport) -> Iterator[Finding]:
    """Yield what is worth reading: of a pair that is refused, only why; JSON has the rest."""
    for finding in report.findings:
        if report.usable is not False or finding.topic == "vocabulary":
            yield finding


def _brief(source: str) -> str:
    """Return a source short enough for a terminal; JSON has it whole."""
    return textwrap.shorten(source, _SOURCE_CHARACTERS, placeholder=" ...")


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
    """Return a suggestion on three lines at most: name, size and verdict, acceptance."""
    details = "; ".join(_details(item))
    lines = [f"  {item.draft} ({item.method.value})", f"    {_cut(details)}"]
    if item.acceptance:
        lines.append(f"    {_spans(item.acceptance)}")
    return lines


def _cut(text: str) -> str:
    return textwrap.shorten(text, WIDTH - 4, placeholder=" ...")


def _spans(figures: Sequence[PublishedAcceptance]) -> str:
    """Return ``2.08-3.40 tokens a round (N = 3), 2.30-5.29 (N = 7) [source ...]`` on one line."""
    ends = figures if len(figures) == 1 else (figures[0], figures[-1])
    spans = ", ".join(f"{_span(figure)} (N = {figure.num_speculative_tokens})" for figure in ends)
    text = f"tokens a round {spans}"
    source = figures[0].sources[0]
    room = WIDTH - 4 - len(text) - len(" []")
    if len(source) > room:
        source = f"{source[: room - 3].rstrip()}..."
    return f"{text} [{source}]"


def _span(figure: PublishedAcceptance) -> str:
    low, high = number(figure.lowest), number(figure.highest)
    return low if low == high else f"{low}-{high}"


def _details(item: PairSuggestion) -> Iterator[str]:
    if item.draft_params:
        ratio = f" (1/{item.params_ratio:.0f})" if item.params_ratio else ""
        yield f"{number(item.draft_params / _BILLION)} billion{ratio}"
    yield item.sentence.rstrip(".")
    if item.draft_params or item.licence:
        yield f"licence {item.licence or 'unknown'}"
    if not item.listed and item.draft_params:
        yield "unlisted"


def _unusable(item: PairSuggestion) -> list[str]:
    return _wrap(f"{item.draft} ({item.method.value}): {item.sentence}", 2, 4)
