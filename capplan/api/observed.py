"""Profiles that only observed a served load, as facts that a plan works from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from capplan.facts.catalog import Catalog
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Pairing
from capplan.schema.plan import Assumption, PlanRequest
from capplan.schema.provenance import Kind

if TYPE_CHECKING:
    from capplan.profiles.store import StoredProfile
    from capplan.schema.profile import Profile


def split_observed(
    profiles: Sequence[StoredProfile],
) -> tuple[list[StoredProfile], list[Profile]]:
    """Return profiles with timing, and those that hold observations only."""
    if not profiles:
        return [], []
    from capplan.estimate.observed import only_observed

    timed = [stored for stored in profiles if not only_observed(stored.profile)]
    return timed, [stored.profile for stored in profiles if only_observed(stored.profile)]


def with_observed(catalog: Catalog, profiles: Sequence[Profile]) -> Catalog:
    """Return the catalogue with what profiles observed in place of what is published.

    Acceptance seen on one's own traffic replaces every published figure of the same pair; pairs
    and checkpoints that the catalogue lacks are added.

    Raises
    ------
    ProfileInvalidError
        If nothing of a profile can be planned with.
    """
    if not profiles:
        return catalog
    from capplan.estimate.observed import LOOKUP, observed_acceptance

    facts = [fact for profile in profiles for fact in observed_acceptance(profile)]
    if not facts:
        return catalog
    seen = {_pair(fact) for fact in facts}
    known = {(one.target, one.draft, one.method) for one in catalog.pairings}
    pairings = {
        _pair(fact): Pairing(
            target=fact.target, draft=fact.draft, method=fact.method, source=fact.source
        )
        for fact in facts
        if _pair(fact) not in known and fact.method not in LOOKUP
    }
    have = {llm.id for llm in catalog.llms}
    specs = {spec.id: spec for profile in profiles for spec in _specs(profile)}
    return replace(
        catalog,
        llms=(*catalog.llms, *(spec for name, spec in specs.items() if name not in have)),
        pairings=(*catalog.pairings, *pairings.values()),
        acceptance=(*(old for old in catalog.acceptance if _pair(old) not in seen), *facts),
    )


def _pair(fact: AcceptanceFact) -> tuple[str, str, str]:
    return fact.target, fact.draft, fact.method


def _specs(profile: Profile) -> list[LlmSpec]:
    from capplan.schema.measured_setup import ModelDraft

    drafts = [profile.draft.llm.spec] if isinstance(profile.draft, ModelDraft) else []
    return [profile.target.spec, *drafts]


def temperature_notes(profiles: Sequence[Profile], request: PlanRequest) -> list[Assumption]:
    """Return a warning for each profile whose temperatures are not the one planned for."""
    if not profiles:
        return []
    from capplan.estimate.observed import observed_acceptance

    wanted = request.workload.temperature
    notes = []
    for profile in profiles:
        at = {fact.temperature for fact in observed_acceptance(profile)}
        if wanted in at:
            continue
        shown = ", ".join("an unknown one" if t is None else f"{t:g}" for t in sorted(at, key=str))
        notes.append(
            Assumption(
                name="Acceptance temperature",
                value=f"observed at temperature {shown}, planned at {wanted:g}: carried over with "
                "a wider interval; observe at the temperature you serve",
                kind=Kind.DERIVED,
                source=f"profile {profile.id}",
            )
        )
    return notes
