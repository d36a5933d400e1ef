"""What people ask of a plan that found nothing: what would make it feasible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capplan.api.collecting import paused_collection
from capplan.api.resolved_request import plan_inputs
from capplan.api.scenario_answers import check_profiles, vary
from capplan.facts.catalog import Catalog
from capplan.planning.ways_out import ways_out
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.answers import PlanAnswers, WayOut
from capplan.schema.fleet import ServiceFleet
from capplan.schema.plan import Plan

_ONE_AT_A_TIME = (
    "ways out: one thing changes, all others are as asked; drafts, N, GPUs and offers are "
    "searched anew"
)


@dataclass(frozen=True)
class MadeWith:
    """What a plan was made with."""

    profiles: Sequence[StoredProfile]
    catalog: Catalog
    calibrations: Sequence[StoredCalibration]


def answer_without_option(
    plan: Plan, name: str, factors: Mapping[str, Sequence[float]] | None, given: MadeWith
) -> PlanAnswers:
    """Return what budget, limits or load would make a plan feasible; scenarios where asked for.

    Raises
    ------
    RequestError
        If a profile of the plan is missing, or a factor is none.
    """
    check_profiles(plan, given.profiles)
    notes: list[str] = []
    found: tuple[WayOut, ...] | None
    if plan.fleet is not None:
        found = _of_fleet(plan.fleet)
    else:
        made_with = (given.profiles, given.catalog, given.calibrations)
        request, inputs = plan_inputs(plan.request, *made_with)
        with paused_collection():
            found = ways_out(inputs, request)
        if found is None:
            notes.append("made anew from these facts the plan is feasible; make it again")
    if not found:
        notes.append(plan.verdict.needed.rstrip(".") or plan.verdict.sentence.rstrip("."))
    scenarios = None
    if factors is not None:
        scenarios = vary(plan, given.profiles, given.catalog, given.calibrations, factors)
    return PlanAnswers(
        plan=name,
        budget_usd_per_month=(
            plan.fleet.budget_usd_per_month
            if plan.fleet is not None
            else plan.request.budget_usd_per_month
        ),
        ways_out=found or (),
        scenarios=scenarios,
        held_fixed=(_ONE_AT_A_TIME,),
        notes=tuple(notes),
    )


def _of_fleet(fleet: ServiceFleet) -> tuple[WayOut, ...]:
    """Return the budget that the cheapest way to place the services takes."""
    if not fleet.ways:
        return ()
    way = fleet.ways[0]
    usd = way.usd_per_month.mid
    return (
        WayOut(
            what="budget",
            unit="USD a month",
            asked=fleet.budget_usd_per_month,
            needed=math.ceil(usd * 100) / 100,
            usd_per_month=usd,
            tpot_ms=max(part.tpot_ms.mid for part in way.parts),
            choice=f"all services, {way.sharing}",
        ),
    )
