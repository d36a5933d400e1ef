"""Pasted output against what a command really prints."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"\d[\d,.]*\d|\d")
_LEFT_OUT = "..."


def agrees(pasted: Sequence[str], printed: str, *, numbers: bool = False) -> bool:
    """Whether a page's lines are what was printed.

    A line of ``...`` stands for any lines, ``...`` within a line for any text. With ``numbers``
    figures may differ, and the spaces that align them.
    """
    pattern = "".join(_pattern(line, numbers=numbers) for line in pasted)
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    text = "".join(f"{_plain(line) if numbers else line}\n" for line in lines)
    return re.fullmatch(pattern, text) is not None


def _plain(line: str) -> str:
    """Return a line without figures, and without the spaces that align them."""
    return " ".join(_NUMBER.sub("#", line).split())


def _pattern(line: str, *, numbers: bool) -> str:
    if line.strip() == _LEFT_OUT:
        return r"(?:[^\n]*\n)*?"
    wanted = _plain(line) if numbers else line.rstrip()
    return r"[^\n]*".join(re.escape(part) for part in wanted.split(_LEFT_OUT)) + "\n"


def can_be_renewed(pasted: Sequence[str]) -> bool:
    """Whether what is left out is only the end, so that the rest can be written anew."""
    return not any(_LEFT_OUT in line for line in pasted[:-1]) and (
        _LEFT_OUT not in pasted[-1] or pasted[-1].strip() == _LEFT_OUT
    )


def renewed(
    page: str, first_line: int, old: Sequence[str], printed: str, *, cut: bool = False
) -> str:
    """Return a page with the lines of an output replaced, at the indentation they had.

    Of an output whose end is left out (``cut``, or a last line of ``...``) as many paragraphs are
    kept as there were.
    """
    lines = page.splitlines()
    start = first_line - 1
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    margin = indent[: len(indent) - (len(old[0]) - len(old[0].lstrip()))]
    fresh = [f"{margin}{line}".rstrip() for line in _kept(old, printed, cut=cut)]
    lines[start : start + len(old)] = fresh
    return "\n".join(lines) + "\n"


def _kept(old: Sequence[str], printed: str, *, cut: bool) -> list[str]:
    told_so = old[-1].strip() == _LEFT_OUT
    text = printed.strip("\n")
    if told_so or cut:
        shown = "\n".join(old[:-1] if told_so else old).strip("\n")
        text = "\n\n".join(text.split("\n\n")[: len(shown.split("\n\n"))])
    return [*text.splitlines(), *([_LEFT_OUT] if told_so else [])]
