"""A planned fleet later and with spares: same kind of replica, more or fewer of them.

Every function starts from one option of a plan: what a replica makes, how full it may be, how
its offer is paid for. Replicas are whole, and so are nodes, as on the plan's own bill.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from capplan.economics.bill import Tariff, monthly_bill
from capplan.economics.cost import replicas_for, usd_per_million_tokens
from capplan.economics.decimals import without_noise
from capplan.errors import RequestError
from capplan.schema.answers import (
    Growth,
    GrowthMonth,
    SpareRow,
    Spares,
)

_ROUNDING = 1e-9
"""A load of exactly n replicas must not become n + 1 by rounding of a division."""
LONGEST_MONTHS = 120
LARGEST_GROWTH = 10.0


@dataclass(frozen=True)
class Fleet:
    """One option of a plan, as far as bills of other fleets need it.

    Attributes
    ----------
    replicas, gpus_per_replica
        As planned.
    replica_tokens_per_s
        Largest throughput of a replica.
    utilisation_limit
        Share of it that is planned to be used at the peak.
    mean_tokens_per_s, peak_tokens_per_s
        Output tokens a second: those that are paid for, and those that the fleet is sized for.
    tariff
        How its offer is paid for.
    capacity_factors
        Ends of the throughput's interval over its middle.
    """

    replicas: int
    gpus_per_replica: int
    replica_tokens_per_s: float
    utilisation_limit: float
    mean_tokens_per_s: float
    peak_tokens_per_s: float
    tariff: Tariff
    capacity_factors: tuple[float, float] = (1.0, 1.0)

    @property
    def capacity_tokens_per_s(self) -> float:
        """Largest throughput of the planned replicas."""
        return self.replicas * self.replica_tokens_per_s

    @property
    def node_gpus(self) -> int:
        """GPUs that are rented together: a node, or a replica where nodes are shared."""
        return self.gpus_per_replica if self.tariff.share_node else self.tariff.gpus_per_node

    def replicas_for(self, tokens_per_s: float) -> int:
        """Return the replicas that a load needs at the planned utilisation, at least one."""
        return int(replicas_for(tokens_per_s, self.replica_tokens_per_s, self.utilisation_limit))

    def gpus_paid(self, replicas: int) -> int:
        """Return the GPUs on the bill; none for no replica."""
        return self.tariff.gpus_paid(replicas, self.gpus_per_replica) if replicas else 0

    def nodes(self, replicas: int) -> int:
        """Return what is rented, in units of :attr:`node_gpus`."""
        return self.gpus_paid(replicas) // self.node_gpus

    def usd_per_month(self, replicas: int) -> float:
        """Return the exact bill of so many replicas; 0 for none."""
        if not replicas:
            return 0.0
        return float(monthly_bill(replicas, self.gpus_per_replica, self.tariff).total_usd)

    def utilisation_at_peak(self, replicas: int) -> float:
        """Return the peak over the largest throughput of so many replicas."""
        return self.peak_tokens_per_s / (replicas * self.replica_tokens_per_s)


def grow(fleet: Fleet, growth_per_month: float, months: int, budget_usd: float) -> Growth:
    """Return the month in which a growing load outgrows the fleet, and replicas month by month.

    Outgrown in the first month m with ``peak * (1 + g)**m > capacity * utilisation``.

    Raises
    ------
    RequestError
        If the growth is none, the months are too many, or a month's bill is no amount of money.
    """
    if not -1 < growth_per_month <= LARGEST_GROWTH:
        raise RequestError(
            f"A growth of {growth_per_month * 100:g} % a month is none, expected above -100 % and "
            f"at most {LARGEST_GROWTH * 100:g} %.",
            "State it as a rate a month: --growth 8%, or -5% where the load shrinks.",
        )
    if not 0 <= months <= LONGEST_MONTHS:
        raise RequestError(f"{months} months were asked for, expected 0 to {LONGEST_MONTHS}.")
    listed = tuple(_month(fleet, growth_per_month, m, budget_usd) for m in range(months + 1))
    capacity, peak = fleet.capacity_tokens_per_s, fleet.peak_tokens_per_s
    limit = capacity * fleet.utilisation_limit
    low, mid, high = (
        first_month_above(peak, limit * factor, growth_per_month)
        for factor in (fleet.capacity_factors[0], 1.0, fleet.capacity_factors[1])
    )
    return Growth(
        growth_per_month=growth_per_month,
        utilisation_limit=fleet.utilisation_limit,
        planned_replicas=fleet.replicas,
        planned_capacity_output_tokens_per_s=capacity,
        outgrown_in_month=mid,
        outgrown_in_month_at_low_capacity=low,
        outgrown_in_month_at_high_capacity=high,
        full_in_month=first_month_above(peak, capacity, growth_per_month),
        over_budget_in_month=next((one.month for one in listed if not one.within_budget), None),
        months=listed,
    )


def first_month_above(load: float, limit: float, growth_per_month: float) -> int | None:
    """Return the first month in which a growing load exceeds a limit; None: it never does."""
    if load > limit * (1.0 + _ROUNDING):
        return 0
    if growth_per_month <= 0:
        return None
    # log1p: at 1e-9 a month log(1 + g) would lose every digit
    exact = math.log(limit / load) / math.log1p(growth_per_month)
    return math.floor(exact + _ROUNDING) + 1


def _month(fleet: Fleet, growth: float, month: int, budget_usd: float) -> GrowthMonth:
    factor = (1.0 + growth) ** month
    peak, mean = fleet.peak_tokens_per_s * factor, fleet.mean_tokens_per_s * factor
    replicas = fleet.replicas_for(peak)
    usd = fleet.usd_per_month(replicas)
    hours = float(fleet.tariff.serving_hours)
    return GrowthMonth(
        month=month,
        load_factor=factor,
        output_tokens_per_s_at_peak=peak,
        planned_fleet_utilisation_at_peak=peak / fleet.capacity_tokens_per_s,
        replicas=replicas,
        gpus_paid=fleet.gpus_paid(replicas),
        usd_per_month=usd,
        usd_per_million_output_tokens=float(usd_per_million_tokens(usd, mean, hours)),
        within_budget=usd <= budget_usd * (1.0 + _ROUNDING),
    )


def with_spares(fleet: Fleet, most_spares: int) -> Spares:
    """Return the bill and utilisation with 0, 1 ... spare replicas."""
    planned = fleet.usd_per_month(fleet.replicas)
    rows = []
    for spares in range(most_spares + 1):
        replicas = fleet.replicas + spares
        usd = fleet.usd_per_month(replicas)
        left = replicas - 1
        rows.append(
            SpareRow(
                spare_replicas=spares,
                replicas=replicas,
                gpus_paid=fleet.gpus_paid(replicas),
                usd_per_month=usd,
                usd_of_spares_per_month=without_noise(usd - planned),
                utilisation_at_peak=fleet.utilisation_at_peak(replicas),
                utilisation_at_peak_one_replica_down=(
                    fleet.utilisation_at_peak(left) if left else None
                ),
            )
        )
    return Spares(utilisation_limit=fleet.utilisation_limit, rows=tuple(rows))
