"""Price rows as columns: which offers hold a replica, and what each asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capplan.economics.bill import Tariff
from capplan.economics.cost import nodes_needed, usd_per_month
from capplan.planning.choices import HardwareChoice
from capplan.planning.terms import Terms
from capplan.schema.price import PriceRow

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROUNDING = 1e-12
"""Relative: a budget of exactly n nodes must not buy n - 1 by rounding of the division."""


def fits_node(row: PriceRow, tensor_parallel: int) -> bool:
    """Whether a replica fits the offer; a price by the GPU is written for exactly one size."""
    if row.any_count:
        return row.gpu_count == tensor_parallel
    return tensor_parallel <= row.gpu_count


@dataclass(frozen=True)
class Offer:
    """A price row and how it is paid for."""

    row: PriceRow
    tariff: Tariff

    @cached_property
    def charge(self) -> tuple[float, float, float]:
        """GPUs of a node, dollars a GPU and hour, hours on the bill."""
        tariff = self.tariff
        hourly, hours = float(tariff.usd_per_gpu_hour), float(tariff.paid_hours)
        return float(tariff.gpus_per_node), hourly, hours


@dataclass(frozen=True)
class Charges:
    """What offers ask for; every array has one entry an offer, or axes that broadcast."""

    gpus_per_node: Floats
    usd_per_gpu_hour: Floats
    paid_hours: Floats
    share_node: bool

    @classmethod
    def of(cls, offers: Sequence[Offer]) -> Charges:
        """Return the columns of some offers to one request."""
        columns = np.array([offer.charge for offer in offers], dtype=float).reshape(-1, 3).T
        shared = any(offer.tariff.share_node for offer in offers)
        return cls(columns[0], columns[1], columns[2], shared)

    def each(self, *axes: int) -> Charges:
        """Return the columns with so many axes of length one behind them."""
        shape = (-1, *axes)
        return Charges(
            self.gpus_per_node.reshape(shape),
            self.usd_per_gpu_hour.reshape(shape),
            self.paid_hours.reshape(shape),
            self.share_node,
        )

    def take(self, places: Integers) -> Charges:
        """Return the columns of some of the offers, in that order."""
        return Charges(
            self.gpus_per_node[places],
            self.usd_per_gpu_hour[places],
            self.paid_hours[places],
            self.share_node,
        )

    def replicas_within(self, budget_usd: float, tensor_parallel: Floats) -> Floats:
        """Return the replicas of as many whole nodes as a budget rents, and of one at least."""
        if self.share_node:
            gpus, per_node = tensor_parallel, np.ones_like(tensor_parallel)
        else:
            gpus, per_node = self.gpus_per_node, self.gpus_per_node // tensor_parallel
        node_usd = usd_per_month(gpus, self.usd_per_gpu_hour, self.paid_hours)
        nodes = np.floor(budget_usd / node_usd * (1.0 + _ROUNDING))
        result: Floats = np.maximum(nodes, 1.0) * per_node
        return result

    def usd_per_month(self, replicas: Floats, tensor_parallel: Floats) -> Floats:
        """Return the bills of so many replicas, in float.

        The exact ones are :func:`capplan.economics.bill.monthly_bill`'s.
        """
        if self.share_node:
            gpus = replicas * tensor_parallel
        else:
            nodes = nodes_needed(replicas, tensor_parallel, self.gpus_per_node)
            gpus = nodes * self.gpus_per_node
        return usd_per_month(gpus, self.usd_per_gpu_hour, self.paid_hours)


class OfferTable:
    """Offers by GPU and size of a replica; a tariff is made once, when it is first needed."""

    def __init__(self, rows: Sequence[PriceRow], terms: Terms) -> None:
        self._terms = terms
        self._rows: dict[str, list[PriceRow]] = {}
        for row in rows:
            self._rows.setdefault(row.gpu, []).append(row)
        self._offers: dict[str, list[Offer]] = {}
        self._fitting: dict[tuple[str, int], tuple[Offer, ...]] = {}
        self._counts: dict[tuple[str, int], int] = {}

    def count(self, choice: HardwareChoice) -> int:
        """Return how many offers hold such a replica."""
        key = choice.gpu_id, choice.tensor_parallel
        if key not in self._counts:
            rows = self._rows.get(choice.gpu_id, ())
            self._counts[key] = sum(fits_node(row, choice.tensor_parallel) for row in rows)
        return self._counts[key]

    def holding(self, choice: HardwareChoice) -> tuple[Offer, ...]:
        """Return the offers that hold such a replica.

        Raises
        ------
        RequestError
            If electricity is asked for and the hardware's power is not known.
        """
        key = choice.gpu_id, choice.tensor_parallel
        if key not in self._fitting:
            self._fitting[key] = tuple(
                offer
                for offer in self._of_gpu(choice)
                if fits_node(offer.row, choice.tensor_parallel)
            )
        return self._fitting[key]

    def _of_gpu(self, choice: HardwareChoice) -> list[Offer]:
        if choice.gpu_id not in self._offers:
            self._offers[choice.gpu_id] = [
                Offer(row, self._terms.tariff(row, choice.gpu))
                for row in self._rows.get(choice.gpu_id, ())
            ]
        return self._offers[choice.gpu_id]
