"""Price every evaluated point: replicas, nodes, dollars; keep the best N of each offer.

Arrays have the axes (entry, N, batch); an entry is a hardware choice under an offer. Prices are
broadcast last: what memory and time allow was found once for all offers of the hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from capplan.economics.bill import LARGEST_BILL_USD, MONTH_HOURS
from capplan.economics.cost import replicas_for, usd_per_million_tokens
from capplan.planning.candidates import CandidateColumns, Candidates
from capplan.planning.hardware import Evaluated
from capplan.planning.offers import Charges, Offer, OfferTable
from capplan.planning.ranking import comparable_usd
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Workload
from capplan.units import SECONDS_PER_HOUR

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def required_tokens_per_s(
    workload: Workload, serving_hours: Decimal = MONTH_HOURS
) -> float | None:
    """Return the output tokens a second of the serving hours; None without a rate."""
    if workload.requests_per_s is not None:
        return workload.requests_per_s * workload.output_tokens
    if workload.output_tokens_per_month is not None:
        return workload.output_tokens_per_month / (float(serving_hours) * SECONDS_PER_HOUR)
    return None


@dataclass(frozen=True)
class Load:
    """What is to be served, and how full replicas may be."""

    tokens_per_s: float | None
    """None: as much as the budget buys at that utilisation, and that of one node at least."""
    utilisation: float
    serving_hours: float
    fill_usd: float = 0.0
    """What whole nodes are rented for where no load is given."""

    @classmethod
    def of(cls, request: PlanRequest) -> Load:
        """Return the load of a request."""
        workload, hours = request.workload, request.hours_per_month
        required = required_tokens_per_s(workload, hours)
        fill_usd = min(request.budget_usd_per_month, float(LARGEST_BILL_USD))
        return cls(required, workload.utilisation, float(hours), fill_usd)


@dataclass(frozen=True)
class Entries:
    """Hardware under offers, whose points are priced together."""

    evaluated: Evaluated
    hardware: Integers
    offers: tuple[Offer, ...]
    charges: Charges

    @classmethod
    def of(cls, evaluated: Evaluated, table: OfferTable) -> Entries | None:
        """Return every offer of every choice on which something is feasible; None without any."""
        hardware: list[int] = []
        offers: list[Offer] = []
        for h in np.flatnonzero(evaluated.grid.feasible.any(axis=(1, 2))):
            holding = table.holding(evaluated.choices[h])
            hardware.extend([int(h)] * len(holding))
            offers.extend(holding)
        if not offers:
            return None
        return cls(evaluated, np.array(hardware), tuple(offers), Charges.of(offers))

    @property
    def tensor_parallel(self) -> Floats:
        """GPUs of a replica of each entry."""
        sizes = np.array([c.tensor_parallel for c in self.evaluated.choices], dtype=float)
        return sizes[self.hardware]


@dataclass(frozen=True)
class Costs:
    """Replicas and dollars; arrays share one shape."""

    replicas: Floats
    planned_tokens_per_s: Floats
    usd_month: Floats
    usd_per_million: Floats

    def at(self, batch: Integers) -> Costs:
        """Return the figures at one batch of every (entry, N)."""

        def take(values: Floats) -> Floats:
            return np.take_along_axis(values, batch[..., None], axis=2)[..., 0]

        return Costs(
            take(self.replicas),
            take(self.planned_tokens_per_s),
            take(self.usd_month),
            take(self.usd_per_million),
        )


def price_candidates(
    target_index: int, evaluated: Evaluated, table: OfferTable, load: Load
) -> Candidates | None:
    """Return the best N of every (hardware, offer) that is feasible at all; None without any."""
    entries = Entries.of(evaluated, table)
    if entries is None:
        return None
    grid = evaluated.grid
    feasible = grid.feasible[entries.hardware]
    rate = grid.throughput[entries.hardware]
    costs = cost_of(rate, entries.charges.each(1, 1), entries.tensor_parallel[:, None, None], load)
    usd = np.where(feasible, costs.usd_per_million, np.inf)
    batch = cheapest_batch(usd, rate)
    costs = costs.at(batch)
    usable = feasible.any(axis=2)
    served = costs.planned_tokens_per_s / costs.replicas
    concurrency = concurrency_at(rate, served, batch, grid.batches)
    tpot = at_concurrency(grid.tpot_s[entries.hardware], grid.batches, concurrency)
    million = np.where(usable, costs.usd_per_million, np.inf)
    n = best_length(million, tpot)

    def chosen(values: Floats) -> Floats:
        result: Floats = values[np.arange(len(n)), n]
        return result

    columns = CandidateColumns(
        target=np.full(len(n), target_index),
        length=grid.lengths[n],
        usd_month=chosen(costs.usd_month),
        usd_per_million=chosen(million),
        tpot_s=chosen(tpot),
        concurrency=chosen(concurrency),
        planned_tokens_per_s=chosen(costs.planned_tokens_per_s),
        replicas=chosen(costs.replicas),
        hardware_index=entries.hardware,
        n_index=n,
        batch_index=batch[np.arange(len(n)), n],
    )
    return Candidates(columns, tuple((evaluated, offer) for offer in entries.offers))


def cost_of(rate: Floats, charges: Charges, tensor_parallel: Floats, load: Load) -> Costs:
    """Return what serving the load costs when a replica makes ``rate`` tokens a second at most.

    Without a load, how many replicas the budget rents and what these make.
    """
    if load.tokens_per_s is None:
        bought = charges.replicas_within(load.fill_usd, tensor_parallel)
        replicas = np.broadcast_to(bought, rate.shape)
        planned = rate * replicas * load.utilisation
    else:
        replicas = replicas_for(load.tokens_per_s, rate, load.utilisation)
        planned = np.broadcast_to(np.float64(load.tokens_per_s), rate.shape)
    month = charges.usd_per_month(replicas, tensor_parallel)
    million = usd_per_million_tokens(month, planned, load.serving_hours)
    return Costs(replicas, planned, np.broadcast_to(month, rate.shape), million)


def cheapest_batch(usd_per_million: Floats, rate: Floats) -> Integers:
    """Return the batch at which a token is cheapest; of equal ones that of the largest rate."""
    cheapest = usd_per_million <= usd_per_million.min(axis=2, keepdims=True)
    result: Integers = np.where(cheapest, rate, -1.0).argmax(axis=2)
    return result


def best_length(usd_per_million: Floats, tpot_s: Floats) -> Integers:
    """Return the place of the best N: dollars a token, then latency, then the shorter draft."""
    compared = comparable_usd(usd_per_million)
    cheapest = compared <= compared.min(axis=1, keepdims=True)
    result: Integers = np.where(cheapest, tpot_s, np.inf).argmin(axis=1)
    return result


def concurrency_at(
    throughput: Floats, tokens_per_s: Floats, largest_batch: Integers, batches: Floats
) -> Floats:
    """Return the requests decoded at once when one replica makes ``tokens_per_s``.

    Throughput rises with the batch up to the largest one used; the fixed point of load and
    latency is where the curve meets the load (Little's law).

    Parameters
    ----------
    throughput
        Tokens a second by batch, which is the last axis.
    tokens_per_s, largest_batch
        Load of a replica and index of its largest batch; the other axes of ``throughput``.
    """
    curve = np.maximum.accumulate(throughput, axis=-1)
    below = np.clip((curve <= tokens_per_s[..., None]).sum(axis=-1) - 1, 0, len(batches) - 2)
    low = np.take_along_axis(curve, below[..., None], axis=-1)[..., 0]
    high = np.take_along_axis(curve, below[..., None] + 1, axis=-1)[..., 0]
    # what is linear between two batches is the time a token takes, batch / rate, as latencies are
    one, other = batches[below], batches[below + 1]
    slope = (other / high - one / low) / (other - one)
    rate = np.clip(tokens_per_s, low, high)
    share = np.where(high > low, 1.0 - rate * slope, 1.0)
    met = rate * (one / low - slope * one) / share
    met = np.where(tokens_per_s >= high, other, np.where(tokens_per_s <= low, one, met))
    result: Floats = np.clip(met, batches[0], batches[largest_batch])
    return result


def at_concurrency(values: Floats, batches: Floats, concurrency: Floats) -> Floats:
    """Interpolate curves over the batch axis, which is the last of ``values``."""
    below = np.clip(np.searchsorted(batches, concurrency, side="right") - 1, 0, len(batches) - 2)
    low = np.take_along_axis(values, below[..., None], axis=-1)[..., 0]
    high = np.take_along_axis(values, below[..., None] + 1, axis=-1)[..., 0]
    slope = (high - low) / (batches[below + 1] - batches[below])
    result: Floats = low + slope * (concurrency - batches[below])
    return result
