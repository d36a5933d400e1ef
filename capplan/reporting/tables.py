"""Sections of sentences and tables: what profile pages and comparisons are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells as text; the first columns are words, the rest figures."""

    label: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    two_lines: bool = False
    """Whether what a figure has in brackets stands below it."""


@dataclass(frozen=True)
class Figure:
    """A picture as SVG of our own making, and what it shows."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading, sentences, pictures, tables."""

    id: str
    title: str
    says: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
