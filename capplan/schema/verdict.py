"""How far a measurement can be trusted, and why."""

from __future__ import annotations

from enum import StrEnum

from capplan.schema.base import Value


class Stability(StrEnum):
    """How far a measurement can be trusted."""

    STABLE = "stable"
    NOISY = "noisy"
    INVALID = "invalid"


class Reason(Value):
    """Why a verdict is not ``stable``: the number, its threshold, what to do."""

    check: str
    value: float
    threshold: float
    remedy: str


class Verdict(Value):
    """Stability of a cell or of the whole profile."""

    stability: Stability
    reasons: tuple[Reason, ...] = ()
