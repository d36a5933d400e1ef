"""Examples at the end of a command's help."""

from __future__ import annotations

_AS_WRITTEN = "\b"
"""What keeps click from joining the lines below it."""


def examples(*commands: str) -> str:
    """Return the epilog that shows these commands, a line each."""
    return "\n".join((_AS_WRITTEN, "Examples:", *(f"  capplan {command}" for command in commands)))
