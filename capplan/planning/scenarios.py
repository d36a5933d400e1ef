"""What a plan would recommend if acceptance, prices, load, lengths or overheads were other.

Thousands of scenarios at once: step times are computed once for every pair of lengths and
overheads, tokens a round once for every acceptance on them, and loads and prices are broadcast
over what is left, one number an option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.errors import RequestError
from capplan.planning.feasibility import RejectionLog
from capplan.planning.grid import Grid, with_tokens
from capplan.planning.hardware import Evaluated
from capplan.planning.inputs import PlanInputs, ProfiledMachine, usable_prices
from capplan.planning.offers import Charges, Offer, OfferTable
from capplan.planning.pricing import Entries, Load, at_concurrency, concurrency_at, cost_of
from capplan.planning.ranking import comparable_usd
from capplan.planning.target_evaluation import Knowledge, evaluate_target
from capplan.planning.terms import Terms
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Slo

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

OVERHEADS = ("round_s", "draft_pass_s")
"""Terms of a round that an overhead factor scales: what it costs beside the passes themselves."""
_LEAST_OUTPUT_TOKENS = 2
_SAME_USD = 1e-9


@dataclass(frozen=True)
class ScenarioGrid:
    """Factors on what a plan assumes; every combination is a scenario.

    Attributes
    ----------
    acceptance
        On the drafted tokens that are accepted a round; at most all of them are.
    price
        On every offer.
    load
        On the requests, or the tokens a month.
    lengths
        On prompt and output tokens; requests a second stay, tokens a month too.
    overhead
        On what a round costs beside its passes (sampling, launches of the draft).
    """

    acceptance: tuple[float, ...] = (1.0,)
    price: tuple[float, ...] = (1.0,)
    load: tuple[float, ...] = (1.0,)
    lengths: tuple[float, ...] = (1.0,)
    overhead: tuple[float, ...] = (1.0,)

    def scenarios(self) -> list[Scenario]:
        """Return every combination, the first factor varying slowest.

        Raises
        ------
        RequestError
            If a factor is negative, or one but acceptance and overhead is zero.
        """
        for name in ("acceptance", "price", "load", "lengths", "overhead"):
            may_vanish = name in ("acceptance", "overhead")
            for factor in getattr(self, name):
                if not np.isfinite(factor) or factor < 0 or (factor == 0 and not may_vanish):
                    raise RequestError(
                        f"A factor of {factor:g} on {name} is none, expected more than 0"
                        f"{' or 0' if may_vanish else ''}.",
                        "1 leaves the plan's own value, 0.8 takes 20 % off it.",
                    )
        axes = (self.acceptance, self.price, self.load, self.lengths, self.overhead)
        return [Scenario(*factors) for factors in product(*axes)]


@dataclass(frozen=True)
class Scenario:
    """One set of factors; 1 everywhere is the plan as it is."""

    acceptance: float = 1.0
    price: float = 1.0
    load: float = 1.0
    lengths: float = 1.0
    overhead: float = 1.0


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


def best_choices(
    inputs: PlanInputs, request: PlanRequest, scenarios: Sequence[Scenario]
) -> list[Choice | None]:
    """Return the best option of every scenario; None where nothing is feasible in the budget.

    Parameters
    ----------
    inputs, request
        As for :func:`capplan.planning.planner.search`. Where a request names several targets the
        first one that can be served is, as in a plan.

    Raises
    ------
    RequestError
        If the load is varied and there is none, or lengths that are known by distribution.
    """
    _check(request, scenarios)
    found: list[Choice | None] = [None] * len(scenarios)
    for lengths, overhead in dict.fromkeys((s.lengths, s.overhead) for s in scenarios):
        changed = _longer(request, lengths)
        items = _evaluated(_with_overhead(inputs, overhead), changed)
        mine = [s for s in scenarios if (s.lengths, s.overhead) == (lengths, overhead)]
        for factor in dict.fromkeys(s.acceptance for s in mine):
            rows = _Rows.of([_accepting(item, factor, request.slo) for item in items])
            for at, scenario in enumerate(scenarios):
                if (scenario.lengths, scenario.overhead) != (lengths, overhead):
                    continue
                if scenario.acceptance == factor and rows is not None:
                    found[at] = rows.best(changed, scenario)
    return found


def _check(request: PlanRequest, scenarios: Sequence[Scenario]) -> None:
    workload = request.workload
    if Load.of(request).tokens_per_s is None and any(s.load != 1 for s in scenarios):
        raise RequestError(
            "The plan has no load to vary: it was made for one node of each offer.",
            "Plan with a rate (--rate), or leave the load out of the scenarios.",
        )
    spread = workload.prompt_lengths is not None or workload.output_lengths is not None
    if spread and any(s.lengths != 1 for s in scenarios):
        raise RequestError(
            "The workload's lengths are known by their distribution, which no factor can stretch.",
            "Plan for another workload instead, or leave lengths out of the scenarios.",
        )


def _longer(request: PlanRequest, factor: float) -> PlanRequest:
    workload = request.workload
    lengths = {
        "prompt_tokens": max(round(workload.prompt_tokens * factor), 1),
        "output_tokens": max(round(workload.output_tokens * factor), _LEAST_OUTPUT_TOKENS),
    }
    return request.model_copy(update={"workload": workload.model_copy(update=lengths)})


def _with_overhead(inputs: PlanInputs, factor: float) -> PlanInputs:
    rounds = inputs.engine.rounds
    values = {name: rounds.values[name] * factor for name in OVERHEADS}
    scaled = rounds.model_copy(update={"values": {**rounds.values, **values}})
    return replace(
        inputs,
        engine=inputs.engine.model_copy(update={"rounds": scaled}),
        machines=[_machine_with_overhead(machine, factor) for machine in inputs.machines],
    )


def _machine_with_overhead(machine: ProfiledMachine, factor: float) -> ProfiledMachine:
    evidence = machine.evidence
    scaled = replace(evidence, round_overhead_s=evidence.round_overhead_s * factor)
    return replace(machine, evidence=scaled)


def _evaluated(
    inputs: PlanInputs, request: PlanRequest
) -> list[tuple[int, Evaluated, OfferTable]]:
    """Return every way to draft for every target on all hardware, with its offers."""
    known = Knowledge.of(inputs, usable_prices(inputs, request), Terms.of(request))
    return [
        (index, item, table)
        for index, target in enumerate(request.targets)
        for item, table in evaluate_target(inputs.target(target), known, request, RejectionLog())
    ]


def _accepting(
    item: tuple[int, Evaluated, OfferTable], factor: float, slo: Slo
) -> tuple[int, Evaluated, OfferTable]:
    """Return an evaluation at another acceptance: what a round costs does not depend on it."""
    index, evaluated, table = item
    grid, curve = evaluated.grid, evaluated.drafting.acceptance
    if factor == 1 or curve is None or evaluated.drafting.method is Method.NONE:
        return item
    most = 1.0 + curve.drafted[grid.lengths] * curve.draft_share[grid.lengths]
    tokens = np.clip(1.0 + (grid.tokens_per_round - 1.0) * factor, 1.0, most)
    return index, replace(evaluated, grid=with_tokens(grid, tokens, slo)), table


@dataclass(frozen=True)
class _Rows:
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
    def of(cls, items: Sequence[tuple[int, Evaluated, OfferTable]]) -> _Rows | None:
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
        """Return the best entry within the budget: as a plan ranks, target, dollars, latency."""
        load = Load.of(request)
        if load.tokens_per_s is not None:
            load = replace(load, tokens_per_s=load.tokens_per_s * scenario.load)
        costs = cost_of(self.rate, self.charges, self.tensor_parallel, load)
        month = costs.usd_month * scenario.price
        within = month <= request.budget_usd_per_month * (1.0 + _SAME_USD)
        if not within.any():
            return None
        within &= self.target == self.target[within].min()
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


def _largest(grid: Grid) -> tuple[Floats, Integers]:
    """Return the largest feasible throughput and its batch; a token is cheapest there."""
    allowed = np.where(grid.feasible, grid.throughput, 0.0)
    batch = allowed.argmax(axis=2)
    return np.take_along_axis(allowed, batch[..., None], axis=2)[..., 0], batch
