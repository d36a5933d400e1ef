"""What the guide's rules look at, the same for a plan and for a profile.

``from_plan`` and ``from_profile`` fill it in: numbers that decide a rule, each with the sentence
that says them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Judged:
    """Whether a rule is kept here, and the sentence; None where it does not apply."""

    kept: bool | None
    says: str


@dataclass(frozen=True)
class Gain:
    """What speculation gains at one temperature."""

    temperature: float
    pays: bool
    says: str


@dataclass(frozen=True)
class Symptom:
    """Whether a symptom of the troubleshooting table is there, and the sentence."""

    is_there: bool
    says: str


@dataclass(frozen=True)
class Situation:
    """One plan or one profile, as the guide's rules see it."""

    pairing: str
    """What target and draft are to each other."""
    lengths_say: str
    acceptance_says: str
    flag_says: str
    code: Judged
    maths: Judged
    eagle: Judged
    slow: Symptom
    memory: Symptom
    first_token: Symptom
    quality: Symptom
    families: tuple[str, str] | None = None
    """Of target and draft; None without a second LLM on record."""
    best_lengths: frozenset[int] = frozenset()
    """Fastest length at each load looked at; 0 means: do not speculate."""
    gains: tuple[Gain, ...] = ()
    flag_on: bool | None = False
    """Whether the V2 block manager is asked for; None where no engine is."""
    acceptance_rate: float | None = None
    """Accepted over drafted tokens."""
    target_params: float | None = None
