"""What people ask of a plan: how its bill moves when the world does."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.provenance import Source

Cell = str | int | float | bool | None


class SensitivityEnd(Value):
    """The best option with one assumption moved; figures are None where nothing keeps limits."""

    factor: float
    usd_per_month: float | None
    usd_per_million_output_tokens: float | None
    tpot_ms: float | None
    within_budget: bool
    """False: the figures are those of the best option at any budget."""
    choice: str
    """Draft, N, GPUs and provider in words; empty where nothing keeps the limits."""
    choice_changes: bool
    """Whether draft, N, GPUs or offer differ from the plan's."""


class SensitivityRow(Value):
    """One assumption moved down and up, all others as planned."""

    factor_name: str
    less: SensitivityEnd
    more: SensitivityEnd
    swing_usd_per_month: float | None
    """Distance of the two ends; None where one of them has no option."""
    swing_usd_per_million_output_tokens: float | None


class Sensitivity(Value):
    """What the bill hangs on, the largest swing first."""

    moved_by: float = Field(gt=0, lt=1)
    base: SensitivityEnd
    rows: tuple[SensitivityRow, ...]
    left_out: tuple[str, ...]
    """Assumptions that this plan does not have, and why."""


class Scenarios(Value):
    """Every combination of some factors, a row each."""

    factors: dict[str, tuple[float, ...]]
    rows: tuple[dict[str, Cell], ...]


class GrowthMonth(Value):
    """One month of a growing load; month 0 is the plan's."""

    month: int = Field(ge=0)
    load_factor: float
    output_tokens_per_s_at_peak: float
    planned_fleet_utilisation_at_peak: float
    """Of the fleet as planned, if it were left alone; above 1 it cannot keep up."""
    replicas: int
    """What the load needs at the planned utilisation."""
    gpus_paid: int
    usd_per_month: float
    usd_per_million_output_tokens: float
    within_budget: bool


class Growth(Value):
    """When a growing load outgrows the fleet, and what following it costs."""

    growth_per_month: float
    utilisation_limit: float
    planned_replicas: int
    planned_capacity_output_tokens_per_s: float
    outgrown_in_month: int | None
    """First month above the planned utilisation; None: never. May lie beyond those listed."""
    outgrown_in_month_at_low_capacity: int | None
    """The same if replicas make what the low end of their interval says; 0: already now."""
    outgrown_in_month_at_high_capacity: int | None
    full_in_month: int | None
    """First month in which the planned fleet cannot serve the peak at all."""
    over_budget_in_month: int | None
    """Among the months listed; None: in none of them."""
    months: tuple[GrowthMonth, ...]


class AutoscaleHour(Value):
    """One hour of the week, Monday 0:00 first."""

    hour_of_week: int
    day: str
    hour_of_day: int
    output_tokens_per_s: float
    """Sized for: the hour's mean times the peak within an hour."""
    replicas: int
    replicas_at_end_of_hour: int
    """With those that were started ahead for the hours to come."""


class Autoscaling(Value):
    """Replicas that follow the hours of the week, against a fleet fixed at the peak."""

    peak_within_hour: float
    """Stated peak over the busiest hour's mean; kept as headroom in every hour."""
    scale_up_lag_minutes: float
    fixed_replicas: int
    fixed_gpu_hours_per_month: float
    fixed_usd_per_month: float
    gpu_hours_per_month: float
    usd_per_month: float
    saved_usd_per_month: float
    saved_share: float
    lag_gpu_hours_per_month: float
    """Paid for replicas that are starting, in the GPU-hours above."""
    mean_replicas: float
    least_replicas: int
    most_replicas: int
    needed_margin: float | None
    """Largest relative rise of the load within the lag, straight lines between the middles of
    hours: free capacity that a scaler which only reacts needs. None without a lag, or where the
    load rises from nothing."""
    planned_margin: float
    """Free capacity that the planned utilisation leaves: 1 / utilisation - 1."""
    hours: tuple[AutoscaleHour, ...]


class SpareRow(Value):
    """A fleet with some replicas more than the load needs."""

    spare_replicas: int
    replicas: int
    gpus_paid: int
    usd_per_month: float
    usd_of_spares_per_month: float
    """0 where spares fit on GPUs that were paid for and idle."""
    utilisation_at_peak: float
    utilisation_at_peak_one_replica_down: float | None
    """Above 1: the peak is not served until it is back. None for a single replica."""


class Spares(Value):
    """Fleets of the planned replicas and 0, 1 ... spare ones."""

    utilisation_limit: float
    rows: tuple[SpareRow, ...]


class SpotBlend(Value):
    """A share of the load on GPUs that may be taken away."""

    spot_share: float
    """Of the load."""
    interruption_overhead: float
    """Spot capacity needed on top, for restarts and work done twice."""
    on_demand_usd_per_gpu_hour: float
    spot_usd_per_gpu_hour: float
    spot_price_source: Source
    on_demand_replicas: int
    spot_replicas: int
    on_demand_usd_per_month: float
    spot_usd_per_month: float
    usd_per_month: float
    planned_usd_per_month: float
    saved_usd_per_month: float
    break_even_interruption_overhead: float
    """At which a spot GPU does as much for a dollar, whole nodes aside."""
    peak_served_without_spot: float
    """Share of the peak that is served at full load while all spot GPUs are gone."""


class CommitmentBlend(Value):
    """A share of the fleet committed to, the rest by the hour."""

    commit_share: float
    """As asked for."""
    nodes: int
    committed_nodes: int
    """Whole ones, rounded down; of shared nodes the GPUs of one replica count as a node."""
    on_demand_usd_per_gpu_hour: float
    commit_usd_per_gpu_hour: float
    commit_price_source: Source
    committed_usd_per_month: float
    on_demand_usd_per_month: float
    usd_per_month: float
    planned_usd_per_month: float
    saved_usd_per_month: float
    break_even_hours_per_month: float
    """Hours in which a node must be needed for the commitment to be cheaper."""
    nodes_worth_committing: int
    """Nodes that are needed for more hours than that; of a load with hours, as autoscaled."""


class WayOut(Value):
    """One thing to change of a plan that found nothing, all others as asked."""

    what: Literal["budget", "tpot", "ttft", "limits", "load"]
    """``limits``: TPOT and TTFT both left out; ``load``: a share of what was asked for."""
    unit: str
    asked: float | None
    """None: not a number (both limits)."""
    needed: float | None
    """Least change with which a plan is found."""
    usd_per_month: float
    """Of the best option then."""
    tpot_ms: float
    choice: str
    """Draft, N, GPUs and provider in words."""
    services: str = ""
    """Whose limits or load: each service that cannot be served needs one of its ways."""


class BlendTotal(Value):
    """What all parts of a fleet cost with a share of each at another price."""

    usd_per_month: float
    planned_usd_per_month: float
    saved_usd_per_month: float


class PlanAnswers(Value):
    """Answers about one option of one plan; about the plan itself where it has no option.

    Of several services on replicas of their own the figures are those of the whole fleet: dollars,
    replicas and loads are sums over its parts, a limit is that of the part that meets it first.
    """

    schema_version: Literal[1] = 1
    plan: str
    services: str = ""
    """Those that a part serves; empty for a plan of one service, and for a whole fleet."""
    option: str = ""
    """Empty, and all of the option with it, where the plan found none."""
    gpu_name: str = ""
    unit: str = ""
    """What is rented by the hour: ``GPU``, or ``CPU host``."""
    usd_per_month: float | None = None
    usd_per_million_output_tokens: float | None = None
    budget_usd_per_month: float
    ways_out: tuple[WayOut, ...] | None = None
    """What would make a plan feasible that is not; empty: nothing that was tried."""
    sensitivity: Sensitivity | None = None
    scenarios: Scenarios | None = None
    growth: Growth | None = None
    autoscaling: Autoscaling | None = None
    spares: Spares | None = None
    spot: SpotBlend | None = None
    commitment: CommitmentBlend | None = None
    spot_total: BlendTotal | None = None
    """Of a fleet in parts, whose prices differ: ``spot`` is told of each part."""
    commitment_total: BlendTotal | None = None
    parts: tuple[PlanAnswers, ...] = ()
    """The same answers of every part of a fleet; empty where there is one."""
    held_fixed: tuple[str, ...] = ()
    """What every answer here assumes."""
    notes: tuple[str, ...] = ()
