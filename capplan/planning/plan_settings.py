"""What is not the same in two plans: the option, the request, the limits, the versions."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.estimate.profile_settings import differing
from capplan.schema.difference import Setting
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.workload import Slo, Workload


def plan_settings(before: Plan, after: Plan) -> tuple[Setting, ...]:
    """Return what differs between two plans of one option each."""
    found: list[Setting] = []
    if before.options and after.options:
        found += option_settings(before.options[0], after.options[0])
    found += differing("request", _asked(before), _asked(after))
    limits = (_limits(plan.request, plan.request.budget_usd_per_month) for plan in (before, after))
    found += differing("limits", *limits)
    return (*found, *version_settings(before, after))


def option_settings(before: PlanOption, after: PlanOption, owner: str = "") -> list[Setting]:
    """Return what differs between two options, said of their owner where there are several."""
    return _of(owner, differing("option", _option(before), _option(after)))


def request_settings(before: PlanRequest, after: PlanRequest, owner: str) -> list[Setting]:
    """Return what differs between what one service asked for then and now."""
    loads = ({**_words(one.workload), "target": ", ".join(one.targets)} for one in (before, after))
    limits = (_words(one.slo) for one in (before, after))
    return _of(owner, [*differing("request", *loads), *differing("limits", *limits)])


def budget_settings(before: float, after: float) -> list[Setting]:
    """Return the budgets of two fleets if they differ."""
    words = ({"budget USD a month": _text(usd)} for usd in (before, after))
    return differing("limits", *words)


def version_settings(before: Plan, after: Plan) -> list[Setting]:
    """Return the versions that differ."""
    words = (
        {"engine": plan.request.engine, "capplan": plan.capplan_version}
        for plan in (before, after)
    )
    return differing("engine", *words)


def hardware(option: PlanOption) -> str:
    """Return the GPUs of a replica."""
    return f"{option.tensor_parallel} x {option.gpu_name}"


def _of(owner: str, settings: Sequence[Setting]) -> list[Setting]:
    if not owner:
        return list(settings)
    return [one.model_copy(update={"name": f"{owner}: {one.name}"}) for one in settings]


def _option(option: PlanOption) -> dict[str, str]:
    return {
        "target": option.target,
        "draft": option.draft or "none",
        "method": option.method.value,
        "N": str(option.num_speculative_tokens),
        "hardware": hardware(option),
        "replicas": str(option.replicas),
        "rented": f"{option.gpus_rented} {option.units}",
        "provider": f"{option.provider} {option.region}".strip(),
        "instance": option.instance,
        "purchase": option.purchase.value,
        "step times": option.tier.value,
    }


def _asked(plan: Plan) -> dict[str, str]:
    return {
        **_words(plan.request.workload),
        "targets": ", ".join(plan.request.targets),
        "profiles": ", ".join(plan.profiles),
    }


def _limits(request: PlanRequest, budget_usd: float) -> dict[str, str]:
    return {"budget USD a month": _text(budget_usd), **_words(request.slo)}


def _words(value: Workload | Slo) -> dict[str, str]:
    """Return what was stated, by name."""
    stated = value.model_dump(exclude_none=True)
    return {name.replace("_", " "): _text(one) for name, one in stated.items()}


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
