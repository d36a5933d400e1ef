"""Two profiles or two plans compared: what changed, and whether a plan still stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from capplan.api.speed_change import Side, speed_contrast, speed_points
from capplan.api.standing import check_plan, plan_point
from capplan.errors import ProfileInvalidError, RequestError, UnreadableFileError
from capplan.estimate.acceptance_changes import TracedTask, compare_acceptance, traced_tasks
from capplan.estimate.comparison import Contrast, changes
from capplan.estimate.context_ranges import by_context, context_contrasts, traced_ranges
from capplan.estimate.drift import by_hour
from capplan.estimate.evidence import evidence_from_profile
from capplan.estimate.profile_settings import reported, settings_changed
from capplan.estimate.step_changes import compare_steps
from capplan.inputs.documents import read_json
from capplan.inputs.limits import PROFILE
from capplan.planning.plan_difference import compare_plans
from capplan.profiles.losslessness import judge_losslessness
from capplan.profiles.store import StoredProfile, load_profile
from capplan.reporting.plan_file import load_plan
from capplan.schema.difference import (
    Change,
    Gate,
    Interval,
    PlanDifference,
    ProfileDifference,
    Quality,
    RangeTable,
)
from capplan.schema.plan import Plan
from capplan.schema.profile import Profile, Stability

By = Literal["context", "hour"]
GateRule = Literal["mid", "certain"]
DEFAULT_RANGE_LENGTH = 3


@dataclass(frozen=True)
class DiffWishes:
    """What to compare and how strictly.

    Attributes
    ----------
    lengths
        N to compare acceptance at; 1, 3 and 5 by default, the plan's N too where one is given.
    by
        Also show each profile by context or by hour.
    fail_over
        Worsening that fails, as a fraction; None: nothing fails.
    rule
        ``mid``: the middle of the worsening is above it and its interval leaves out none at all;
        ``certain``: the whole interval is above it.
    """

    lengths: tuple[int, ...] = ()
    by: tuple[By, ...] = ()
    fail_over: float | None = None
    rule: GateRule = "mid"


def diff(
    before: Path | str,
    after: Path | str,
    plan: Path | str | None = None,
    wishes: DiffWishes | None = None,
) -> ProfileDifference | PlanDifference:
    """Compare two files of one kind, the earlier first.

    Parameters
    ----------
    before, after
        Two profiles or two plans.
    plan
        Of two profiles: a plan to check against the later one.
    wishes
        Lengths, tables and limits.

    Raises
    ------
    RequestError
        If the files are of two kinds, or a plan is to be checked against plans.
    """
    wishes = wishes or DiffWishes()
    kinds = [file_kind(Path(path)) for path in (before, after)]
    if kinds[0] != kinds[1]:
        raise RequestError(
            f"{before} is a {kinds[0]} and {after} a {kinds[1]}: they cannot be compared.",
            "Give two profiles or two plans.",
        )
    if kinds[0] == "profile":
        checked = load_plan(Path(plan)) if plan is not None else None
        return diff_profiles(load_profile(before), load_profile(after), checked, wishes)
    if plan is not None or wishes.by or wishes.lengths:
        raise RequestError(
            "A plan, lengths and tables by context or hour go with two profiles, not with plans.",
            "Leave out --plan, --length and --by, or give profiles.",
        )
    names = str(before), str(after)
    return diff_plans(load_plan(Path(before)), load_plan(Path(after)), names, wishes)


def file_kind(path: Path) -> Literal["profile", "plan"]:
    """Tell a plan by its options; all else is read, and if need be refused, as a profile."""
    try:
        document = read_json(path, PROFILE)
    except UnreadableFileError:
        return "profile"
    is_plan = isinstance(document, dict) and "options" in document and "timing" not in document
    return "plan" if is_plan else "profile"


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
    return found.model_copy(update={"gate": _profile_gate(found, after.profile, wishes)})


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


_RULES: dict[GateRule, str] = {
    "mid": "fails where the middle is above the limit and the interval leaves out no change",
    "certain": "fails where the whole interval is above the limit",
}


def _profile_gate(found: ProfileDifference, after: Profile, wishes: DiffWishes) -> Gate | None:
    """Judge the speedup that fell most; without one the mean tokens a round."""
    if wishes.fail_over is None:
        return None
    if after.verdict.stability is Stability.INVALID:
        return Gate(
            figure=f"profile {after.id} judged itself invalid",
            allowed=wishes.fail_over,
            worsening=None,
            failed=True,
            rule="an invalid profile fails",
        )
    for quality in (Quality.SPEEDUP, Quality.TOKENS_PER_ROUND):
        rows = [row for row in found.changes if row.quality is quality and row.relative]
        if rows:
            gates = [_gate(row, wishes) for row in rows]
            return max(gates, key=lambda gate: (gate.failed, _mid(gate)))
    return Gate(
        figure="neither speedup nor acceptance could be compared",
        allowed=wishes.fail_over,
        worsening=None,
        failed=True,
        rule="what cannot be compared fails",
    )


def _mid(gate: Gate) -> float:
    return gate.worsening.mid if gate.worsening is not None else 0.0


def _gate(row: Change, wishes: DiffWishes) -> Gate:
    assert row.relative is not None
    assert wishes.fail_over is not None
    worse = row.relative.reversed()
    if wishes.rule == "certain":
        failed = worse.low > wishes.fail_over
    else:
        failed = worse.mid > wishes.fail_over and worse.low > 0
    at = f" at N={row.num_speculative_tokens}" if row.num_speculative_tokens else ""
    return Gate(
        figure=f"{row.quality.value.replace('_', ' ')}{at}, {row.label}",
        allowed=wishes.fail_over,
        worsening=worse,
        failed=failed,
        rule=_RULES[wishes.rule],
    )


def diff_plans(
    before: Plan,
    after: Plan,
    names: tuple[str, str] = ("before", "after"),
    wishes: DiffWishes | None = None,
) -> PlanDifference:
    """Say what changed between two plans' recommended options, by dollars.

    The gate is on the month's bill: it is exact, so its middle is all there is.
    """
    wishes = wishes or DiffWishes()
    found = compare_plans(before, after, names)
    if wishes.fail_over is None:
        return found
    return found.model_copy(update={"gate": _plan_gate(found, wishes.fail_over)})


def _plan_gate(found: PlanDifference, allowed: float) -> Gate:
    if found.usd_before is None or found.usd_after is None:
        worse = found.usd_before is not None
        return Gate(
            figure="a plan has no option",
            allowed=allowed,
            worsening=None,
            failed=worse,
            rule="fails where there was an option and there is none now",
        )
    rise = float(found.usd_after / found.usd_before) - 1.0
    return Gate(
        figure="USD a month",
        allowed=allowed,
        worsening=Interval(low=rise, mid=rise, high=rise),
        failed=rise > allowed,
        rule="fails where the bill is above the limit; a bill is exact",
    )
