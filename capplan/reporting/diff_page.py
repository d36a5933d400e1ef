"""Where a difference is written: text, Markdown, or sections of a page, through one door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from capplan.reporting.formatting import printable
from capplan.reporting.markdown import inline, sentence
from capplan.reporting.tables import Section, Table

Row = tuple[str, ...]


class DiffPage(Protocol):
    """Takes headings, sentences and tables in the order in which they are read."""

    def heading(self, text: str) -> None:
        """Begin a part."""

    def say(self, text: str) -> None:
        """Add a sentence to it."""

    def table(self, head: Row, rows: Sequence[Row]) -> None:
        """Add a table to it."""


class TextPage:
    """Collects them as text for a terminal, or as Markdown."""

    def __init__(self, *, markdown: bool) -> None:
        self.markdown = markdown
        self.lines: list[str] = []

    def heading(self, text: str) -> None:
        """Begin a part."""
        if self.lines:
            self.lines.append("")
        self.lines += [f"### {inline(text)}", ""] if self.markdown else [_line(text)]

    def say(self, text: str) -> None:
        """Add a sentence; names in it are not taken for markup."""
        self.lines.append(sentence(text) if self.markdown else _line(text))
        if self.markdown:
            self.lines.append("")

    def table(self, head: Row, rows: Sequence[Row]) -> None:
        """Add a table with columns of equal width."""
        if self.markdown:
            cells = [head, tuple("---" for _ in head), *(tuple(map(inline, row)) for row in rows)]
            self.lines += [f"| {' | '.join(row)} |" for row in cells]
            return
        lines = [head, *(tuple(map(_line, row)) for row in rows)]
        widths = [max(len(row[place]) for row in lines) for place in range(len(head))]
        for row in lines:
            cells_wide = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            self.lines.append(f"  {'  '.join(cells_wide)}".rstrip())

    def text(self) -> str:
        """Return all of it."""
        return "\n".join(self.lines).rstrip() + "\n"


class SectionPage:
    """Collects them as sections of an HTML page."""

    def __init__(self) -> None:
        self.sections: list[Section] = []

    def heading(self, text: str) -> None:
        """Begin a section."""
        self.sections.append(Section(f"part-{len(self.sections) + 1}", text))

    def say(self, text: str) -> None:
        """Add a sentence to the last section."""
        last = self.sections[-1]
        self._replace(Section(last.id, last.title, (*last.says, text.strip()), (), last.tables))

    def table(self, head: Row, rows: Sequence[Row]) -> None:
        """Add a table to the last section; its cells are words."""
        last = self.sections[-1]
        shown = tuple(f"{cell[:1].upper()}{cell[1:]}" for cell in head)
        added = Table(last.title, shown, tuple(rows), words=len(head))
        self._replace(Section(last.id, last.title, last.says, (), (*last.tables, added)))

    def _replace(self, section: Section) -> None:
        self.sections[-1] = section


def _line(text: str) -> str:
    """Return a text that cannot leave its line; blanks that set it in stay."""
    return printable(text.replace("\n", " "))
