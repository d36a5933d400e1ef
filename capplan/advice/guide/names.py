"""Rulings, and whether a thing said not to exist has since appeared in the catalogue."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from capplan.advice.guide.sheet import AuditEvidence, Found, Sheet, uncheckable
from capplan.schema.audit import Finding, Ruling

_VERSION_DIGITS = 3
"""A bare number of up to three digits after a name goes on with its version: 4 is not 4.5."""


def is_known(name: str, known: Collection[str]) -> bool:
    """Return whether any known id is this name, or this name with a suffix.

    ``Llama 4 Maverick`` is ``meta-llama/Llama-4-Maverick-17B-128E-Instruct``; ``Claude Haiku 4``
    is not ``claude-haiku-4-5``, which is another version.
    """
    wanted = _parts(name)
    return any(_begins(_parts(other.rpartition("/")[2]), wanted) for other in known)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[^a-z0-9]+", name.lower()) if part)


def _begins(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if not wanted or parts[: len(wanted)] != wanted:
        return False
    rest = parts[len(wanted) :]
    goes_on = bool(rest) and rest[0].isdigit() and len(rest[0]) <= _VERSION_DIGITS
    return not (goes_on and wanted[-1][-1].isdigit())


def rulings(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Yield what the evidence file says, less what the catalogue has overtaken."""
    for ruling in evidence.rulings:
        finding = _finding(ruling, evidence)
        patterns = ruling.claims.split()
        for claim in sheet.ids():
            if any(fnmatchcase(claim, pattern) for pattern in patterns):
                yield claim, finding


def _finding(ruling: Ruling, evidence: AuditEvidence) -> Finding:
    if not ruling.name:
        return Finding(verdict=ruling.verdict, reason=ruling.reason, source=ruling.source)
    if is_known(ruling.name, evidence.names):
        return uncheckable(
            f"The catalogue has {ruling.name} by now; the guide describes no run that could be "
            "repeated with it.",
            ruling.source,
        )
    reason = f"{ruling.reason} The catalogue knows no {ruling.name} either."
    return Finding(verdict=ruling.verdict, reason=reason, source=ruling.source)
