"""What would make a plan feasible that found nothing: one change at a time, all else as asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from capplan.economics.bill import LARGEST_BILL_USD
from capplan.planning.candidates import Candidate
from capplan.planning.inputs import PlanInputs
from capplan.planning.peaks import sized_for_peak
from capplan.planning.planner import Found, find
from capplan.planning.pricing import Load
from capplan.planning.scenarios import Scenario, best_choices
from capplan.schema.answers import WayOut
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Slo
from capplan.units import MS_PER_S

SHARES_OF_LOAD = tuple(share / 100 for share in range(99, 0, -1))
"""Tried from most to least."""
_PRECISION = 1.01
"""How near the least limit is found: within a hundredth above it."""
_DOUBLINGS = 12
_FIGURES = 3


def ways_out(inputs: PlanInputs, request: PlanRequest) -> tuple[WayOut, ...] | None:
    """Return the least change of budget, limits or load with which a plan is found.

    Returns
    -------
    tuple of WayOut, or None
        Empty where none of them helps alone or together; None where the plan is feasible.
    """
    search = _Search(inputs, request)
    if search.best() is not None:
        return None
    found = [*search.by_budget(), *search.by_limits(), *search.by_load()]
    return tuple(found or search.without_limits())


@dataclass(frozen=True)
class _Search:
    inputs: PlanInputs
    request: PlanRequest

    def best(self, slo: Slo | None = None) -> Candidate | None:
        """Return the best candidate within the budget, at other limits where some are given."""
        found = self._found(self.request.slo if slo is None else slo)
        if found.found is None or not found.order.size:
            return None
        return found.found.candidate(int(found.order[0]))

    def cheapest(self, slo: Slo) -> Candidate | None:
        """Return the candidate of the smallest bill, whatever the budget."""
        found = self._found(slo)
        if found.found is None:
            return None
        return found.found.candidate(int(np.argmin(found.found.columns.usd_month)))

    def _found(self, slo: Slo) -> Found:
        return find(self.inputs, sized_for_peak(self.request.model_copy(update={"slo": slo})))

    def by_budget(self) -> Iterator[WayOut]:
        """Yield the budget of the cheapest plan within the limits."""
        cheapest = self.cheapest(self.request.slo)
        if cheapest is None or cheapest.bill.total_usd > LARGEST_BILL_USD:
            return
        needed = math.ceil(cheapest.bill.total_usd * 100) / 100
        asked = self.request.budget_usd_per_month
        yield _way("budget", "USD a month", (asked, needed), cheapest)

    def by_limits(self) -> Iterator[WayOut]:
        """Yield each limit as it would have to be at the budget."""
        for what, name in (("tpot", "tpot_ms"), ("ttft", "ttft_ms")):
            asked = getattr(self.request.slo, name)
            if asked is None:
                continue
            needed = _least(asked, partial(self._keeps, name))
            best = self._at(name, needed) if needed is not None else None
            if needed is not None and best is not None:
                yield _way(what, "ms", (asked, needed), best)

    def _keeps(self, name: str, limit: float | None) -> bool:
        return self._at(name, limit) is not None

    def _at(self, name: str, limit: float | None) -> Candidate | None:
        return self.best(self.request.slo.model_copy(update={name: limit}))

    def by_load(self) -> Iterator[WayOut]:
        """Yield the largest share of the load that the budget serves."""
        sized = sized_for_peak(self.request)
        if Load.of(sized).tokens_per_s is None:
            return
        choices = best_choices(
            self.inputs, sized, [Scenario(load=share) for share in SHARES_OF_LOAD]
        )
        for share, choice in zip(SHARES_OF_LOAD, choices, strict=True):
            if choice is None:
                continue
            drafting, hardware = (
                choice.evaluated.drafting,
                choice.evaluated.choices[choice.hardware_index],
            )
            yield WayOut(
                what="load",
                unit="of the load",
                asked=1.0,
                needed=share,
                usd_per_month=choice.usd_month,
                tpot_ms=choice.tpot_s * MS_PER_S,
                choice=_words(
                    (drafting.draft_id, choice.length),
                    f"{choice.replicas} x TP{hardware.tensor_parallel} {hardware.gpu_id}",
                    choice.offer.row.provider,
                ),
            )
            return

    def without_limits(self) -> Iterator[WayOut]:
        """Yield the cheapest plan without any limit, be it above the budget."""
        cheapest = self.cheapest(Slo())
        if cheapest is not None and self.request.slo != Slo():
            yield _way("limits", "no limit on TPOT and TTFT", (None, None), cheapest)


def _least(asked: float, feasible: Callable[[float | None], bool]) -> float | None:
    """Return the least limit at which a plan is found, in three figures; None where none is."""
    if not feasible(None):
        return None
    above = asked
    for _ in range(_DOUBLINGS):
        below, above = above, above * 2.0
        if feasible(above):
            break
    else:
        return None
    while above / below > _PRECISION:
        middle = math.sqrt(above * below)
        below, above = (below, middle) if feasible(middle) else (middle, above)
    return _rounded_up(above)


def _rounded_up(value: float) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - _FIGURES)
    return round(math.ceil(value / step) * step, 9)


def _way(
    what: str, unit: str, change: tuple[float | None, float | None], best: Candidate
) -> WayOut:
    choice = best.evaluated.choices[best.hardware_index]
    return WayOut.model_validate(
        {
            "what": what,
            "unit": unit,
            "asked": change[0],
            "needed": change[1],
            "usd_per_month": float(best.bill.total_usd),
            "tpot_ms": best.tpot_s * MS_PER_S,
            "choice": _words(
                (best.evaluated.drafting.draft_id, best.num_speculative_tokens),
                f"{best.replicas} x TP{best.tensor_parallel} {choice.gpu_id}",
                best.price.provider,
            ),
        }
    )


def _words(drafted: tuple[str | None, int], hardware: str, provider: str) -> str:
    draft, length = drafted
    how = f"{(draft or '').rsplit('/', 1)[-1]} N={length}" if length else "no speculation"
    return f"{how}, {hardware}, {provider}"
