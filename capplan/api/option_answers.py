"""Answers about one option of a plan: what is searched anew, and what keeps the option."""

from __future__ import annotations

from typing import Any

from capplan.api.infeasible_plans import MadeWith
from capplan.api.planned_fleet import OtherPriceWish, fleet_of, other_price, week_of
from capplan.api.questions import DEFAULT_MOVE, Commitment, Questions, Spot
from capplan.api.scenario_answers import sensitivity, vary
from capplan.economics.autoscaling import autoscale, replicas_by_hour
from capplan.economics.blends import blend_commitment, blend_spot
from capplan.economics.outlook import Fleet, grow, with_spares
from capplan.errors import RequestError
from capplan.facts.catalog import Catalog
from capplan.schema.answers import CommitmentBlend, PlanAnswers, SpotBlend
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.price import Purchase

SEARCHED_ANEW = (
    "sensitivity and scenarios: only the factors named move; drafts, N, GPUs and offers are "
    "searched anew among those of the plan's request, at its limits; with other lengths the "
    "requests a second stay (tokens a month, where the load is stated so)"
)
KEPT = (
    "the option stays as planned: draft, N, GPUs, offer, price, lengths, acceptance, and its "
    "planned utilisation"
)


def kept_option(
    plan: Plan, option: PlanOption, asked: Questions, catalog: Catalog
) -> dict[str, Any]:
    """Return the answers that keep the option, and what they hold fixed."""
    fleet = fleet_of(plan, option)
    found: dict[str, Any] = {}
    if asked.growth_per_month is not None:
        _needs_a_load(plan, "grow")
        budget = plan.request.budget_usd_per_month
        found["growth"] = grow(fleet, asked.growth_per_month, asked.months, budget)
    if asked.autoscale:
        _needs_a_load(plan, "follow")
        tokens, within_hour = week_of(plan, fleet)
        lag = asked.scale_up_lag_minutes
        found["autoscaling"] = autoscale(fleet, tokens, within_hour, lag)
    if asked.spares is not None:
        found["spares"] = with_spares(fleet, asked.spares)
    if asked.spot is not None:
        found["spot"] = _spot(plan, option, fleet, asked.spot, catalog)
    if asked.commitment is not None:
        found["commitment"] = _commitment(plan, option, fleet, asked.commitment, catalog)
    if found:
        found["held_fixed"] = (KEPT,)
    return found


def answer_option(
    plan: Plan, option: PlanOption, asked: Questions, given: MadeWith, name: str
) -> PlanAnswers:
    """Return every answer that was asked for about one option of a plan.

    Raises
    ------
    RequestError
        If the plan has no load to grow, no hours to follow, or no price is known.
    """
    found = PlanAnswers(
        plan=name,
        option=option.id,
        gpu_name=option.gpu_name,
        unit=option.unit,
        usd_per_month=option.usd_per_month.mid,
        usd_per_million_output_tokens=option.usd_per_million_output_tokens.mid,
        budget_usd_per_month=plan.request.budget_usd_per_month,
        **kept_option(plan, option, asked, given.catalog),
    )
    move_by = moved_by(asked)
    if move_by is None and asked.factors is None:
        return found
    made_with = plan, given.profiles, given.catalog, given.calibrations
    tornado, notes = sensitivity(*made_with, move_by) if move_by is not None else (None, ())
    scenarios = vary(*made_with, asked.factors) if asked.factors is not None else None
    update = {
        "sensitivity": tornado,
        "scenarios": scenarios,
        "held_fixed": (SEARCHED_ANEW, *found.held_fixed),
        "notes": notes,
    }
    return found.model_copy(update=update)


def moved_by(asked: Questions) -> float | None:
    """Return by how much assumptions are moved; None where that is not asked."""
    return DEFAULT_MOVE if asked.nothing_named else asked.move_by


def _needs_a_load(plan: Plan, verb: str) -> None:
    workload = plan.request.workload
    if workload.requests_per_s is None and workload.output_tokens_per_month is None:
        raise RequestError(
            f"The plan has no load to {verb}: it buys the most tokens for its budget.",
            "Plan with a load: capplan recommend --rate 6/s, or --workload FILE.",
        )


def _spot(plan: Plan, option: PlanOption, fleet: Fleet, wish: Spot, catalog: Catalog) -> SpotBlend:
    _on_demand_only(option)
    asked = OtherPriceWish(Purchase.SPOT, wish.usd_per_gpu_hour, "--spot-price")
    price = other_price(plan, option, fleet, asked, catalog)
    return blend_spot(fleet, wish.share, wish.interruption_overhead, price)


def _commitment(
    plan: Plan, option: PlanOption, fleet: Fleet, wish: Commitment, catalog: Catalog
) -> CommitmentBlend:
    _on_demand_only(option)
    asked = OtherPriceWish(Purchase.RESERVED, wish.usd_per_gpu_hour, "--commit-price")
    price = other_price(plan, option, fleet, asked, catalog)
    nodes: list[int] = []
    arrival = plan.request.workload.arrival
    if arrival is not None and (arrival.hour_of_day or arrival.day_of_week):
        tokens, within_hour = week_of(plan, fleet)
        replicas = replicas_by_hour(fleet, tokens * within_hour)
        nodes = [fleet.nodes(int(one)) for one in replicas]
    return blend_commitment(fleet, wish.share, price, nodes)


def _on_demand_only(option: PlanOption) -> None:
    if option.purchase is not Purchase.ON_DEMAND:
        raise RequestError(
            f"The option is bought {option.purchase.value}; a blend starts from one on demand.",
            "Choose another option with --option RANK, or plan with --purchase on-demand.",
        )
