"""A plan in words: built once, shown by the terminal and by the page alike."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import groupby

from capplan.reporting import formatting as fmt, labels
from capplan.reporting.api_view import ApiView, build_api_view
from capplan.reporting.guide_view import GuideView, build_guide
from capplan.reporting.memory_view import Pair
from capplan.reporting.money_view import MoneyView, build_money
from capplan.reporting.option_view import (
    Headline,
    OptionView,
    build_option,
    headlines,
    length_text,
)
from capplan.reporting.request_view import moment, request_rows
from capplan.reporting.saving import saving_text
from capplan.reporting.schedule_view import ScheduleView, build_schedule
from capplan.schema.pairing import Method
from capplan.schema.plan import LoadPoint, Plan, PlanOption, Tier
from capplan.schema.schedule import LengthSchedule


@dataclass(frozen=True)
class LengthBand:
    """Neighbouring loads at which one length is fastest."""

    length: str
    first: str
    last: str
    speedup: str
    is_off: bool


@dataclass(frozen=True)
class RejectionView:
    """Candidates left out for one reason."""

    reason: str
    label: str
    count: str
    example: str
    remedy: str


@dataclass(frozen=True)
class AssumptionView:
    """Something the plan rests on."""

    name: str
    value: str
    kind: str
    kind_label: str
    source: str


@dataclass(frozen=True)
class Finalist:
    """The best option of one target, with what it is compared to."""

    option: OptionView
    headlines: tuple[Headline, ...]
    baseline: OptionView | None
    """The best option for the same target without speculation, where there is one."""
    saving: str
    bands: tuple[LengthBand, ...]
    guide: GuideView | None
    money: MoneyView | None
    schedule: ScheduleView | None
    """Lengths by batch of the target's best option that drafts."""
    scheduled: str
    """That option, where it is another one than this."""


@dataclass(frozen=True)
class PlanView:
    """A plan as text, in the order in which it is shown."""

    feasible: bool
    sentence: str
    needed: str
    finalists: tuple[Finalist, ...]
    """The recommended option first, then the best of every other target."""
    options: tuple[OptionView, ...]
    cheapest: OptionView | None
    rejections: tuple[RejectionView, ...]
    rejected_total: str
    assumptions: tuple[AssumptionView, ...]
    advice: tuple[str, ...]
    apis: tuple[ApiView, ...]
    """The recommended option's bill beside hosted LLMs."""
    request: tuple[Pair, ...]
    candidates: str
    created_at: str
    """ISO 8601, as the plan has it."""
    created: str
    capplan_version: str
    profiles: tuple[str, ...]
    next_command: str
    hardware_units: str
    """What the options are rented by: ``GPUs``, ``CPU hosts``, or ``Hosts`` for both."""


def build_view(plan: Plan) -> PlanView:
    """Return the plan in words."""
    slo = plan.request.slo
    options = tuple(build_option(option, slo, rank) for rank, option in _ranked(plan))
    return PlanView(
        feasible=plan.verdict.feasible,
        sentence=plan.verdict.sentence,
        needed=plan.verdict.needed,
        finalists=tuple(_finalist(plan, rank, option) for rank, option in finalists(plan)),
        options=options,
        cheapest=_cheapest(plan, options),
        rejections=_rejections(plan),
        rejected_total=fmt.count(sum(rejection.count for rejection in plan.rejections)),
        assumptions=_assumptions(plan),
        advice=plan.advice,
        apis=tuple(build_api_view(found, _best_units(plan)) for found in plan.api_comparisons),
        request=request_rows(plan),
        candidates=fmt.count(plan.candidates),
        created_at=plan.created_at,
        created=moment(plan.created_at),
        capplan_version=plan.capplan_version,
        profiles=plan.profiles,
        next_command=_next_command(plan),
        hardware_units=_hardware_units(plan),
    )


def finalists(plan: Plan) -> tuple[tuple[int, PlanOption], ...]:
    """Return the best option of every target with its rank, best first; none if infeasible."""
    if not plan.verdict.feasible:
        return ()
    first: dict[str, tuple[int, PlanOption]] = {}
    for rank, option in _ranked(plan):
        first.setdefault(option.target, (rank, option))
    return tuple(first.values())


def baseline_of(plan: Plan, option: PlanOption) -> PlanOption | None:
    """Return the best option without speculation that serves the same target."""
    if plan.baseline is not None and plan.baseline.target == option.target:
        return plan.baseline
    plain = (other for other in plan.options if other.method is Method.NONE)
    return next((other for other in plain if other.target == option.target), None)


def _finalist(plan: Plan, rank: int, option: PlanOption) -> Finalist:
    slo, baseline = plan.request.slo, baseline_of(plan, option)
    return Finalist(
        option=build_option(option, slo, rank),
        headlines=headlines(option, slo),
        baseline=build_option(baseline, slo, 0) if baseline else None,
        saving=saving_text(option, baseline),
        bands=_bands(option.load_curve),
        guide=build_guide(option),
        money=build_money(option),
        schedule=build_schedule(_schedule_of(plan, option.target), option.num_speculative_tokens),
        scheduled=_scheduled_other(plan, option),
    )


def _schedule_of(plan: Plan, target: str) -> LengthSchedule | None:
    return next((found for found in plan.schedules if found.target == target), None)


def _scheduled_other(plan: Plan, option: PlanOption) -> str:
    """Name the option that was scheduled, where a plain one was ranked before it."""
    found = _schedule_of(plan, option.target)
    if found is None or found.origin == f"option {option.id}":
        return ""
    named = (other for other in plan.options if found.origin == f"option {other.id}")
    return next((labels.option_title(other) for other in named), "")


def _ranked(plan: Plan) -> list[tuple[int, PlanOption]]:
    return list(enumerate(plan.options, start=1))


def _bands(curve: tuple[LoadPoint, ...]) -> tuple[LengthBand, ...]:
    ordered = sorted(curve, key=lambda point: point.concurrency)
    groups = groupby(ordered, key=lambda point: point.best_num_speculative_tokens)
    return tuple(_band(length, tuple(points)) for length, points in groups)


def _band(length: int, points: tuple[LoadPoint, ...]) -> LengthBand:
    speedups = [point.best_speedup for point in points]
    low, high = fmt.factor(min(speedups)), fmt.factor(max(speedups))
    return LengthBand(
        length=length_text(length),
        first=fmt.count(points[0].concurrency),
        last=fmt.count(points[-1].concurrency),
        speedup=low if low == high else f"{low} to {high}",
        is_off=length == 0,
    )


def _cheapest(plan: Plan, options: tuple[OptionView, ...]) -> OptionView | None:
    if not plan.options:
        return None
    costs = [option.usd_per_month.mid for option in plan.options]
    return options[costs.index(min(costs))]


def _rejections(plan: Plan) -> tuple[RejectionView, ...]:
    ordered = sorted(plan.rejections, key=lambda rejection: -rejection.count)
    return tuple(
        RejectionView(
            reason=rejection.reason,
            label=labels.REASONS.get(rejection.reason, rejection.reason),
            count=fmt.count(rejection.count),
            example=rejection.example,
            remedy=rejection.remedy,
        )
        for rejection in ordered
    )


def _assumptions(plan: Plan) -> tuple[AssumptionView, ...]:
    return tuple(
        AssumptionView(
            item.name,
            item.value,
            item.kind.value,
            labels.KINDS[item.kind],
            # Sources written out by str(Source) name their kind, which has its own place here.
            item.source.removeprefix(f"{item.kind.value}: "),
        )
        for item in plan.assumptions
    )


def _hardware_units(plan: Plan) -> str:
    named = {option.units for option in plan.options}
    return named.pop() if len(named) == 1 else "Hosts" if named else "GPUs"


def _best_units(plan: Plan) -> str:
    return plan.options[0].units if plan.options else "GPUs"


def _next_command(plan: Plan) -> str:
    if not plan.verdict.feasible or not plan.options:
        return "capplan recommend --help"
    best = plan.options[0]
    if best.tier is Tier.DATASHEET:
        drafts = best.draft is not None and best.method is Method.DRAFT_MODEL
        draft = f" --draft {shlex.quote(best.draft or '')}" if drafts else ""
        return f"capplan profile {shlex.quote(best.target)}{draft} -o profile.json"
    return "capplan report plan.json -o report.html"
