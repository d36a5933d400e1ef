"""Answers about a fleet in several parts: what is asked applies to each, and dollars add up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from capplan.api.infeasible_plans import MadeWith
from capplan.api.option_answers import answer_option
from capplan.api.questions import Questions
from capplan.economics.bill import LARGEST_BILL_USD
from capplan.errors import RequestError
from capplan.planning.fleet_sums import (
    autoscaling_of_all,
    blend_of_all,
    growth_of_all,
    spares_of_all,
    usd_per_million,
)
from capplan.planning.part_plans import PartPlan, part_plans
from capplan.planning.swings import scenarios_of_all, sensitivity_of_all
from capplan.schema.answers import PlanAnswers
from capplan.schema.plan import Plan

_EVERY_PART = (
    "services stay on the replicas that they share in the plan; what is asked applies to every "
    "part at once, a factor on the load to the load of every service; dollars, replicas and "
    "tokens are sums over the parts, the budget is that of all, TPOT that of the slowest part"
)
_SPARES = "spares: every part has the same number of its own, as no part can lend another one"
_FIRST_PART = "growth: outgrown is the first part; utilisation is that of the busiest part"


def answer_fleet(
    plan: Plan, rank: int, asked: Questions, given: MadeWith, name: str
) -> PlanAnswers:
    """Return every answer that was asked for about all parts of a fleet together.

    Raises
    ------
    RequestError
        As of one option, with the services that it is about; if one price is stated for parts on
        several GPUs.
    """
    assert plan.fleet is not None, "a fleet in parts"
    budget = plan.fleet.budget_usd_per_month
    paid, best = part_plans(plan, rank), part_plans(plan)
    _one_price(paid, asked)
    parts = {
        one.label: _of_part(one, searched, asked, given)
        for one, searched in zip(paid, best, strict=True)
    }
    each = tuple(
        part.model_copy(update={"budget_usd_per_month": budget, "services": label, "plan": name})
        for label, part in parts.items()
    )
    options = [part.option for part in paid]
    bills = [(one.usd_per_month.mid, one.usd_per_million_output_tokens.mid) for one in options]
    return PlanAnswers(
        plan=name,
        option="; ".join(f"{part.label}: {part.option.id}" for part in paid),
        gpu_name=", ".join(dict.fromkeys(one.gpu_name for one in options)),
        unit=" or ".join(dict.fromkeys(one.unit for one in options)),
        usd_per_month=sum(usd for usd, _ in bills),
        usd_per_million_output_tokens=usd_per_million(bills),
        budget_usd_per_month=budget,
        **_together(parts, budget),
        parts=each,
        held_fixed=tuple(_held_fixed(each, asked)),
        notes=tuple(_notes(parts, rank)),
    )


def _of_part(paid: PartPlan, searched: PartPlan, asked: Questions, given: MadeWith) -> PlanAnswers:
    """Return the answers of one part, at any budget: only the sum has one."""
    request = searched.plan.request.model_copy(
        update={"budget_usd_per_month": float(LARGEST_BILL_USD)}
    )
    plan = searched.plan.model_copy(update={"request": request})
    try:
        return answer_option(plan, paid.option, asked, given, paid.label)
    except RequestError as error:
        raise RequestError(f"{paid.label}: {error.message}", error.remedy) from error


def _one_price(parts: Sequence[PartPlan], asked: Questions) -> None:
    """Refuse one stated price for different GPUs."""
    stated = [
        flag
        for flag, wish in (("--spot-price", asked.spot), ("--commit-price", asked.commitment))
        if wish is not None and wish.usd_per_gpu_hour is not None
    ]
    gpus = dict.fromkeys(part.option.gpu_name for part in parts)
    if stated and len(gpus) > 1:
        raise RequestError(
            f"{stated[0]} is the price of one kind of GPU, and the fleet has {', '.join(gpus)}.",
            "Leave it out where the provider's prices are known, or ask part by part: "
            "--service NAME.",
        )


_SUMS: dict[str, tuple[str, Callable[..., Any]]] = {
    "autoscaling": ("autoscaling", autoscaling_of_all),
    "spares": ("spares", spares_of_all),
    "spot": ("spot_total", blend_of_all),
    "commitment": ("commitment_total", blend_of_all),
}


def _together(parts: dict[str, PlanAnswers], budget_usd: float) -> dict[str, Any]:
    """Return the sums of all that was asked."""
    found: dict[str, Any] = {}
    for name, (total, add) in _SUMS.items():
        answers = [getattr(part, name) for part in parts.values()]
        if answers[0] is not None:
            found[total] = add(answers)
    first = next(iter(parts.values()))
    if first.growth is not None:
        growths = [part.growth for part in parts.values() if part.growth is not None]
        found["growth"] = growth_of_all(growths, budget_usd)
    if first.sensitivity is not None:
        moved = {label: part.sensitivity for label, part in parts.items() if part.sensitivity}
        found["sensitivity"] = sensitivity_of_all(moved, budget_usd)
    if first.scenarios is not None:
        rows = {label: part.scenarios for label, part in parts.items() if part.scenarios}
        found["scenarios"] = scenarios_of_all(rows, budget_usd)
    return found


def _held_fixed(parts: Sequence[PlanAnswers], asked: Questions) -> list[str]:
    said = [_EVERY_PART, *(one for part in parts for one in part.held_fixed)]
    if asked.spares is not None:
        said.append(_SPARES)
    if asked.growth_per_month is not None:
        said.append(_FIRST_PART)
    return list(dict.fromkeys(said))


def _notes(parts: dict[str, PlanAnswers], rank: int) -> list[str]:
    notes = [f"{label}: {note}" for label, part in parts.items() for note in part.notes]
    if rank != 1:
        notes.insert(
            0,
            f"option {rank} is one of the largest part; sensitivity and scenarios are of option 1",
        )
    return notes
