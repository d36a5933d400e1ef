"""Every claim of the guide to a verdict: all checks run, the strongest finding leads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from capplan.advice.guide import (
    arithmetic,
    formula,
    hardware,
    limits,
    measured,
    measured_acceptance,
    names,
    tables,
    tiers,
)
from capplan.advice.guide.sheet import AuditEvidence, EvidenceCheck, Sheet, SheetCheck, uncheckable
from capplan.schema.audit import AuditedClaim, ClaimVerdict, Finding
from capplan.schema.pairing import Claim

AGAINST_EVIDENCE: tuple[EvidenceCheck, ...] = (
    names.rulings,
    measured.headline_speedups,
    measured.verification_cost,
    measured.best_length,
    measured.length_range,
    measured_acceptance.temperature_one,
    measured_acceptance.task_order,
    measured_acceptance.eagle_acceptance,
    measured.acceptance_thresholds,
    measured.small_drafts,
    measured.adaptive_gain,
    hardware.sizes,
    hardware.bandwidth,
    hardware.memory,
    hardware.gpu_hours,
)
AGAINST_ITSELF: tuple[SheetCheck, ...] = (
    tables.promised_and_measured,
    formula.one_cost_ratio,
    tables.same_acceptance,
    formula.off_rule,
    formula.ceilings,
    tables.lengths,
    tables.cost_table,
    limits.size_rule,
    limits.own_thresholds,
    tiers.levels,
    arithmetic.derived_figures,
)
UNSPOKEN = uncheckable(
    "No check and no evidence speaks of this figure yet: add a row to models_db/claims/evidence."
)
"""For figures added by others; none that ships is left with it."""
_RANK = {verdict: rank for rank, verdict in enumerate(ClaimVerdict)}


def audit_claims(claims: Iterable[Claim], evidence: AuditEvidence) -> tuple[AuditedClaim, ...]:
    """Return every claim with its verdict, in the guide's order.

    Raises
    ------
    FactsError
        If a figure that a check recomputes from is gone.
    """
    sheet = Sheet(claims)
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    checked = chain(
        *(check(sheet, evidence) for check in AGAINST_EVIDENCE),
        *(check(sheet) for check in AGAINST_ITSELF),
    )
    for claim_id, finding in checked:
        found[claim_id].append(finding)
    return tuple(_audited(claim, found[claim.id]) for claim in sheet)


def _audited(claim: Claim, findings: list[Finding]) -> AuditedClaim:
    ranked = sorted(findings or [UNSPOKEN], key=lambda finding: _RANK[finding.verdict])
    return AuditedClaim(claim=claim, verdict=ranked[0].verdict, findings=tuple(ranked))
