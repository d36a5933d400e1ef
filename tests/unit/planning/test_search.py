"""The search counts what it computes, and leaves nothing running behind it."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from capplan.api.collecting import paused_collection
from capplan.api.plans import plan_inputs, recommend
from capplan.errors import RequestError
from capplan.planning.feasibility import RejectionLog
from capplan.planning.figures import Errors, FigureCache, _spread
from capplan.planning.inputs import usable_prices
from capplan.planning.planner import find
from capplan.planning.pricing import Load, price_candidates
from capplan.planning.target_evaluation import Knowledge, evaluate_target
from capplan.planning.terms import Terms
from capplan.schema.plan import Plan, PlanRequest, SpreadCause
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


def test_what_a_draft_must_yield_is_told_only_where_its_memory_is_known() -> None:
    draft = "Qwen/Qwen3-0.6B"
    asked = PlanRequest.model_validate(
        {
            "targets": ("Qwen/Qwen3-8B",),
            "budget_usd_per_month": 1e6,
            "drafts": (draft,),
            "gpus": ("l40s",),
            "tensor_parallel": (1,),
        }
    )
    request, inputs = plan_inputs(asked)
    bare = inputs.llms[draft].model_copy(update={"kv_bytes_per_token": None, "cache": ()})
    unknown = replace(inputs, llms={**inputs.llms, draft: bare})
    for given, told in ((inputs, True), (unknown, False)):
        rejections = find(given, request).log.rejections()
        example = next(r.example for r in rejections if r.reason == "acceptance_unknown")
        assert ("tokens a round (by GPU) to pay" in example) is told


@pytest.mark.parametrize("name", ["tpot_s", "decode_s"])
def test_a_curve_over_the_load_that_is_no_number_is_refused(name: str) -> None:
    request, inputs = plan_inputs(REQUEST)
    found = find(inputs, request)
    assert found.found is not None
    best = found.found.candidate(int(found.order[0]))
    figures = FigureCache([best]).of(best)
    assert figures.curve(1.0)
    evaluated = figures.evaluated
    nothing: dict[str, Any] = {name: np.full_like(evaluated.grid.tpot_s, np.nan)}
    broken = replace(evaluated.grid, **nothing)
    with pytest.raises(ValueError, match="finite"):
        replace(figures, evaluated=replace(evaluated, grid=broken)).curve(1.0)


def test_what_speculation_hangs_on_is_shared_out_by_variance() -> None:
    errors = Errors(tokens_per_round=3.0, round_down=1.0, round_up=4.0, decode=0.5)
    shares = _spread({SpreadCause.ROUND: 1.0}, errors)
    assert shares == {SpreadCause.ROUND: 16 / 25, SpreadCause.ACCEPTANCE: 9 / 25}
    assert list(shares) == [SpreadCause.ROUND, SpreadCause.ACCEPTANCE]
    certain = Errors(tokens_per_round=0.0, round_down=0.0, round_up=0.0, decode=0.5)
    assert _spread({SpreadCause.ROUND: 1.0}, certain) == {}


def test_requests_longer_than_the_context_are_never_planned() -> None:
    # Qwen3-32B: 40,960 tokens as its checkpoint ships
    asked = REQUEST.model_copy(update={"targets": ("Qwen/Qwen3-32B",), "slo": Slo()})

    def planned(prompt_tokens: int) -> Plan:
        load = Workload(requests_per_s=1, prompt_tokens=prompt_tokens, output_tokens=960)
        return recommend(asked.model_copy(update={"workload": load, "gpus": ("b200-sxm-180gb",)}))

    assert planned(40_000).options
    refused = planned(40_001)
    assert not refused.options
    assert [(one.reason, one.count) for one in refused.rejections] == [("context", 1)]
    assert "40,961 tokens" in refused.verdict.needed
    assert "context of 40,960" in refused.verdict.needed


def test_the_budget_that_is_said_to_be_needed_is_enough() -> None:
    # 0.91 USD an hour are 664.30 a month: 664 would buy nothing
    asked = REQUEST.model_copy(
        update={"budget_usd_per_month": 1.0, "gpus": ("l40s-48gb",), "slo": Slo()}
    )
    found = re.search(r"costs ([\d,.]+) USD a month", recommend(asked).verdict.needed)
    assert found is not None
    needed = float(found[1].replace(",", ""))
    enough = recommend(asked.model_copy(update={"budget_usd_per_month": needed}))
    assert enough.options
    assert not recommend(asked.model_copy(update={"budget_usd_per_month": needed - 0.01})).options
