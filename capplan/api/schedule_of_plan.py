"""The length schedule of one option of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.api.option_schedules import schedule_of_option
from capplan.api.plans import plan_inputs
from capplan.api.schedule_loads import ScheduleWishes
from capplan.errors import RequestError
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.paid_parts import ranked_option
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.schedule import LengthSchedule


def schedule_of_plan(
    plan: Plan,
    wishes: ScheduleWishes,
    rank: int | None,
    profiles: Sequence[StoredProfile],
    calibrations: Sequence[StoredCalibration],
) -> LengthSchedule:
    """Compute the schedule of an option; the plan's own load by default.

    Raises
    ------
    RequestError
        If the option drafts nothing, or what the plan rests on was not given.
    """
    option = _speculating(plan, rank)
    request, inputs = plan_inputs(plan.request, profiles, calibrations=calibrations)
    return schedule_of_option(option, request, inputs, wishes)


def _speculating(plan: Plan, rank: int | None) -> PlanOption:
    if rank is not None:
        option = ranked_option(plan, rank)
        if option.method is not Method.NONE:
            return option
        raise RequestError(
            f"Option {rank} drafts nothing: it has no lengths.", "Name one that speculates."
        )
    for option in plan.options:
        if option.method is not Method.NONE:
            return option
    raise RequestError(
        "No option of the plan speculates: there are no lengths to choose.",
        "Plan with a pairing whose acceptance is known (capplan facts pairings, or --profile).",
    )
