"""What a rule says: an alarm or a piece of advice, and where the rule comes from."""

from __future__ import annotations

from capplan.schema.watching import Notice

GUIDE_TABLE = "the guide's troubleshooting table"
GUIDE_CHECKLIST = "the guide's checklist"


def alarm(check: str, text: str, remedy: str, source: str) -> Notice:
    """Return a notice of something that is wrong."""
    return Notice(level="alarm", check=check, text=text, remedy=remedy, source=source)


def advice(check: str, text: str, remedy: str, source: str) -> Notice:
    """Return a notice of something that could be better."""
    return Notice(level="advice", check=check, text=text, remedy=remedy, source=source)
