"""Cells of a CSV file that a spreadsheet shows and never runs."""

from __future__ import annotations

import re

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What spreadsheets take for the beginning of a formula; the last four are wide forms."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def inert(text: str) -> str:
    """Keep a spreadsheet from running a text as a formula: an apostrophe shows it as text.

    Numbers stay numbers.

    >>> inert("=1+1"), inert("-2.5")
    ("'=1+1", '-2.5')
    """
    if not text.startswith(_STARTS) or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"
