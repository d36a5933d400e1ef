"""The guide's claims by id, and what the checks know from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from capplan.errors import FactsError
from capplan.schema.audit import (
    ClaimVerdict,
    ControllerReplay,
    Finding,
    PublishedRun,
    Ruling,
)
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Claim
from capplan.schema.provenance import Kind, Source

_FRACTIONS = frozenset(
    {
        *("acceptance_rate", "saving", "speedup_gain", "throughput_gain", "acceptance_gain"),
        "quality_loss",
    }
)
"""Figures that the guide prints in whole per cent."""


class Sheet:
    """The guide's figures by id; a check that asks for one that is gone says so."""

    def __init__(self, claims: Iterable[Claim]) -> None:
        self._claims = {claim.id: claim for claim in claims}

    def __iter__(self) -> Iterator[Claim]:
        """Iterate in the guide's own order."""
        return iter(self._claims.values())

    def __getitem__(self, claim_id: str) -> float:
        """Return a figure.

        Raises
        ------
        FactsError
            If the claims lack it.
        """
        if claim_id not in self._claims:
            raise FactsError(
                f"The guide's claims have no {claim_id!r}, which a check recomputes.",
                "Put the row back into models_db/claims/guide.csv.",
            )
        return self._claims[claim_id].value

    def ids(self) -> tuple[str, ...]:
        """Return every id, in the guide's order."""
        return tuple(self._claims)

    def section(self, claim_id: str) -> str:
        """Return the section of the guide that prints a figure."""
        return self._claims[claim_id].section

    def resolution(self, claim_id: str) -> float:
        """Return one unit of the last digit that the guide prints.

        A recomputed figure within it counts as the same: the guide rounds some figures and cuts
        off others.
        """
        value = self[claim_id]
        if self._claims[claim_id].figure in _FRACTIONS:
            return 0.01
        decimals = f"{value:.10f}".rstrip("0").partition(".")[2]
        return float(10 ** -len(decimals))


@dataclass(frozen=True)
class AuditEvidence:
    """Facts from outside the guide. Empty parts give no findings."""

    names: frozenset[str] = frozenset()
    """Ids of every LLM and hosted API that the catalogue knows."""
    llms: Mapping[str, LlmSpec] = field(default_factory=dict)
    gpu: GpuSpec | None = None
    """The GPU of the guide's measurements (A100 80 GB)."""
    gpu_hour_usd: tuple[float, ...] = ()
    """List prices of an hour of that GPU, on demand."""
    acceptance: tuple[AcceptanceFact, ...] = ()
    runs: tuple[PublishedRun, ...] = ()
    verification_ratios: tuple[float, ...] = ()
    rulings: tuple[Ruling, ...] = ()
    controller_replays: tuple[ControllerReplay, ...] = ()


Found = tuple[str, Finding]
"""A claim's id and what was found about it."""
EvidenceCheck = Callable[[Sheet, AuditEvidence], Iterator[Found]]
"""Holds figures against what stands outside the guide."""
SheetCheck = Callable[[Sheet], Iterator[Found]]
"""Holds figures of the guide against one another."""


def published(reference: str, date: str | None = None) -> Source:
    """Return a source outside the guide."""
    return Source(kind=Kind.CITED, reference=reference, date=date)


def inconsistent(
    reason: str, claims: tuple[str, ...] = (), recomputed: float | None = None
) -> Finding:
    """Return the finding that the guide disagrees with itself."""
    return Finding(
        verdict=ClaimVerdict.INCONSISTENT, reason=reason, claims=claims, recomputed=recomputed
    )


def contradicted(reason: str, source: Source, recomputed: float | None = None) -> Finding:
    """Return the finding that a measurement says otherwise."""
    return Finding(
        verdict=ClaimVerdict.CONTRADICTED, reason=reason, source=source, recomputed=recomputed
    )


def reproduced(
    reason: str,
    claims: tuple[str, ...] = (),
    recomputed: float | None = None,
    source: Source | None = None,
) -> Finding:
    """Return the finding that the figure comes out again."""
    return Finding(
        verdict=ClaimVerdict.REPRODUCED,
        reason=reason,
        claims=claims,
        recomputed=recomputed,
        source=source,
    )


def uncheckable(reason: str, source: Source | None = None) -> Finding:
    """Return the finding that nobody can tell, and what would."""
    return Finding(verdict=ClaimVerdict.CANNOT_BE_CHECKED, reason=reason, source=source)


RUNS = published("models_db/published, speedup.csv and throughput.csv, rows of quality ok")
