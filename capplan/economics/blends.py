"""A share of a planned fleet at another price: on spot GPUs, or under a commitment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from capplan.economics.bill import Tariff
from capplan.economics.decimals import without_noise
from capplan.economics.outlook import Fleet
from capplan.schema.answers import CommitmentBlend, SpotBlend
from capplan.schema.provenance import Source

_ROUNDING = 1e-9
"""A load of exactly n replicas must not become n + 1 by rounding of a division."""


@dataclass(frozen=True)
class OtherPrice:
    """Another price for the same GPUs."""

    usd_per_gpu_hour: Decimal
    source: Source


def blend_spot(fleet: Fleet, share: float, overhead: float, price: OtherPrice) -> SpotBlend:
    """Return the bill with a share of the load on spot GPUs.

    Spot replicas carry ``share`` of the load and ``overhead`` of that again; both parts are
    rounded up to whole replicas and nodes.
    """
    needed = fleet.peak_tokens_per_s / (fleet.replica_tokens_per_s * fleet.utilisation_limit)
    kept = math.ceil(needed * (1.0 - share) - _ROUNDING)
    spot = math.ceil(needed * share * (1.0 + overhead) - _ROUNDING)
    spot_fleet = _at_price(fleet, price, always_on=False)
    parts = fleet.usd_per_month(kept), spot_fleet.usd_per_month(spot)
    planned = fleet.usd_per_month(fleet.replicas)
    hourly = fleet.tariff.usd_per_gpu_hour
    return SpotBlend(
        spot_share=share,
        interruption_overhead=overhead,
        on_demand_usd_per_gpu_hour=float(hourly),
        spot_usd_per_gpu_hour=float(price.usd_per_gpu_hour),
        spot_price_source=price.source,
        on_demand_replicas=kept,
        spot_replicas=spot,
        on_demand_usd_per_month=parts[0],
        spot_usd_per_month=parts[1],
        usd_per_month=without_noise(sum(parts)),
        planned_usd_per_month=planned,
        saved_usd_per_month=without_noise(planned - sum(parts)),
        break_even_interruption_overhead=float(hourly / price.usd_per_gpu_hour) - 1.0,
        peak_served_without_spot=min(
            kept * fleet.replica_tokens_per_s / fleet.peak_tokens_per_s, 1.0
        ),
    )


def blend_commitment(
    fleet: Fleet, share: float, price: OtherPrice, nodes_by_hour: Sequence[int] = ()
) -> CommitmentBlend:
    """Return the bill with a share of the nodes committed to, the rest by the hour.

    Parameters
    ----------
    fleet, share, price
        The share is of nodes and rounded down to whole ones.
    nodes_by_hour
        Nodes that the load needs in hours that are alike; empty: all nodes in all hours.
    """
    committed_fleet = _at_price(fleet, price, always_on=True)
    nodes = fleet.nodes(fleet.replicas)
    committed = math.floor(nodes * share + _ROUNDING)
    hourly, committed_hourly = fleet.tariff.usd_per_gpu_hour, price.usd_per_gpu_hour
    paid, committed_paid = fleet.tariff.paid_hours, committed_fleet.tariff.paid_hours
    parts = (
        float(committed * fleet.node_gpus * committed_hourly * committed_paid),
        float((nodes - committed) * fleet.node_gpus * hourly * paid),
    )
    planned = fleet.usd_per_month(fleet.replicas)
    break_even = float(committed_paid * committed_hourly / hourly)
    return CommitmentBlend(
        commit_share=share,
        nodes=nodes,
        committed_nodes=committed,
        on_demand_usd_per_gpu_hour=float(hourly),
        commit_usd_per_gpu_hour=float(committed_hourly),
        commit_price_source=price.source,
        committed_usd_per_month=parts[0],
        on_demand_usd_per_month=parts[1],
        usd_per_month=without_noise(sum(parts)),
        planned_usd_per_month=planned,
        saved_usd_per_month=without_noise(planned - sum(parts)),
        break_even_hours_per_month=break_even,
        nodes_worth_committing=_worth_committing(nodes, nodes_by_hour, float(paid), break_even),
    )


def _worth_committing(
    nodes: int, nodes_by_hour: Sequence[int], paid_hours: float, break_even_hours: float
) -> int:
    """Count the nodes that are needed for more hours of a month than the commitment pays off."""
    by_hour = np.asarray(nodes_by_hour or [nodes])
    each = np.arange(1, nodes + 1)
    hours = (by_hour[None, :] >= each[:, None]).mean(axis=1) * paid_hours
    return int((hours > break_even_hours).sum())


def _at_price(fleet: Fleet, price: OtherPrice, *, always_on: bool) -> Fleet:
    """Return the fleet rented at another price, whose electricity is in it."""
    own = fleet.tariff
    tariff = Tariff(
        usd_per_node_hour=price.usd_per_gpu_hour * own.gpus_per_node,
        gpus_per_node=own.gpus_per_node,
        serving_hours=own.serving_hours,
        always_on=always_on,
        share_node=own.share_node,
    )
    return replace(fleet, tariff=tariff)
