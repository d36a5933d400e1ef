"""Options of a search as columns, of which every scenario chooses its best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.planning.grid import Grid
from capplan.planning.hardware import Evaluated
from capplan.planning.offers import Charges, Offer, OfferTable
from capplan.planning.pricing import Entries, Load, at_concurrency, concurrency_at, cost_of
from capplan.planning.ranking import comparable_tokens, comparable_usd
from capplan.planning.scenario_grid import Scenario
from capplan.schema.plan import PlanRequest

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SAME_USD = 1e-9


@dataclass(frozen=True)
class Choice:
    """The best option of one scenario."""

    target_index: int
    evaluated: Evaluated
    hardware_index: int
    length: int
    offer: Offer
    replicas: int
    usd_month: float
    usd_per_million: float
    tpot_s: float
    concurrency: float
    speedup: float

    @property
    def what(self) -> tuple[object, ...]:
        """What is run, on what, rented from whom: two choices are equal where this is."""
        drafting, row = self.evaluated.drafting, self.offer.row
        hardware = self.evaluated.choices[self.hardware_index]
        return (
            (self.target_index, drafting.method, drafting.draft_id, self.length),
            (hardware.gpu_id, hardware.tensor_parallel),
            (row.provider, row.instance, row.region, row.purchase, row.term_months),
        )


@dataclass(frozen=True)
class OptionRows:
    """Every (target, way to draft, hardware, offer, N) at its largest batch, one entry each."""

    sources: tuple[tuple[Evaluated, Offer], ...]
    """Of every (way to draft, hardware, offer)."""
    source: Integers
    target: Integers
    length: Integers
    hardware: Integers
    n_index: Integers
    rate: Floats
    batch: Integers
    tensor_parallel: Floats
    charges: Charges

    @classmethod
    def of(cls, items: Sequence[tuple[int, Evaluated, OfferTable]]) -> OptionRows | None:
        """Lay out all items one after the other; None where nothing is feasible."""
        parts: list[tuple[NDArray[Any], ...]] = []
        sources: list[tuple[Evaluated, Offer]] = []
        for target, evaluated, table in items:
            entries = Entries.of(evaluated, table)
            if entries is None:
                continue
            grid = evaluated.grid
            rate, batch = _largest(grid)
            rate, batch = rate[entries.hardware], batch[entries.hardware]
            entry, n = np.nonzero(rate > 0)
            parts.append(
                (
                    entry + len(sources),
                    np.full(len(entry), target),
                    grid.lengths[n],
                    entries.hardware[entry],
                    n,
                    rate[entry, n],
                    batch[entry, n],
                    entries.tensor_parallel[entry],
                )
            )
            sources.extend((evaluated, offer) for offer in entries.offers)
        if not parts:
            return None
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        charges = Charges.of([offer for _, offer in sources]).take(columns[0])
        source, place, length, hardware, n_index, rate, batch, size = columns
        return cls(
            tuple(sources), source, place, length, hardware, n_index, rate, batch, size, charges
        )

    def best(self, request: PlanRequest, scenario: Scenario) -> Choice | None:
        """Return the best entry within the budget, ranked as in a plan."""
        load = _scaled(Load.of(request), scenario)
        costs = cost_of(self.rate, self.charges, self.tensor_parallel, load)
        month = costs.usd_month * scenario.price
        within = month <= request.budget_usd_per_month * (1.0 + _SAME_USD)
        if not within.any():
            return None
        within &= self.target == self.target[within].min()
        if load.tokens_per_s is None:
            tokens = np.where(within, comparable_tokens(costs.planned_tokens_per_s), 0.0)
            within &= tokens >= tokens.max()
        usd = np.where(within, comparable_usd(costs.usd_per_million * scenario.price), np.inf)
        tied = np.flatnonzero(usd <= usd.min())
        served = costs.planned_tokens_per_s[tied] / costs.replicas[tied]
        concurrency, tpot = self._met(tied, served)
        first = np.lexsort((self.length[tied], tpot))[0]
        at = int(tied[first])
        evaluated, offer = self.sources[int(self.source[at])]
        grid, h, n = evaluated.grid, int(self.hardware[at]), int(self.n_index[at])
        speedups = grid.tokens_per_round[n] / grid.round_ratio[h, n]
        return Choice(
            target_index=int(self.target[at]),
            evaluated=evaluated,
            hardware_index=h,
            length=int(self.length[at]),
            offer=offer,
            replicas=int(costs.replicas[at]),
            usd_month=float(month[at]),
            usd_per_million=float(costs.usd_per_million[at] * scenario.price),
            tpot_s=float(tpot[first]),
            concurrency=float(concurrency[first]),
            speedup=float(np.interp(concurrency[first], grid.batches, speedups)),
        )

    def _met(self, entries: Integers, tokens_per_s: Floats) -> tuple[Floats, Floats]:
        """Return the concurrency and the time a token of some entries at a load."""
        places = [
            (self.sources[source][0].grid, h, n)
            for source, h, n in zip(
                self.source[entries].tolist(),
                self.hardware[entries].tolist(),
                self.n_index[entries].tolist(),
                strict=True,
            )
        ]
        batches = places[0][0].batches
        throughput = np.array([grid.throughput[h, n] for grid, h, n in places])
        seconds = np.array([grid.tpot_s[h, n] for grid, h, n in places])
        concurrency = concurrency_at(throughput, tokens_per_s, self.batch[entries], batches)
        return concurrency, at_concurrency(seconds, batches, concurrency)


def _scaled(load: Load, scenario: Scenario) -> Load:
    """Return the load of a scenario; without one, the budget in prices of today."""
    if load.tokens_per_s is None:
        return replace(load, fill_usd=load.fill_usd / scenario.price)
    return replace(load, tokens_per_s=load.tokens_per_s * scenario.load)


def _largest(grid: Grid) -> tuple[Floats, Integers]:
    """Return the largest feasible throughput and its batch; a token is cheapest there."""
    allowed = np.where(grid.feasible, grid.throughput, 0.0)
    batch = allowed.argmax(axis=2)
    return np.take_along_axis(allowed, batch[..., None], axis=2)[..., 0], batch
