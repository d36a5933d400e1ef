"""What a plan would recommend if acceptance, prices, load, lengths or overheads were other.

Thousands of scenarios at once: step times are computed once for every pair of lengths and
overheads, tokens a round once for every acceptance on them, and loads and prices are broadcast
over what is left, one number an option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from capplan.errors import RequestError
from capplan.planning.feasibility import RejectionLog
from capplan.planning.grid import with_tokens
from capplan.planning.hardware import Evaluated
from capplan.planning.inputs import PlanInputs, ProfiledMachine, usable_prices
from capplan.planning.offers import OfferTable
from capplan.planning.pricing import Load
from capplan.planning.scenario_grid import Scenario, ScenarioGrid
from capplan.planning.scenario_rows import Choice, OptionRows
from capplan.planning.target_evaluation import Knowledge, evaluate_target
from capplan.planning.terms import Terms
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Slo

__all__ = ["OVERHEADS", "Choice", "Scenario", "ScenarioGrid", "best_choices"]

OVERHEADS = ("round_s", "draft_pass_s")
"""Terms of a round that an overhead factor scales: what it costs beside the passes themselves."""
_LEAST_OUTPUT_TOKENS = 2


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
            rows = OptionRows.of([_accepting(item, factor, request.slo) for item in items])
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
            "The plan has no load to vary: it buys the most tokens for its budget.",
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
