"""Search every pairing, length, GPU, size and price row; rank what is feasible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.economics.decimals import exact
from capplan.planning.candidates import Candidates
from capplan.planning.feasibility import RejectionLog, log_infeasible, log_over_budget
from capplan.planning.inputs import PlanInputs, usable_prices
from capplan.planning.options import Finalist, build_options
from capplan.planning.pricing import Load, price_candidates
from capplan.planning.ranking import pareto_front, ranked
from capplan.planning.target_evaluation import Knowledge, evaluate_target
from capplan.planning.terms import Terms
from capplan.schema.llm import LlmSpec
from capplan.schema.plan import PlanOption, PlanRequest, Rejection

Booleans = NDArray[np.bool_]
Integers = NDArray[np.int64]

MAX_OPTIONS_PER_TARGET = 40
"""Options written out a target, beside its Pareto front; the rest differ only in price row."""
MAX_CURVES_PER_TARGET = 5
"""Options with a load curve a target, beside its Pareto front: plan files stay small."""


@dataclass(frozen=True)
class Outcome:
    """What the search found."""

    options: tuple[PlanOption, ...]
    baseline: PlanOption | None
    rejections: tuple[Rejection, ...]
    offers: int
    candidates: int
    cheapest_over_budget_usd: float | None


@dataclass(frozen=True)
class Found:
    """Every candidate evaluated, priced and put in order; nothing is written out yet."""

    targets: tuple[LlmSpec, ...]
    log: RejectionLog
    found: Candidates | None
    """The best N of every hardware under every offer."""
    order: Integers
    """Those within the budget, best first."""
    offers: int
    candidates: int
    evaluations: int
    """Points (hardware, N, batch) under an offer whose memory, times and dollars were computed."""
    cheapest_over_budget_usd: float | None


def search(inputs: PlanInputs, request: PlanRequest) -> Outcome:
    """Evaluate every candidate and keep the feasible ones within the budget, best first.

    Raises
    ------
    UnknownIdError
        If a target is neither in the catalogue nor in a profile.
    """
    return written(find(inputs, request), request)


def find(inputs: PlanInputs, request: PlanRequest) -> Found:
    """Evaluate, price and rank every candidate; raises as :func:`search`."""
    log = RejectionLog()
    prices, terms, load = usable_prices(inputs, request), Terms.of(request), Load.of(request)
    known = Knowledge.of(inputs, prices, terms)
    targets = tuple(inputs.target(target) for target in request.targets)
    candidates, evaluations = 0, 0
    parts = []
    for index, target in enumerate(targets):
        for item, table in evaluate_target(target, known, request, log):
            log_infeasible(log, target, item, request)
            offers = sum(table.count(choice) for choice in item.choices)
            candidates += len(item.grid.lengths) * offers
            part = price_candidates(index, item, table, load)
            if part is not None:
                evaluations += len(part) * len(item.grid.lengths) * len(item.grid.batches)
                parts.append(part)
    found = Candidates.joined(parts)
    order, cheapest_over = np.zeros(0, dtype=np.int64), None
    if found is not None:
        within = affordable(found, request.budget_usd_per_month)
        cheapest_over = _log_over(log, found, within, request.budget_usd_per_month)
        order = ranked(found.columns, most_tokens=load.tokens_per_s is None)
        order = order[within[order]]
    return Found(targets, log, found, order, len(prices), candidates, evaluations, cheapest_over)


def written(found: Found, request: PlanRequest) -> Outcome:
    """Write the finalists out in full."""
    options: tuple[PlanOption, ...] = ()
    baseline = None
    if found.found is not None:
        options = _options(found.found, found.order, found.targets, request)
        baseline = _baseline(found.found, found.order, found.targets, request)
    return Outcome(
        options=options,
        baseline=baseline,
        rejections=found.log.rejections(),
        offers=found.offers,
        candidates=found.candidates,
        cheapest_over_budget_usd=found.cheapest_over_budget_usd,
    )


def affordable(found: Candidates, budget_usd: float) -> Booleans:
    """Return which bills are within the budget; one equal to it, to the cent, is."""
    usd = found.columns.usd_month
    within = usd <= budget_usd
    for at in np.flatnonzero(np.isclose(usd, budget_usd, rtol=1e-9, atol=0.0)):
        within[at] = found.candidate(int(at)).bill.total_usd <= exact(budget_usd)
    return within


def _log_over(
    log: RejectionLog, found: Candidates, within: Booleans, budget_usd: float
) -> float | None:
    """Record what the budget excludes; return the cheapest bill of it."""
    over = np.flatnonzero(~within)
    if not over.size:
        return None
    cheapest = found.candidate(int(over[found.columns.usd_month[over].argmin()]))
    log_over_budget(log, cheapest, len(over), budget_usd)
    return cheapest.usd_month


def _options(
    found: Candidates, order: Integers, targets: Sequence[LlmSpec], request: PlanRequest
) -> tuple[PlanOption, ...]:
    on_front = pareto_front(found.columns, order)
    kept: dict[int, int] = {}
    chosen = []
    for at in order:
        target, front = int(found.columns.target[at]), bool(on_front[at])
        seen = kept.get(target, 0)
        if seen >= MAX_OPTIONS_PER_TARGET and not front:
            continue
        kept[target] = seen + 1
        curve = front or seen < MAX_CURVES_PER_TARGET
        chosen.append(Finalist(found.candidate(int(at)), targets[target], curve, front))
    return build_options(chosen, request.workload)


def _baseline(
    found: Candidates, order: Integers, targets: Sequence[LlmSpec], request: PlanRequest
) -> PlanOption | None:
    """Return the best plan without speculation for the first target."""
    columns = found.columns
    plain = order[(columns.length[order] == 0) & (columns.target[order] == 0)]
    if not plain.size:
        return None
    best = Finalist(found.candidate(int(plain[0])), targets[0], with_curve=True)
    return build_options([best], request.workload)[0]
