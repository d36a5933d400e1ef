"""Whether a plan still stands when a later profile is taken for it."""

from __future__ import annotations

from capplan.api.plans import plan_inputs, recommend
from capplan.api.speed_change import SpeedPoint
from capplan.errors import RequestError
from capplan.estimate.evidence import ProfileEvidence
from capplan.planning.part_plans import PartPlan, part_plans
from capplan.planning.plan_difference import bill_usd
from capplan.planning.reevaluation import Reevaluated, reevaluate
from capplan.profiles.store import StoredProfile
from capplan.schema.difference import PlanCheck, Standing
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption

NOTICEABLE = 0.01
"""A better option counts from one per cent of the dollars a token on: below, the plan's own
rounding to whole nodes and prices a day older decide."""


def planned_option(plan: Plan) -> PlanOption:
    """Return the recommended option.

    Raises
    ------
    RequestError
        If the plan has none.
    """
    if not plan.options:
        raise RequestError(
            "The plan has no option, so there is nothing to check.",
            "Give a plan that found one: capplan recommend ... -o plan.json",
        )
    return plan.options[0]


def plan_for(plan: Plan, stored: StoredProfile) -> PartPlan:
    """Return what a profile can say something of: the plan, or the largest part on its LLM."""
    if plan.fleet is None or not plan.options:
        return PartPlan((), plan)
    target = stored.profile.target.spec.id
    parts = [part for part in part_plans(plan) if part.option.target == target]
    return max(parts, key=lambda part: part.option.usd_per_month.mid, default=PartPlan((), plan))


def plan_point(plan: Plan, evidence: ProfileEvidence) -> SpeedPoint | None:
    """Return where a plan's speedup stands, if the profile traced its temperature."""
    option, workload = planned_option(plan), plan.request.workload
    if option.num_speculative_tokens == 0:
        return None
    traced = sorted({trace.temperature for trace in evidence.traces})
    if not traced:
        return None
    nearest = min(traced, key=lambda value: abs(value - workload.temperature))
    return SpeedPoint(
        num_speculative_tokens=option.num_speculative_tokens,
        batch=option.concurrency,
        context=workload.prompt_tokens + workload.output_tokens / 2,
        temperature=nearest,
    )


def check_target(plan: Plan, stored: StoredProfile) -> None:
    """Refuse a profile of another LLM than the plan's.

    Raises
    ------
    RequestError
        If the targets differ.
    """
    target = stored.profile.target.spec.id
    if planned_option(plan).target != target:
        raise RequestError(
            f"The plan serves {planned_option(plan).target}, the profile is of {target}.",
            "Give a profile of the plan's target.",
        )


def check_plan(plan: Plan, stored: StoredProfile) -> PlanCheck:
    """Evaluate a plan's recommended option with a profile, and search anew.

    The option is evaluated at its own N, price and load. The new search has the plan's request,
    the profile and the catalogue's prices of today.

    Raises
    ------
    RequestError
        If the plan has no option, or the profile is of another LLM.
    """
    check_target(plan, stored)
    option = planned_option(plan)
    request, inputs = plan_inputs(plan.request, [stored])
    now = reevaluate(inputs, request, option)
    best = next(iter(recommend(plan.request, [stored]).options), None)
    standing = _standing(option, now, best)
    return PlanCheck(
        standing=standing,
        decided=_decided(option, now),
        option=option.id,
        speedup_planned=option.speedup,
        speedup_now=now.option.speedup if now.option else None,
        usd_per_month_planned=bill_usd(option),
        usd_per_month_now=bill_usd(now.option) if now.option else None,
        usd_per_million_planned=option.usd_per_million_output_tokens.mid,
        usd_per_million_now=_million(now.option),
        best_option=best.id if best else None,
        best_usd_per_month=bill_usd(best) if best else None,
        best_usd_per_million=_million(best),
        sentence=_sentence(standing, option, now, best),
    )


def _million(option: PlanOption | None) -> float | None:
    return option.usd_per_million_output_tokens.mid if option is not None else None


def _standing(option: PlanOption, now: Reevaluated, best: PlanOption | None) -> Standing:
    if now.option is None:
        return Standing.BREAKS_LIMITS
    if option.method is not Method.NONE and now.option.speedup.mid <= 1:
        return Standing.DOES_NOT_PAY
    ours, theirs = now.option.usd_per_million_output_tokens.mid, _million(best)
    if best is not None and theirs is not None and _is_other(best, option):
        return Standing.NOT_BEST if theirs < ours * (1 - NOTICEABLE) else Standing.STANDS
    return Standing.STANDS


def _is_other(best: PlanOption, option: PlanOption) -> bool:
    return best.id != option.id


def _decided(option: PlanOption, now: Reevaluated) -> bool:
    if option.method is Method.NONE or now.option is None:
        return True
    return not now.option.speedup.low < 1 < now.option.speedup.high


def _sentence(
    standing: Standing, option: PlanOption, now: Reevaluated, best: PlanOption | None
) -> str:
    if now.option is None:
        return f"The option cannot be served any more: {now.why_not}."
    before, after = bill_usd(option), bill_usd(now.option)
    text = (
        f"Speedup {option.speedup.mid:.2f}x as planned, {now.option.speedup.mid:.2f}x now; "
        f"{before:,.2f} USD a month as planned, {after:,.2f} now."
    )
    if standing is Standing.DOES_NOT_PAY:
        return f"{text} Plain decoding is faster on the same GPUs."
    theirs, ours = _million(best), _million(now.option)
    if standing is Standing.NOT_BEST and best is not None and theirs and ours:
        saved = 1 - theirs / ours
        return f"{text} {best.id} costs {saved:.0%} less a token ({bill_usd(best):,.2f} USD)."
    return text
