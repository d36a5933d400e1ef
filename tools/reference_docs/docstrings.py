"""Docstrings in numpy's style, as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import pairwise

from reference_docs.markdown import cell, escaped

_RULE = re.compile(r"^-{3,}$")
_TABLES = ("Parameters", "Attributes", "Raises", "Returns", "Yields")
_TYPES = ("Raises", "Returns", "Yields")
"""Sections that list types, whose commas are their own."""


def docstring_lines(text: str) -> Iterator[str]:
    """Yield a docstring as Markdown: paragraphs, and sections as bold headings with lists."""
    lines = inspect.cleandoc(text).splitlines()
    starts = [i for i in range(len(lines) - 1) if _RULE.match(lines[i + 1]) and lines[i].strip()]
    yield from _paragraphs(lines[: starts[0] if starts else len(lines)])
    for start, end in pairwise([*starts, len(lines)]):
        title, body = lines[start].strip(), lines[start + 2 : end]
        yield from (f"**{title}**", "")
        yield from (
            _items(body, of_types=title in _TYPES) if title in _TABLES else _paragraphs(body)
        )


def _paragraphs(lines: list[str]) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip()):
        if paragraph.startswith("    "):
            yield from (*(f"    {line.strip()}" for line in paragraph.splitlines()), "")
        elif paragraph:
            yield from (escaped(" ".join(paragraph.split())).replace("::", ":"), "")


def _items(lines: list[str], *, of_types: bool) -> Iterator[str]:
    """Yield a list of names, each with the indented text under it."""
    name, text = "", list[str]()
    for line in [*lines, "end"]:
        if line.startswith(" ") or not line.strip():
            text.append(line)
            continue
        if name:
            shown = f"`{name}`" if of_types else _names(name)
            yield f"- {shown}: {cell(' '.join(text))}"
        name, text = line.strip(), []
    yield ""


def _names(name: str) -> str:
    """Return ``a, b : type`` as code."""
    bare = name.partition(" : ")[0]
    return ", ".join(f"`{part.strip()}`" for part in bare.split(","))
