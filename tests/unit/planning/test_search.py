"""The search counts what it computes, and leaves nothing running behind it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from capplan.api.collecting import paused_collection
from capplan.api.plans import plan_inputs, recommend
from capplan.errors import RequestError
from capplan.planning.feasibility import RejectionLog
from capplan.planning.inputs import usable_prices
from capplan.planning.planner import find
from capplan.planning.pricing import Load, price_candidates
from capplan.planning.target_evaluation import Knowledge, evaluate_target
from capplan.planning.terms import Terms
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Slo, Workload

REQUEST = PlanRequest(
    targets=("meta-llama/Llama-3.1-8B-Instruct",),
    budget_usd_per_month=1e6,
    workload=Workload(requests_per_s=20.0, prompt_tokens=1000, output_tokens=300),
    gpus=("h100-sxm-80gb", "l40s-48gb"),
    slo=Slo(tpot_ms=30),
)


def test_an_evaluation_is_a_point_under_an_offer() -> None:
    request, inputs = plan_inputs(REQUEST)
    found = find(inputs, request)
    known = Knowledge.of(inputs, usable_prices(inputs, request), Terms.of(request))
    expected = 0
    target = inputs.target(request.targets[0])
    for item, table in evaluate_target(target, known, request, RejectionLog()):
        for h, choice in enumerate(item.choices):
            if item.grid.feasible[h].any():
                points = item.grid.throughput[h].size
                expected += points * len(table.holding(choice))
    assert found.evaluations == expected
    assert found.evaluations > found.candidates


def test_the_best_of_every_offer_is_the_cheapest_of_all_its_points() -> None:
    request, inputs = plan_inputs(REQUEST)
    load = Load.of(request)
    assert load.tokens_per_s is not None
    known = Knowledge.of(inputs, usable_prices(inputs, request), Terms.of(request))
    target = inputs.target(request.targets[0])
    for item, table in evaluate_target(target, known, request, RejectionLog()):
        part = price_candidates(0, item, table, load)
        if part is None:
            continue
        for at, (_, offer) in enumerate(part.sources):
            h = int(part.columns.hardware_index[at])
            rates = item.grid.throughput[h][item.grid.feasible[h]]
            size = item.choices[h].tensor_parallel
            replicas = np.maximum(
                np.ceil(load.tokens_per_s / (rates * load.utilisation) - 1e-9), 1.0
            )
            nodes = np.ceil(replicas / (offer.tariff.gpus_per_node // size))
            least = nodes.min() * float(offer.tariff.usd_per_node_hour) * 730.0
            assert part.columns.usd_month[at] == pytest.approx(least)


def fail_while_paused() -> None:
    with paused_collection():
        assert not gc.isenabled()
        raise RequestError("on purpose", "")


def test_the_cycle_collector_is_as_it_was_after_a_plan_and_after_an_error() -> None:
    assert gc.isenabled()
    recommend(REQUEST)
    assert gc.isenabled()
    with pytest.raises(RequestError, match="on purpose"):
        fail_while_paused()
    assert gc.isenabled()
    gc.disable()
    try:
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
