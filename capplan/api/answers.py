"""What people ask of a plan: sensitivity, scenarios, growth, autoscaling, spares, spot, terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from capplan.api.infeasible_plans import MadeWith, answer_without_option
from capplan.api.planned_fleet import OtherPriceWish, fleet_of, other_price, week_of
from capplan.api.plans import ranked_option
from capplan.api.scenario_answers import sensitivity, vary
from capplan.economics.autoscaling import autoscale, replicas_by_hour
from capplan.economics.blends import blend_commitment, blend_spot
from capplan.economics.outlook import Fleet, grow, with_spares
from capplan.errors import RequestError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.answers import CommitmentBlend, PlanAnswers, SpotBlend
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.price import Purchase

DEFAULT_MOVE = 0.2
DEFAULT_MONTHS = 24


@dataclass(frozen=True)
class Spot:
    """A share of the load on spot GPUs; without a price, that of the option's own provider."""

    share: float
    interruption_overhead: float
    usd_per_gpu_hour: Decimal | None = None


@dataclass(frozen=True)
class Commitment:
    """A share of the nodes committed to; without a price, the provider's lowest one."""

    share: float
    usd_per_gpu_hour: Decimal | None = None


@dataclass(frozen=True)
class Questions:
    """What is asked of a plan; all None: its sensitivity.

    Attributes
    ----------
    move_by
        Each assumption by so much down and up.
    factors
        Factors by name (``load``, ``price``, ...): every combination is a scenario.
    growth_per_month, months
        Of the load, as a fraction, and how many months are listed.
    autoscale, scale_up_lag_minutes
        Replicas that follow the hours of the workload's shape.
    spares
        Up to so many spare replicas.
    spot, commitment
        Other prices for a share of the fleet.
    """

    move_by: float | None = None
    factors: Mapping[str, Sequence[float]] | None = None
    growth_per_month: float | None = None
    months: int = DEFAULT_MONTHS
    autoscale: bool = False
    scale_up_lag_minutes: float = 0.0
    spares: int | None = None
    spot: Spot | None = None
    commitment: Commitment | None = None

    @property
    def keeps_the_option(self) -> bool:
        """Whether anything is asked of the planned option itself."""
        named = (self.growth_per_month, self.spares, self.spot, self.commitment)
        return self.autoscale or any(one is not None for one in named)

    @property
    def nothing_named(self) -> bool:
        """Whether only the default can be meant."""
        return not self.keeps_the_option and self.move_by is None and self.factors is None


def answer_what_if(
    plan: Plan,
    questions: Questions | None = None,
    rank: int = 1,
    profiles: Sequence[StoredProfile] = (),
    catalog: Catalog | None = None,
    calibrations: Sequence[StoredCalibration] = (),
    name: str = "plan",
) -> PlanAnswers:
    """Answer questions about one option of a plan.

    Sensitivity and scenarios search everything anew: another draft, N, GPU or offer may be best
    then. All other answers keep the option and change how much of it is rented, and how.

    Parameters
    ----------
    plan, rank
        1 is the recommended option. Of a plan without one: what would make it feasible.
    questions
        Several may be asked at once; the sensitivity by default.
    profiles, catalog, calibrations
        What the plan was made with.
    name
        What the plan is called in the answer.

    Raises
    ------
    RequestError
        If the plan has no such option, no load to grow, no hours to follow, or no price is known.
    """
    asked = questions or Questions()
    catalog = catalog if catalog is not None else load_catalog()
    if not plan.options:
        _refuse_of_an_option(plan, asked)
        made_with = MadeWith(profiles, catalog, calibrations)
        return answer_without_option(plan, name, asked.factors, made_with)
    option = ranked_option(plan, rank)
    found = PlanAnswers(
        plan=name,
        option=option.id,
        gpu_name=option.gpu_name,
        unit=option.unit,
        usd_per_month=option.usd_per_month.mid,
        usd_per_million_output_tokens=option.usd_per_million_output_tokens.mid,
        budget_usd_per_month=plan.request.budget_usd_per_month,
        **_of_the_fleet(plan, option, asked, catalog),
    )
    move_by = DEFAULT_MOVE if asked.nothing_named else asked.move_by
    if plan.fleet is not None and plan.fleet.largest_part is not None:
        names = " + ".join(plan.fleet.largest_part.services)
        found = found.model_copy(update={"notes": (*found.notes, f"answers are of {names} alone")})
    if move_by is None and asked.factors is None:
        return found
    given = plan, profiles, catalog, calibrations
    tornado, notes = sensitivity(*given, move_by) if move_by is not None else (None, ())
    if rank != 1:
        notes = (f"sensitivity and scenarios are of option 1, not of option {rank}", *notes)
    update = {
        "sensitivity": tornado,
        "scenarios": vary(*given, asked.factors) if asked.factors is not None else None,
        "held_fixed": (_SEARCHED_ANEW, *found.held_fixed),
        "notes": (*notes, *found.notes),
    }
    return found.model_copy(update=update)


_SEARCHED_ANEW = (
    "sensitivity and scenarios: only the factors named move; drafts, N, GPUs and offers are "
    "searched anew among those of the plan's request, at its limits; with other lengths the "
    "requests a second stay (tokens a month, where the load is stated so)"
)
_KEPT = (
    "the option stays as planned: draft, N, GPUs, offer, price, lengths, acceptance, and its "
    "planned utilisation"
)


def _of_the_fleet(
    plan: Plan, option: PlanOption, asked: Questions, catalog: Catalog
) -> dict[str, object]:
    """Return the answers that keep the option, and what they hold fixed."""
    fleet = fleet_of(plan, option)
    found: dict[str, object] = {}
    if asked.growth_per_month is not None:
        _needs_a_load(plan, "grow")
        budget = plan.request.budget_usd_per_month
        found["growth"] = grow(fleet, asked.growth_per_month, asked.months, budget)
    if asked.autoscale:
        _needs_a_load(plan, "follow")
        tokens, within_hour = week_of(plan, fleet)
        lag = asked.scale_up_lag_minutes
        found["autoscaling"] = autoscale(fleet, tokens, within_hour, lag)
    if asked.spares is not None:
        found["spares"] = with_spares(fleet, asked.spares)
    if asked.spot is not None:
        found["spot"] = _spot(plan, option, fleet, asked.spot, catalog)
    if asked.commitment is not None:
        found["commitment"] = _commitment(plan, option, fleet, asked.commitment, catalog)
    if found:
        found["held_fixed"] = (_KEPT,)
    return found


def _refuse_of_an_option(plan: Plan, asked: Questions) -> None:
    if asked.keeps_the_option:
        raise RequestError(
            "The plan has no option that could grow, follow hours, have spares or be bought "
            f"otherwise: {plan.verdict.sentence}",
            "capplan what-if PLAN, without a question, says what would make it feasible.",
        )


def _needs_a_load(plan: Plan, verb: str) -> None:
    workload = plan.request.workload
    if workload.requests_per_s is None and workload.output_tokens_per_month is None:
        raise RequestError(
            f"The plan has no load to {verb}: it buys the most tokens for its budget.",
            "Plan with a load: capplan recommend --rate 6/s, or --workload FILE.",
        )


def _spot(plan: Plan, option: PlanOption, fleet: Fleet, wish: Spot, catalog: Catalog) -> SpotBlend:
    _on_demand_only(option)
    asked = OtherPriceWish(Purchase.SPOT, wish.usd_per_gpu_hour, "--spot-price")
    price = other_price(plan, option, fleet, asked, catalog)
    return blend_spot(fleet, wish.share, wish.interruption_overhead, price)


def _commitment(
    plan: Plan, option: PlanOption, fleet: Fleet, wish: Commitment, catalog: Catalog
) -> CommitmentBlend:
    _on_demand_only(option)
    asked = OtherPriceWish(Purchase.RESERVED, wish.usd_per_gpu_hour, "--commit-price")
    price = other_price(plan, option, fleet, asked, catalog)
    nodes: list[int] = []
    arrival = plan.request.workload.arrival
    if arrival is not None and (arrival.hour_of_day or arrival.day_of_week):
        tokens, within_hour = week_of(plan, fleet)
        replicas = replicas_by_hour(fleet, tokens * within_hour)
        nodes = [fleet.nodes(int(one)) for one in replicas]
    return blend_commitment(fleet, wish.share, price, nodes)


def _on_demand_only(option: PlanOption) -> None:
    if option.purchase is not Purchase.ON_DEMAND:
        raise RequestError(
            f"The option is bought {option.purchase.value}; a blend starts from one on demand.",
            "Choose another option with --option RANK, or plan with --purchase on-demand.",
        )
