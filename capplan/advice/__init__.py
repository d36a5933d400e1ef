"""Numbers to a sentence and a remedy."""

from __future__ import annotations

from capplan.advice.rules import advise

__all__ = ["advise"]
