"""Plans: a request and evidence in, ranked options out; and what to do with a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import capplan
from capplan.advice.guide.checklist import guide_checklist
from capplan.advice.rules import advise
from capplan.api.collecting import paused_collection
from capplan.api.notebook import Plan
from capplan.api.observed import split_observed, temperature_notes
from capplan.api.option_launches import Texts, with_launch
from capplan.api.option_schedules import plan_schedules
from capplan.api.resolved_request import plan_inputs
from capplan.facts.api_prices import current_api_prices, find_api_prices, hosted_as
from capplan.facts.catalog import Catalog, load_catalog
from capplan.planning.api_comparison import compare_option
from capplan.planning.inputs import PlanInputs
from capplan.planning.part_plans import the_part
from capplan.planning.peaks import outcome_by_mean, sized_for_peak, traffic_assumptions
from capplan.planning.planner import search
from capplan.planning.verdict import assumptions, verdict
from capplan.reporting.render import Format, render as render_plan
from capplan.schema import plan as schema
from capplan.schema.plan import Assumption, PlanOption, PlanRequest
from capplan.schema.price import ApiComparison
from capplan.schema.provenance import Kind

if TYPE_CHECKING:
    from capplan.planning.service_fleet import PlacedServices
    from capplan.profiles.calibration_file import StoredCalibration
    from capplan.profiles.store import StoredProfile
    from capplan.schema.answers import PlanAnswers

__all__ = [
    "compare_with_apis",
    "plan_inputs",
    "recommend",
    "render",
]


@dataclass(frozen=True)
class _Given:
    """What a plan is made from beside its request."""

    inputs: PlanInputs
    profiles: Sequence[StoredProfile]
    catalog: Catalog
    now: datetime


def recommend(
    request: PlanRequest,
    profiles: Sequence[StoredProfile] = (),
    catalog: Catalog | None = None,
    now: datetime | None = None,
    calibrations: Sequence[StoredCalibration] = (),
) -> Plan:
    """Rank the ways to serve a load within a budget; without a load, by the tokens it buys.

    Parameters
    ----------
    request
        Targets, traffic, limits, budget and filters. Short names are resolved by the catalogue;
        targets and drafts may be directories with a ``config.json``. A workload without a rate
        asks for the most output tokens that the budget buys. Several ``services`` are placed
        apart and on shared replicas; the plan is then of the largest part of the cheaper way.
    profiles
        Profiles to use: their acceptance holds on any hardware, their step times on theirs.
        Those that only observed a served load (``capplan import``) give acceptance.
    catalog
        Facts; the shipped ones by default.
    now
        Time written into the plan; the clock by default.
    calibrations
        Constants fitted by ``capplan calibrate``: they replace the shipped ones on their GPU.

    Returns
    -------
    Plan
        Ranked options, best first. ``plan.verdict.feasible`` is False if there is none; that is
        an answer, with what it would take, not an error.

    Raises
    ------
    UnknownIdError
        If a target, GPU or provider is not known.
    ProfileInvalidError
        If a profile judged itself invalid.
    RequestError
        If a calibration is of another engine, two are of the same GPU, or one of several services
        has no rate.
    """
    catalog = catalog if catalog is not None else load_catalog()
    now = now if now is not None else datetime.now(UTC)
    with paused_collection():
        request, inputs = plan_inputs(request, profiles, catalog, calibrations)
        given = _Given(inputs, profiles, catalog, now)
        return _of_services(request, given) if request.services else _plan(request, given)


def _of_services(request: PlanRequest, given: _Given) -> Plan:
    """Plan the largest part of the cheapest way, and show all parts of all ways beside it."""
    from capplan.planning.service_answers import fleet_of_services
    from capplan.planning.service_fleet import place_services
    from capplan.planning.service_groups import completed_services, of_one_service

    if len(request.services) == 1:
        return _plan(of_one_service(request), given)
    texts: Texts = {}

    def launched(placed: PlacedServices) -> PlanOption:
        return with_launch(placed.option, given.inputs, placed.request, texts)

    found = place_services(given.inputs, request)
    plan = _plan(found.main, given)
    fleet = fleet_of_services(found, request, launched)
    kept = plan.request.model_copy(update={"services": completed_services(request)})
    if not fleet.within_budget:
        nothing = {"options": (), "baseline": None, "api_comparisons": (), "schedules": ()}
        plan = plan.model_copy(update=nothing)
    said = plan.verdict.model_copy(
        update={
            "feasible": fleet.within_budget,
            "sentence": " ".join(
                [fleet.sentence, *([plan.verdict.sentence] if fleet.within_budget else [])]
            ),
            "needed": "" if fleet.within_budget else fleet.needed,
        }
    )
    return plan.model_copy(update={"request": kept, "fleet": fleet, "verdict": said})


def _plan(request: PlanRequest, given: _Given) -> Plan:
    inputs = given.inputs
    outcome = outcome_by_mean(search(inputs, sized_for_peak(request)), request)
    texts: Texts = {}
    launched = [with_launch(option, inputs, request, texts) for option in outcome.options]
    baseline = outcome.baseline
    plan = Plan(
        created_at=given.now.isoformat(timespec="seconds"),
        capplan_version=capplan.__version__,
        request=request,
        verdict=verdict(outcome, request),
        options=tuple(launched),
        baseline=(with_launch(baseline, inputs, request, texts) if baseline is not None else None),
        rejections=outcome.rejections,
        assumptions=(
            *assumptions(outcome, request, inputs.engine),
            *traffic_assumptions(request),
            *temperature_notes(split_observed(given.profiles)[1], request),
            _price_origin(given.catalog),
        ),
        schedules=plan_schedules(outcome.options, request, inputs),
        profiles=tuple(stored.profile.id for stored in given.profiles),
        candidates=outcome.candidates,
    )
    experts = {llm.id for llm in inputs.llms.values() if llm.is_moe}
    if request.compare_api and plan.options:
        compared = compare_with_apis(plan, request.compare_api, now=given.now)
        plan = plan.model_copy(update={"api_comparisons": compared})
    advice = advise(plan, as_of=given.now.date(), moe_targets=experts)
    checklist = guide_checklist(plan, dict(inputs.llms), given.catalog.acceptance)
    return plan.model_copy(update={"advice": advice, "guide_checklist": checklist})


def _price_origin(catalog: Catalog) -> Assumption:
    dates = sorted({price.source.date for price in catalog.prices if price.source.date})
    undated = sum(price.source.date is None for price in catalog.prices)
    span = f", read {' to '.join(dict.fromkeys((dates[0], dates[-1])))}" if dates else ""
    offers = f"{len(catalog.prices)} offer{'' if len(catalog.prices) == 1 else 's'}"
    return Assumption(
        name="Prices",
        value=f"{offers}{span}, {undated} undated",
        kind=Kind.CITED,
        source=catalog.price_origin,
    )


def compare_with_apis(
    plan: schema.Plan,
    names: Sequence[str] | str = (),
    *,
    rank: int = 1,
    service: str | None = None,
    cached_input_share: Decimal | None = None,
    now: datetime | None = None,
) -> tuple[ApiComparison, ...]:
    """Return the bill of one of a plan's options beside hosted LLMs, cheapest API first.

    Parameters
    ----------
    plan
        A plan with at least one option.
    names
        Hosted LLMs (``llama-3.1-8b-instant``, ``groq:llama-3.1-8b-instant``); empty for those
        that bear the target's name. Same name does not mean same weights.
    rank
        Which option, 1 for the recommended one.
    service
        Of a plan of several services: which one's replicas.
    cached_input_share
        Share of the prompts that the API has cached; that of the request by default.
    now
        Time at which API prices hold; the clock by default.

    Raises
    ------
    UnknownIdError
        If no provider lists a name.
    RequestError
        If the plan has no such option, or several sets of replicas and no ``service`` is named.
    """
    part = the_part(plan, service, rank)
    table = current_api_prices(load_catalog().api_prices, now or datetime.now(UTC))
    asked = (names,) if isinstance(names, str) else names
    found = [price for name in asked for price in find_api_prices(table.prices, name)]
    prices = dict.fromkeys(found if asked else hosted_as(table.prices, part.option.target))
    return compare_option(part.option, part.plan.request, prices, cached_input_share)


def render(plan: schema.Plan, fmt: Format | str, answers: PlanAnswers | None = None) -> str:
    """Return the plan as text in one of the formats; a page also holds the guide's audit.

    Parameters
    ----------
    plan, fmt
        What to render, and how.
    answers
        For a page: what the bill hangs on (:func:`capplan.api.reports.what_it_hangs_on`).

    Raises
    ------
    RequestError
        For a format that does not exist.
    """
    if fmt != "html":
        return render_plan(plan, fmt, answers=answers)
    from capplan.api.guide import audit_guide

    return render_plan(plan, fmt, audit_guide(), answers)
