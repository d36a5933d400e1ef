"""How a month is bought: hours, shared nodes, electricity, discounts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from capplan.economics.bill import MONTH_HOURS, Tariff, energy_usd_per_gpu_hour
from capplan.errors import RequestError
from capplan.schema.gpu import GpuSpec
from capplan.schema.plan import PlanRequest
from capplan.schema.price import Electricity, PriceRow, Purchase
from capplan.schema.provenance import Kind

OWN_PRICE_TIER = "own"
"""Tier of rows made from ``--gpu-price``: any number of GPUs at that price a GPU."""

LIST_TIER = "list"


@dataclass(frozen=True)
class Terms:
    """What the request says about paying."""

    serving_hours: Decimal = MONTH_HOURS
    share_node: bool = False
    electricity: Electricity | None = None

    @classmethod
    def of(cls, request: PlanRequest) -> Terms:
        """Return the terms of a request."""
        return cls(request.hours_per_month, request.share_node, request.electricity)

    def tariff(self, row: PriceRow, gpu: GpuSpec | None) -> Tariff:
        """Return how an offer is paid for; only owned hardware pays for its electricity.

        Raises
        ------
        RequestError
            If electricity is asked for and the hardware's power is not known.
        """
        return Tariff(
            usd_per_node_hour=row.usd_per_hour,
            gpus_per_node=row.gpu_count,
            serving_hours=self.serving_hours,
            always_on=row.purchase is Purchase.RESERVED,
            share_node=self.share_node,
            energy_usd_per_gpu_hour=self._energy(row, gpu),
            term_months=row.term_months,
            upfront_share=row.upfront_share,
        )

    def _energy(self, row: PriceRow, gpu: GpuSpec | None) -> Decimal:
        power = self.electricity
        if power is None or row.tier != OWN_PRICE_TIER:
            return Decimal(0)
        watts = power.watts_per_gpu or (gpu.tdp_w if gpu is not None else None)
        if watts is None:
            raise RequestError(
                f"The power of {row.instance} is not known, so its electricity has no price.",
                "State it: --gpu-watts WATTS, a mean measured in service.",
            )
        return energy_usd_per_gpu_hour(watts, power.usd_per_kwh, power.pue)


def discounted(rows: Iterable[PriceRow], discount: Decimal) -> list[PriceRow]:
    """Take a stated discount off list prices on demand; all other rows stay as they are."""
    return [_less(row, discount) if discount and _is_list(row) else row for row in rows]


def _is_list(row: PriceRow) -> bool:
    return row.purchase is Purchase.ON_DEMAND and row.tier == LIST_TIER


def _less(row: PriceRow, discount: Decimal) -> PriceRow:
    said = f"less {(discount * 100).normalize():f} % as stated (--discount)"
    source = row.source.model_copy(
        update={"kind": Kind.ASSUMED, "reference": f"{row.source.reference}; {said}"}
    )
    update = {"usd_per_hour": row.usd_per_hour * (1 - discount), "source": source}
    return row.model_copy(update=update)


def sized(rows: Iterable[PriceRow], sizes: Iterable[int]) -> list[PriceRow]:
    """Write a price that holds for any number of GPUs once for every size of a replica."""
    counts = tuple(sizes)
    return [
        row.model_copy(update={"gpu_count": count, "usd_per_hour": row.usd_per_gpu_hour * count})
        for row in rows
        for count in (counts if row.any_count else (row.gpu_count,))
    ]
