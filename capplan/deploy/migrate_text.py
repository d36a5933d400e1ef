"""A migrated command with its reasons, as a text that a shell can run as it stands."""

from __future__ import annotations

from capplan.deploy.command import comment
from capplan.deploy.migrate import Change, Migration


def render_migration(migration: Migration) -> str:
    """Return the command, with what was changed and why on comment lines above it."""
    lines = [comment(f"For {migration.engine}: {_summary(migration)}")]
    lines += [comment(f"- {_sentence(change)}") for change in migration.changes]
    lines += [comment(f"! {note}") for note in migration.notes]
    return "\n".join((*lines, migration.command)) + "\n"


def _summary(migration: Migration) -> str:
    changed = sum(change.old != change.new for change in migration.changes)
    if not changed:
        return "nothing to change."
    return f"{changed} change{'s' if changed > 1 else ''}."


def _sentence(change: Change) -> str:
    old, new = _one_line(change.old), _one_line(change.new)
    if old == new:
        return f"{old}: {change.reason}"
    if not new:
        return f"{old} is gone: {change.reason}"
    if not old:
        return f"{new} is added: {change.reason}"
    return f"{old} is now {new}: {change.reason}"


def _one_line(text: str) -> str:
    """Return a text that cannot leave its comment line."""
    return " ".join(text.split())
