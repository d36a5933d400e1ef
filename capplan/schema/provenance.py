"""Where a number comes from."""

from __future__ import annotations

from enum import StrEnum

from capplan.schema.base import Value


class Kind(StrEnum):
    """How a number was obtained, strongest first."""

    MEASURED = "measured"
    CITED = "cited"
    DERIVED = "derived"
    ASSUMED = "assumed"
    CLAIMED = "claimed"


class Source(Value):
    """One origin of a number."""

    kind: Kind
    reference: str
    """Profile id, publication, price list, or the formula and its inputs."""
    date: str | None = None
    """ISO date on which it was true, as far as the source tells."""
    note: str = ""

    def __str__(self) -> str:
        """One line for people: kind, reference, date."""
        dated = f", {self.date}" if self.date else ""
        return f"{self.kind.value}: {self.reference}{dated}"


_STRENGTH = {kind: rank for rank, kind in enumerate(Kind)}


def weakest(*kinds: Kind) -> Kind:
    """Return the weakest of the kinds: what a figure combined from them may claim to be.

    Raises
    ------
    ValueError
        If no kind is given.
    """
    return max(kinds, key=_STRENGTH.__getitem__)
