"""Two profiles compared: acceptance, step times, speedup, the check of the text."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.api.diff_gates import By, DiffWishes, profile_gate
from capplan.api.speed_change import Side, speed_contrast, speed_points
from capplan.api.standing import check_plan, plan_for, plan_point
from capplan.errors import ProfileInvalidError
from capplan.estimate.acceptance_changes import TracedTask, compare_acceptance, traced_tasks
from capplan.estimate.comparison import Contrast, changes
from capplan.estimate.context_ranges import by_context, context_contrasts, traced_ranges
from capplan.estimate.drift import by_hour
from capplan.estimate.evidence import evidence_from_profile
from capplan.estimate.profile_settings import reported, settings_changed
from capplan.estimate.step_changes import compare_steps
from capplan.profiles.losslessness import judge_losslessness
from capplan.profiles.store import StoredProfile
from capplan.schema.difference import Change, ProfileDifference, Quality, RangeTable
from capplan.schema.plan import Plan
from capplan.schema.profile import Profile

DEFAULT_RANGE_LENGTH = 3


def diff_profiles(
    before: StoredProfile,
    after: StoredProfile,
    plan: Plan | None = None,
    wishes: DiffWishes | None = None,
) -> ProfileDifference:
    """Say what changed between two profiles, with intervals that hold for all rows together.

    Raises
    ------
    RequestError
        If a plan is given that is not of the profiles' target.
    """
    wishes = wishes or DiffWishes()
    notes: list[str] = []
    if plan is not None:
        part = plan_for(plan, after)
        plan = part.plan
        if part.services:
            notes.append(f"the plan is checked for {part.label}, the largest part on this LLM")
    tasks = [traced_tasks(stored.profile, stored.arrays) for stored in (before, after)]
    groups = [
        *compare_acceptance(tasks[0], tasks[1], _lengths(plan, wishes)),
        *compare_steps(before.profile, after.profile),
        _speeds((before, after), tasks, plan, notes),
    ]
    n = _range_length(plan)
    if "context" in wishes.by:
        first, second = (traced_ranges(one.profile, one.arrays, n) for one in (before, after))
        groups.append(context_contrasts(first, second))
    rows = changes(groups)
    _note_missing(before.profile, after.profile, rows, notes)
    found = ProfileDifference(
        before=str(before.path),
        after=str(after.path),
        settings=settings_changed(before.profile, after.profile),
        changes=rows,
        reported=reported(before.profile, after.profile),
        losslessness=(_losslessness(before.profile), _losslessness(after.profile)),
        ranges=tuple(range_tables((before, after), n, wishes.by)),
        plan=check_plan(plan, after) if plan is not None else None,
        notes=tuple(notes),
    )
    return found.model_copy(update={"gate": profile_gate(found, after.profile, wishes)})


def _lengths(plan: Plan | None, wishes: DiffWishes) -> tuple[int, ...]:
    if wishes.lengths or plan is None or not plan.options:
        return wishes.lengths
    n = plan.options[0].num_speculative_tokens
    return (n,) if n else ()


def _speeds(
    profiles: Sequence[StoredProfile],
    tasks: Sequence[Sequence[TracedTask]],
    plan: Plan | None,
    notes: list[str],
) -> list[Contrast]:
    sides = []
    for stored, traced in zip(profiles, tasks, strict=True):
        try:
            evidence = evidence_from_profile(stored.profile, stored.arrays)
        except ProfileInvalidError as error:
            notes.append(f"no speedup: {error.message}")
            return []
        sides.append(Side(evidence, traced))
    first, second = sides
    planned = plan_point(plan, first.evidence) if plan is not None else None
    points = [planned] if planned is not None else speed_points(first, second)
    rows = [speed_contrast(first, second, point) for point in points]
    return [row for row in rows if row is not None]


def _note_missing(
    before: Profile, after: Profile, rows: Sequence[Change], notes: list[str]
) -> None:
    if not any(row.quality is Quality.TOKENS_PER_ROUND for row in rows):
        notes.append("no task was traced at the same temperature in both: acceptance not compared")
    if not any(row.quality is Quality.STEP_TIME for row in rows):
        notes.append("no point of the grid was timed in both: step times not compared")
    if before.environment.device.name != after.environment.device.name:
        notes.append("two machines: step times tell them apart, not what happened to one")


def _losslessness(profile: Profile) -> str:
    """Return the verdict on the text; empty where it was not checked."""
    if not profile.losslessness:
        return ""
    return judge_losslessness(profile.losslessness, profile.target.dtype).outcome.value


def _range_length(plan: Plan | None) -> int:
    n = plan.options[0].num_speculative_tokens if plan is not None and plan.options else 0
    return n or DEFAULT_RANGE_LENGTH


def range_tables(
    sides: Sequence[StoredProfile], num_speculative_tokens: int, by: Sequence[By]
) -> list[RangeTable]:
    """Return each profile by context, by hour, or both."""
    found: list[RangeTable] = []
    for one in by:
        for stored in sides:
            if one == "context":
                found += by_context(stored.profile, stored.arrays, num_speculative_tokens)
            else:
                found.append(by_hour(stored.profile))
    return found
