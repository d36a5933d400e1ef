"""Plain text into Markdown that shows it as it is, on GitHub and in the site alike."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"([*_\[\]])")


def escaped(text: str) -> str:
    """Return prose whose markup characters are shown, code in double backticks made single."""
    pieces = re.split(r"(``?[^`]+``?)", text)
    return "".join(
        f"`{piece.strip('`')}`" if piece.startswith("`") else _shown(piece) for piece in pieces
    )


def _shown(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def cell(text: str) -> str:
    """Return prose for a cell of a table: one line, no bare bars."""
    return _without_bars(escaped(" ".join(text.split())))


def code_cell(text: str) -> str:
    """Return code for a cell of a table."""
    return f"`{_without_bars(' '.join(text.split()))}`"


def _without_bars(text: str) -> str:
    # An escaped bar inside code keeps its backslash in the site and loses it on GitHub.
    return text.replace(" | ", " or ").replace("|", ", ")
