"""A plan's option as a fleet: what a replica makes, how it is paid for, what the week asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from capplan.economics.bill import MONTH_HOURS, Tariff
from capplan.economics.blends import OtherPrice
from capplan.economics.outlook import Fleet
from capplan.errors import RequestError
from capplan.estimate.traffic import peak_to_mean, shape_of_week
from capplan.facts.catalog import Catalog
from capplan.planning.reevaluation import price_row
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.price import BillItem, PriceRow, Purchase
from capplan.schema.provenance import Kind, Source


def fleet_of(plan: Plan, option: PlanOption) -> Fleet:
    """Return the fleet of one of a plan's options."""
    workload, hours = plan.request.workload, float(plan.request.hours_per_month)
    capacity = option.output_tokens_per_s
    mean = option.planned_output_tokens_per_s
    return Fleet(
        replicas=option.replicas,
        gpus_per_replica=option.tensor_parallel,
        replica_tokens_per_s=capacity.mid / option.replicas,
        utilisation_limit=workload.utilisation,
        mean_tokens_per_s=mean,
        peak_tokens_per_s=mean * peak_to_mean(workload, hours),
        tariff=_tariff(plan, option),
        capacity_factors=(capacity.low / capacity.mid, capacity.high / capacity.mid),
    )


def _tariff(plan: Plan, option: PlanOption) -> Tariff:
    """Return how the option's bill came about; bills of older plans had rent alone."""
    row, bill = price_row(option), option.bill
    energy = Decimal(0)
    if bill is not None:
        # the line is rounded to the cent; times the same GPUs and hours it is that cent again
        energy = bill.usd(BillItem.ELECTRICITY) / (bill.gpus_paid * bill.paid_hours)
    return Tariff(
        usd_per_node_hour=row.usd_per_hour,
        gpus_per_node=row.gpu_count,
        serving_hours=plan.request.hours_per_month,
        always_on=option.purchase is Purchase.RESERVED,
        share_node=plan.request.share_node,
        energy_usd_per_gpu_hour=energy,
        term_months=option.term_months,
    )


def week_of(plan: Plan, fleet: Fleet) -> tuple[NDArray[np.float64], float]:
    """Return mean output tokens a second of the week's hours, and the peak within an hour.

    Raises
    ------
    RequestError
        If the workload does not say in which hours its load arrives.
    """
    workload = plan.request.workload
    arrival = workload.arrival
    if arrival is None or (arrival.hour_of_day is None and arrival.day_of_week is None):
        raise RequestError(
            "The plan's workload does not say in which hours its load arrives, so there are no "
            "hours to follow.",
            "Plan with a workload that has hour_of_day or day_of_week, or with a trace: capplan "
            "recommend --workload FILE (docs/workloads.md).",
        )
    if plan.request.hours_per_month != MONTH_HOURS:
        raise RequestError(
            f"The plan has {plan.request.hours_per_month:f} hours a month, and the workload says "
            "in which hours the load arrives: both cannot hold.",
            "Plan without --hours-per-month; hours without load have weight 0.",
        )
    hours = fleet.mean_tokens_per_s * shape_of_week(arrival)
    return hours, max(fleet.peak_tokens_per_s / float(hours.max()), 1.0)


@dataclass(frozen=True)
class OtherPriceWish:
    """A kind of purchase, and the price that the caller states for it, if any."""

    purchase: Purchase
    stated_usd_per_gpu_hour: Decimal | None
    flag: str


def other_price(
    plan: Plan, option: PlanOption, fleet: Fleet, wish: OtherPriceWish, catalog: Catalog
) -> OtherPrice:
    """Return the price stated, else the lowest of the option's provider for the same GPUs.

    Raises
    ------
    RequestError
        If none is stated and the provider lists none.
    """
    if wish.stated_usd_per_gpu_hour is not None:
        source = Source(kind=Kind.ASSUMED, reference=f"stated with the request ({wish.flag})")
        return OtherPrice(wish.stated_usd_per_gpu_hour, source)
    rows = list(_offers(plan, option, fleet, wish.purchase, catalog))
    if not rows:
        raise RequestError(
            f"No {wish.purchase.value} price of {option.gpu_name} at {option.provider} is known "
            f"for {option.instance} or its size.",
            f"State it: {wish.flag} USD, of one GPU and hour; capplan prices list shows those "
            "that are known.",
        )
    best = min(rows, key=lambda row: row.usd_per_gpu_hour)
    term = f", {best.term_months} months" if best.term_months else ""
    said = f"{best.provider} {best.instance} {best.region}{term}: {best.source.reference}"
    return OtherPrice(best.usd_per_gpu_hour, best.source.model_copy(update={"reference": said}))


def _offers(
    plan: Plan, option: PlanOption, fleet: Fleet, purchase: Purchase, catalog: Catalog
) -> Iterator[PriceRow]:
    """Yield the provider's offers of the same GPUs; those in the option's region if any."""
    rows = [
        row
        for row in catalog.prices
        if (row.purchase, row.gpu, row.provider) == (purchase, option.gpu, option.provider)
        and row.tier in plan.request.price_tiers
        and (row.any_count or row.gpu_count == fleet.tariff.gpus_per_node)
    ]
    here = [row for row in rows if row.region == option.region]
    yield from here or rows
