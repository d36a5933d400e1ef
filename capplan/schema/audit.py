"""An audited claim: what a guide says, and what becomes of it when it is checked."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from capplan.schema.base import Value
from capplan.schema.pairing import Claim
from capplan.schema.provenance import Source
from capplan.schema.quantity import Quantity


class ClaimVerdict(StrEnum):
    """What a check says of a claim, the strongest objection first."""

    DOES_NOT_EXIST = "does not exist"
    CONTRADICTED = "contradicted"
    INCONSISTENT = "inconsistent"
    REPRODUCED = "reproduced"
    CANNOT_BE_CHECKED = "cannot be checked"


class Finding(Value):
    """What one check says of one claim."""

    verdict: ClaimVerdict
    reason: str
    """One sentence or two, with the numbers."""
    recomputed: float | None = None
    """The figure as it comes out when computed, in the claim's unit."""
    claims: tuple[str, ...] = ()
    """Other claims of the same guide that the check used."""
    source: Source | None = None
    """Evidence from outside the guide; None where its own figures suffice."""


class AuditedClaim(Value):
    """A claim with everything found about it."""

    claim: Claim
    verdict: ClaimVerdict
    findings: tuple[Finding, ...] = Field(min_length=1)
    """The one that gives the verdict first."""

    @model_validator(mode="after")
    def _headline_first(self) -> Self:
        if self.findings[0].verdict is not self.verdict:
            msg = f"verdict {self.verdict} is not that of the first finding"
            raise ValueError(msg)
        return self

    @property
    def recomputed(self) -> float | None:
        """The first recomputed figure, if any check gave one."""
        found = (f.recomputed for f in self.findings if f.recomputed is not None)
        return next(found, None)

    @property
    def deviation(self) -> float | None:
        """Claimed over recomputed, less 1; None without a recomputed figure or for a zero."""
        recomputed = self.recomputed
        return self.claim.value / recomputed - 1 if recomputed else None


class Ruling(Value):
    """Evidence from outside, kept as data: it settles what no arithmetic can."""

    claims: str
    """Ids of the claims it speaks of, separated by blanks; ``*`` matches any characters."""
    verdict: ClaimVerdict
    name: str = ""
    """Name of a thing said not to exist; the ruling lapses once the catalogue lists it."""
    reason: str
    source: Source


class PublishedRun(Value):
    """One measured speedup from a publication, beside the run without speculation."""

    source_key: str
    target: str
    draft: str
    method: str
    gpu: str
    task: str
    temperature: float | None = None
    load: float | None = Field(default=None, gt=0)
    """Batch, or concurrent requests."""
    num_speculative_tokens: float | None = Field(default=None, ge=0)
    is_chain: bool = True
    """False where a tree of drafts was verified: more tokens than N + 1."""
    tokens_per_round: float | None = None
    speedup: float = Field(gt=0)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over drafted tokens; None for trees and where the source gives no N."""
        if self.tokens_per_round is None or not self.num_speculative_tokens or not self.is_chain:
            return None
        return (self.tokens_per_round - 1) / self.num_speculative_tokens


class ControllerReplay(Value):
    """What the guide's length controller gained on one set of traced requests; fractions."""

    pairing: str
    setting: str
    """Requests, load and order."""
    requests: int = Field(gt=0)
    best_n: int = Field(ge=0)
    """Best single length over the same requests."""
    guide_n: float = Field(ge=0)
    """Mean length that the controller chose."""
    over_five: Quantity | None = None
    over_best: Quantity


class GuideTopic(StrEnum):
    """Which list of the guide a point comes from."""

    CHECKLIST = "checklist"
    TROUBLESHOOTING = "troubleshooting"


class PointState(StrEnum):
    """How a plan or profile stands to a point of the guide."""

    KEPT = "kept"
    NOT_KEPT = "not kept"
    DOES_NOT_APPLY = "does not apply"
    APPLIES = "applies"
    """The symptom that a row of the troubleshooting table is about is there."""


class GuidePoint(Value):
    """One point of the guide's checklist or troubleshooting table, applied to numbers."""

    id: str
    topic: GuideTopic
    rule: str
    """The guide's rule, in a few words."""
    state: PointState
    says: str
    """What measurement says of it here, and what to do."""
