"""What people ask of a plan: sensitivity, scenarios, growth, autoscaling, spares, spot, terms."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.api.fleet_answers import answer_fleet
from capplan.api.infeasible_plans import MadeWith, answer_without_option
from capplan.api.option_answers import answer_option
from capplan.api.questions import (
    DEFAULT_MONTHS,
    DEFAULT_MOVE,
    Commitment,
    Questions,
    Spot,
)
from capplan.errors import RequestError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.planning.part_plans import plan_of_service
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.answers import PlanAnswers
from capplan.schema.paid_parts import ranked_option
from capplan.schema.plan import Plan

__all__ = [
    "DEFAULT_MONTHS",
    "DEFAULT_MOVE",
    "Commitment",
    "Questions",
    "Spot",
    "answer_what_if",
]


def answer_what_if(
    plan: Plan,
    questions: Questions | None = None,
    rank: int = 1,
    profiles: Sequence[StoredProfile] = (),
    catalog: Catalog | None = None,
    calibrations: Sequence[StoredCalibration] = (),
    name: str = "plan",
    service: str | None = None,
) -> PlanAnswers:
    """Answer questions about one option of a plan, or about every part of its fleet.

    Sensitivity and scenarios search everything anew: another draft, N, GPU or offer may be best
    then. All other answers keep the option and change how much of it is rented, and how. Of
    services on replicas of their own the answers are of the whole fleet: what is asked applies to
    every part, and dollars are sums.

    Parameters
    ----------
    plan, rank
        1 is the recommended option; of a fleet in parts that of the largest. Of a plan without
        one: what would make it feasible.
    questions
        Several may be asked at once; the sensitivity by default.
    profiles, catalog, calibrations
        What the plan was made with.
    name
        What the plan is called in the answer.
    service
        Of several services: answer for this one alone, and those that share its replicas.

    Raises
    ------
    RequestError
        If the plan has no such option, no load to grow, no hours to follow, or no price is known.
    """
    asked = questions or Questions()
    catalog = catalog if catalog is not None else load_catalog()
    given = MadeWith(profiles, catalog, calibrations)
    if not plan.options:
        _refuse_of_an_option(plan, asked)
        return answer_without_option(plan, name, asked.factors, given)
    if service is not None:
        part = plan_of_service(plan, service, rank)
        found = answer_option(part.plan, part.option, asked, given, name)
        return found.model_copy(update={"services": part.label})
    if plan.fleet is not None and len(plan.fleet.parts) > 1:
        return answer_fleet(plan, rank, asked, given, name)
    found = answer_option(plan, ranked_option(plan, rank), asked, given, name)
    if rank != 1 and (found.sensitivity is not None or found.scenarios is not None):
        note = f"sensitivity and scenarios are of option 1, not of option {rank}"
        found = found.model_copy(update={"notes": (note, *found.notes)})
    return found


def _refuse_of_an_option(plan: Plan, asked: Questions) -> None:
    if asked.keeps_the_option:
        raise RequestError(
            "The plan has no option that could grow, follow hours, have spares or be bought "
            f"otherwise: {plan.verdict.sentence}",
            "capplan what-if PLAN, without a question, says what would make it feasible.",
        )
