"""What people ask of a plan that found nothing: what would make it feasible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capplan.api.collecting import paused_collection
from capplan.api.resolved_request import plan_inputs
from capplan.api.scenario_answers import check_profiles, vary
from capplan.economics.bill import LARGEST_BILL_USD
from capplan.facts.catalog import Catalog
from capplan.planning.part_plans import requests_of_parts, requests_of_services
from capplan.planning.swings import scenarios_of_all
from capplan.planning.ways_out import SHARES_OF_LOAD, ways_out
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.answers import PlanAnswers, Scenarios, WayOut
from capplan.schema.plan import Plan, PlanRequest

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
        found = _of_fleet(plan, given) or _of_services(plan, given)
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
        scenarios = _scenarios(plan, factors, given)
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


def _scenarios(plan: Plan, factors: Mapping[str, Sequence[float]], given: MadeWith) -> Scenarios:
    """Return the scenarios of a plan, or of all parts of a fleet together."""
    made_with = (given.profiles, given.catalog, given.calibrations)
    if plan.fleet is None:
        return vary(plan, *made_with, factors)
    parts = {
        label: vary(_asking(plan, request), *made_with, factors)
        for label, request in requests_of_parts(plan).items()
    }
    return scenarios_of_all(parts, plan.fleet.budget_usd_per_month)


def _asking(plan: Plan, request: PlanRequest) -> Plan:
    """Return a plan that asks for one part, at any budget: only the sum has one."""
    anyhow = request.model_copy(update={"budget_usd_per_month": float(LARGEST_BILL_USD)})
    return plan.model_copy(update={"request": anyhow})


def _of_services(plan: Plan, given: MadeWith) -> tuple[WayOut, ...]:
    """Return what every service would need that nothing serves, at any budget."""
    assert plan.fleet is not None, "several services"
    lacking = {one.services[0] for one in plan.fleet.unplaced if len(one.services) == 1}
    made_with = (given.profiles, given.catalog, given.calibrations)
    found: list[WayOut] = []
    for name, asked in requests_of_services(plan.request).items():
        if name not in lacking:
            continue
        request, inputs = plan_inputs(_asking(plan, asked).request, *made_with)
        with paused_collection():
            ways = ways_out(inputs, request) or ()
        found += [way.model_copy(update={"services": name}) for way in ways]
    return tuple(found)


def _of_fleet(plan: Plan, given: MadeWith) -> tuple[WayOut, ...]:
    """Return the budget that the cheapest way to place the services takes, and the largest load.

    Empty where there is no way at all.
    """
    fleet = plan.fleet
    if fleet is None or not fleet.ways:
        return ()
    way = fleet.ways[0]
    usd = way.usd_per_month.mid
    choice = f"all services, {way.sharing}"
    budget = WayOut(
        what="budget",
        unit="USD a month",
        asked=fleet.budget_usd_per_month,
        needed=math.ceil(usd * 100) / 100,
        usd_per_month=usd,
        tpot_ms=max(part.tpot_ms.mid for part in way.parts),
        choice=choice,
    )
    rows = _scenarios(plan, {"load": SHARES_OF_LOAD}, given).rows
    served = next((row for row in rows if row["feasible"]), None)
    if served is None:
        return (budget,)
    load = WayOut.model_validate(
        {
            "what": "load",
            "unit": "of the load",
            "asked": 1.0,
            "needed": served["load_factor"],
            "usd_per_month": served["usd_per_month"],
            "tpot_ms": served["tpot_ms"],
            "choice": f"{choice}, each with as much less",
        }
    )
    return budget, load
