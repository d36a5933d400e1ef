"""Pairings, their published acceptance, and what guides claim."""

from __future__ import annotations

from pathlib import Path

from capplan.facts.rows import PROVENANCE, Row, build, cited, filled, read_family
from capplan.schema.pairing import AcceptanceFact, Claim, Pairing
from capplan.schema.provenance import Kind, Source

PAIRING_COLUMNS = (
    *("target", "draft", "method", "draft_params", "default_num_speculative_tokens"),
    *("vocab_check", "licence", "exists", *PROVENANCE),
)
ACCEPTANCE_COLUMNS = (
    *("target", "draft", "method", "task", "temperature", "num_speculative_tokens"),
    *("tokens_per_round", "definition", "setting", *PROVENANCE),
)
CLAIM_COLUMNS = ("id", "topic", "subject", "figure", "value", "unit", *PROVENANCE)


def load_pairings(folder: Path) -> tuple[Pairing, ...]:
    """Load pairings; ids that nobody published carry ``exists`` false."""
    return tuple(cited(Pairing, row) for row in read_family(folder, PAIRING_COLUMNS))


def load_acceptance(folder: Path) -> tuple[AcceptanceFact, ...]:
    """Load published acceptance figures, in tokens a round with the bonus token."""
    return tuple(cited(AcceptanceFact, row) for row in read_family(folder, ACCEPTANCE_COLUMNS))


def load_claims(folder: Path) -> tuple[Claim, ...]:
    """Load figures that a guide states without a measurement."""
    return tuple(_claim(row) for row in read_family(folder, CLAIM_COLUMNS))


def _claim(row: Row) -> Claim:
    source = Source(
        kind=Kind.CLAIMED, reference=row.required("source"), date=row.cells["as_of"] or None
    )
    return build(Claim, row, {**filled(row, ("source", "as_of")), "source": source})
