"""Reports of saved files: a plan or a profile as a page, two of them compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import capplan
from capplan.api.answers import answer_what_if
from capplan.api.comparing import diff, file_kind
from capplan.api.guide import profile_points
from capplan.errors import CapplanError, ProfileFormatError, RequestError, UnreadableFileError
from capplan.facts.catalog import Catalog
from capplan.inputs.limits import PROFILE
from capplan.inputs.reading import read_bytes
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.losslessness import judge_losslessness
from capplan.profiles.store import StoredProfile, load_profile
from capplan.reporting.compare_page import render_comparison
from capplan.reporting.diff_text import render_diff
from capplan.reporting.plan_file import load_plan
from capplan.reporting.profile_page import render_profile_page
from capplan.reporting.profile_text import render_profile
from capplan.schema.answers import PlanAnswers
from capplan.schema.audit import GuidePoint
from capplan.schema.plan import Plan

SHOWN = ("table", "json", "html")
"""Formats of a profile and of a comparison."""


@dataclass(frozen=True)
class Evidence:
    """What a plan was made with."""

    profiles: Sequence[StoredProfile] = ()
    calibrations: Sequence[StoredCalibration] = ()
    catalog: Catalog | None = None


def load_saved(path: Path | str) -> Plan | StoredProfile:
    """Read a plan or a profile, whichever the file holds.

    Raises
    ------
    PlanFormatError, ProfileFormatError, PlanVersionError, ProfileVersionError
        If it is neither, or not whole.
    """
    if file_kind(Path(path)) == "plan":
        return load_plan(path)
    try:
        return load_profile(path)
    except ProfileFormatError:
        if not _names_timing(Path(path)):
            load_plan(path)  # nothing says that a profile was meant: tell what is wrong as a plan
        raise


def _names_timing(path: Path) -> bool:
    try:
        return b'"timing"' in read_bytes(path, PROFILE)
    except UnreadableFileError:
        return False


def what_it_hangs_on(plan: Plan, evidence: Evidence | None = None) -> PlanAnswers | None:
    """Return what a plan's bill hangs on, searched anew for its page.

    Of a plan that found nothing: what would make it feasible. None where the plan rests on
    profiles and none is given: the page then says how to add it.

    Raises
    ------
    RequestError
        If profiles are given, and not those that the plan rests on.
    """
    given = evidence or Evidence()
    if plan.profiles and not given.profiles:
        return None
    return answer_what_if(
        plan,
        profiles=given.profiles,
        catalog=given.catalog,
        calibrations=given.calibrations,
    )


def render_saved_profile(stored: StoredProfile, fmt: str) -> str:
    """Return a profile as a page, as its summary or as JSON.

    Raises
    ------
    RequestError
        For a format that profiles do not have.
    """
    _check_format(fmt, "A profile")
    profile = stored.profile
    if fmt == "json":
        return profile.model_dump_json(indent=1) + "\n"
    points = _points(stored)
    if fmt == "table":
        return render_profile(profile, stored.arrays, points)
    judged = judge_losslessness(profile.losslessness, profile.target.dtype)
    said = tuple(one.sentence for one in (*judged.comparisons, *judged.controls))
    return render_profile_page(profile, stored.arrays, points, said)


def _points(stored: StoredProfile) -> tuple[GuidePoint, ...]:
    """Return the guide's points; none for a profile that cannot be used."""
    try:
        return profile_points(stored)
    except CapplanError:
        return ()


def render_compared(before: Path | str, after: Path | str, fmt: str) -> str:
    """Return what changed between two files of one kind, as a page, as text or as JSON.

    Raises
    ------
    RequestError
        If the files are of two kinds, or for a format that comparisons do not have.
    """
    _check_format(fmt, "A comparison")
    found = diff(before, after)
    if fmt == "json":
        return found.model_dump_json(indent=1) + "\n"
    if fmt == "table":
        return render_diff(found)
    plans = None
    if found.kind == "plans":
        plans = (load_plan(before), load_plan(after))
    return render_comparison(found, plans, capplan.__version__)


def _check_format(fmt: str, what: str) -> None:
    if fmt not in SHOWN:
        raise RequestError(
            f"{what} cannot be written as {fmt!r}.", f"Choose one of: {', '.join(SHOWN)}."
        )
