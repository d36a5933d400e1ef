"""How far to trust a plan: what was measured, what was read, what was only assumed.

Three things carry every figure: the step time, the acceptance, the price. Each is graded by what
it rests on, and the plan is trusted as far as the weakest of the three, unless it is not decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import IntEnum

from capplan.reporting import formatting as fmt, labels
from capplan.schema.plan import Plan, PlanOption, Tier
from capplan.schema.price import STALE_AFTER_DAYS, age_days
from capplan.schema.provenance import Kind


class Grade(IntEnum):
    """How far a part can be trusted."""

    LOW = 0
    FAIR = 1
    HIGH = 2

    @property
    def word(self) -> str:
        """The grade as it is shown."""
        return self.name.lower()


@dataclass(frozen=True)
class Part:
    """One thing that the plan rests on."""

    name: str
    means: str
    """The same for who does not know the name."""
    grade: Grade
    says: str
    origin: str
    """The origin on the page that tells more."""


@dataclass(frozen=True)
class Confidence:
    """The grade of a plan, its parts, and the command that would raise it."""

    grade: Grade
    decided: bool
    parts: tuple[Part, ...]
    settled_by: str

    @property
    def headline(self) -> str:
        """Return ``Confidence: fair``, or that it is open."""
        return f"Confidence: {self.grade.word}" if self.decided else "Not decided"

    @property
    def reason(self) -> str:
        """Name the parts that hold the grade down."""
        if not self.decided:
            return "The interval of the speedup holds 1: speculation may cost more than it gains."
        weakest = [part.name.lower() for part in self.parts if part.grade is self.grade]
        if self.grade is Grade.HIGH:
            return "Everything that decides it was measured, or read on a known day."
        return f"As sure as its weakest part: the {' and the '.join(weakest)}."


_TIER_GRADES = {Tier.PROFILED: Grade.HIGH, Tier.ANCHORED: Grade.FAIR, Tier.DATASHEET: Grade.LOW}
_KIND_GRADES = {
    Kind.MEASURED: Grade.HIGH,
    Kind.CITED: Grade.FAIR,
    Kind.DERIVED: Grade.FAIR,
    Kind.ASSUMED: Grade.LOW,
    Kind.CLAIMED: Grade.LOW,
}


def build_confidence(plan: Plan, option: PlanOption) -> Confidence:
    """Return how far one of the plan's options can be trusted."""
    parts = tuple(_parts(option, plan.created_at))
    return Confidence(
        grade=min(part.grade for part in parts),
        decided=plan.verdict.decided,
        parts=parts,
        settled_by=plan.verdict.settled_by,
    )


def _parts(option: PlanOption, planned_at: str) -> Iterator[Part]:
    yield Part(
        "Step time",
        f"How long one pass of the LLM takes on the {option.unit}",
        _TIER_GRADES[option.tier],
        f"{labels.TIERS[option.tier]}: {option.tier_note}",
        "step-time",
    )
    if option.acceptance is not None:
        kind = option.acceptance.source.kind
        tokens = fmt.number_interval(option.acceptance.tokens_per_round)
        yield Part(
            "Acceptance",
            "How much of what is drafted is kept",
            _KIND_GRADES[kind],
            f"{labels.KINDS[kind]}: {tokens} tokens a round",
            "acceptance",
        )
    yield _price(option, planned_at)


def _price(option: PlanOption, planned_at: str) -> Part:
    source = option.price_source
    age = _age_days(option, planned_at)
    if source.kind is Kind.ASSUMED:
        grade, says = Grade.FAIR, "stated by you, not checked"
    elif source.date is None:
        grade, says = Grade.FAIR, "published, without a day"
    elif age is not None and age > STALE_AFTER_DAYS:
        grade, says = Grade.FAIR, f"published, read {source.date}, {age} days before this plan"
    else:
        grade, says = Grade.HIGH, f"published, read {source.date}"
    if option.price_tier not in labels.LIST_TIERS:
        grade, says = Grade.LOW, f"{says}; {option.price_tier} offers come and go"
    return Part("Price", f"What an hour of the {option.unit} costs", grade, says, "price")


def _age_days(option: PlanOption, planned_at: str) -> int | None:
    try:
        day = date.fromisoformat(planned_at[:10])
    except ValueError:
        return None
    return age_days(option.price_source, day)
