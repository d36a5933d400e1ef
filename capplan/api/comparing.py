"""Two profiles or two plans compared: what changed, and whether a plan still stands."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from capplan.api.diff_gates import By, DiffWishes, GateRule, plan_gate
from capplan.api.profile_comparison import diff_profiles, range_tables
from capplan.errors import RequestError, UnreadableFileError
from capplan.inputs.documents import read_json
from capplan.inputs.limits import PROFILE
from capplan.planning.fleet_difference import compare_fleets
from capplan.planning.plan_difference import compare_plans
from capplan.profiles.store import load_profile
from capplan.reporting.plan_file import load_plan
from capplan.schema.difference import PlanDifference, ProfileDifference
from capplan.schema.plan import Plan

__all__ = [
    "By",
    "DiffWishes",
    "GateRule",
    "diff",
    "diff_plans",
    "diff_profiles",
    "file_kind",
    "range_tables",
]


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


def diff_plans(
    before: Plan,
    after: Plan,
    names: tuple[str, str] = ("before", "after"),
    wishes: DiffWishes | None = None,
) -> PlanDifference:
    """Say what changed between two plans, by dollars: of all services where they have several.

    The gate is on the month's bill: it is exact, so its middle is all there is.
    """
    wishes = wishes or DiffWishes()
    found = _compared(before, after, names)
    if wishes.fail_over is None:
        return found
    return found.model_copy(update={"gate": plan_gate(found, wishes.fail_over)})


def _compared(before: Plan, after: Plan, names: tuple[str, str]) -> PlanDifference:
    if before.fleet is not None or after.fleet is not None:
        return compare_fleets(before, after, names)
    return compare_plans(before, after, names)
