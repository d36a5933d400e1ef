"""Words from outside inside Markdown: shown as they are, whatever they would mean there.

A comment on a pull request is read by a renderer that makes links of addresses and tells people
that they were mentioned. A backslash does not stop that, it acts on what is rendered; an empty
comment between the sign and the name does.
"""

from __future__ import annotations

import re

from capplan.reporting.formatting import printable

_MARKS = re.compile(r"[\\`*_\[\]<|~&]")
_BREAK = "<!-- -->"
_LINKED = re.compile(
    r"@(?=\w)|#(?=\d)|(?<=:)(?=//)|(?<=\bwww)(?=\.)|\bGH-(?=\d)|(?<=\bmailto)(?=:)|"
    r"(?<=\bxmpp)(?=:)",
    re.IGNORECASE,
)
_STARTS = re.compile(r"#(?=#*(\s|$))|>|[+-](?=\s|$)|[=-](?==*$|-*$)|\d+[.)](?=\s|$)")


def inline(text: str) -> str:
    """Return a text as Markdown of one line that renders as the text and as nothing else."""
    line = " ".join(printable(text.replace("\n", " ")).split())
    escaped = _MARKS.sub(lambda mark: f"\\{mark[0]}", line)
    return _LINKED.sub(lambda sign: f"{sign[0]}{_BREAK}", escaped)


def sentence(text: str) -> str:
    """Return a line of its own: its beginning makes no heading, quote or list of it."""
    line = inline(text)
    start = _STARTS.match(line)
    if start is None:
        return line
    return f"{line[: start.end() - 1]}\\{line[start.end() - 1 :]}"
