"""The popular guide: its figures audited, its advice applied to plans and profiles."""

from __future__ import annotations

from pathlib import Path

from capplan.advice.guide.audit import audit_claims
from capplan.advice.guide.checklist import profile_checklist
from capplan.advice.guide.sheet import AuditEvidence
from capplan.errors import CapplanError
from capplan.estimate.evidence import evidence_from_profile
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.lookup import resolve
from capplan.facts.published import (
    load_controller_replays,
    load_published_runs,
    load_rulings,
    load_verification_ratios,
)
from capplan.profiles.store import StoredProfile, load_profile
from capplan.reporting.plan_file import load_plan
from capplan.schema.audit import AuditedClaim, ClaimVerdict, GuidePoint
from capplan.schema.price import Purchase


def audit_guide(
    *,
    topic: str | None = None,
    verdict: ClaimVerdict | None = None,
    catalog: Catalog | None = None,
) -> tuple[AuditedClaim, ...]:
    """Return every figure of a popular guide with a verdict: reproduced, or what objects.

    Parameters
    ----------
    topic, verdict
        Only claims of this topic, only those with this verdict.
    catalog
        Facts; the shipped ones by default.

    Raises
    ------
    UnknownIdError
        If no claim has this topic.
    FactsError
        If a figure that others are recomputed from is gone.
    """
    catalog = catalog if catalog is not None else load_catalog()
    wanted = topic and resolve(topic, (claim.topic for claim in catalog.claims), "topic")
    return tuple(
        audited
        for audited in audit_claims(catalog.claims, _audit_evidence(catalog))
        if wanted in (None, audited.claim.topic) and verdict in (None, audited.verdict)
    )


_AUDITED_GPUS = ("a100-sxm-40gb", "a100-sxm-80gb")
"""What the guide measured on; it does not say which of the two."""


def _audit_evidence(catalog: Catalog) -> AuditEvidence:
    published = catalog.directory / "published"
    offers = (
        price
        for gpu in _AUDITED_GPUS
        for price in catalog.prices_for(gpu, purchases=[Purchase.ON_DEMAND], tiers=["list"])
    )
    return AuditEvidence(
        names=frozenset(
            (
                *(llm.id for llm in catalog.llms),
                *(llm.id for llm in catalog.incomplete_llms),
                *(price.model for price in catalog.api_prices),
            )
        ),
        llms={llm.id: llm for llm in catalog.llms},
        gpu=catalog.gpu(_AUDITED_GPUS[-1]),
        gpu_hour_usd=tuple(float(price.usd_per_gpu_hour) for price in offers),
        acceptance=catalog.acceptance,
        runs=load_published_runs(published),
        verification_ratios=load_verification_ratios(published),
        rulings=load_rulings(catalog.directory / "claims" / "evidence"),
        controller_replays=load_controller_replays(catalog.directory / "claims" / "controllers"),
    )


def guide_points(path: Path | str) -> tuple[GuidePoint, ...]:
    """Return the guide's checklist and troubleshooting table applied to a plan or profile.

    Raises
    ------
    CapplanError
        If the file is neither, or a profile whose verdict is ``invalid``.
    """
    try:
        return load_plan(path).guide_checklist
    except CapplanError as not_a_plan:
        try:
            stored = load_profile(path)
        except CapplanError:
            raise not_a_plan from None
    return profile_points(stored)


def profile_points(stored: StoredProfile) -> tuple[GuidePoint, ...]:
    """Return the guide's checklist and troubleshooting table applied to a profile."""
    return profile_checklist(evidence_from_profile(stored.profile, stored.arrays))
