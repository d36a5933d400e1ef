"""Pareto front, bills and operating points for arbitrary figures."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from capplan.api.plans import plan_inputs, recommend
from capplan.economics.cost import nodes_needed, replicas_for
from capplan.estimate.kv_room import room_tokens
from capplan.estimate.memory import plan_memory
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.planning.candidates import CandidateColumns
from capplan.planning.feasibility import RejectionLog
from capplan.planning.inputs import PlanInputs, usable_prices
from capplan.planning.planner import search
from capplan.planning.pricing import Load, at_concurrency, concurrency_at, price_candidates
from capplan.planning.ranking import pareto_front, ranked
from capplan.planning.scenarios import Scenario, best_choices
from capplan.planning.service_causes import sharing_causes
from capplan.planning.service_fleet import place_services, way_usd
from capplan.planning.target_evaluation import Knowledge, evaluate_target
from capplan.planning.terms import Terms
from capplan.schema.lengths import LognormalLength
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

_POINTS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 8), st.integers(1, 8), st.integers(0, 8)),
    min_size=1,
    max_size=30,
)
"""Target, dollars, latency and N of candidates."""


def columns(points: list[tuple[int, int, int, int]]) -> CandidateColumns:
    table = np.array(points)
    target, usd, tpot_s, length = table.T
    other: dict[str, Any] = dict.fromkeys(
        ("hardware_index", "n_index", "batch_index"), np.zeros(len(table), dtype=np.int64)
    )
    figures: dict[str, Any] = dict.fromkeys(
        ("concurrency", "planned_tokens_per_s", "replicas"), np.ones(len(table))
    )
    return CandidateColumns(
        target=target, length=length, usd_month=usd.astype(float),
        usd_per_million=usd.astype(float), tpot_s=tpot_s.astype(float), **other, **figures,
    )  # fmt: skip


def dominates(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    better = one[1] <= other[1] and one[2] <= other[2] and one[1:3] != other[1:3]
    return one[0] == other[0] and better


@given(_POINTS)
def test_nothing_on_the_front_is_dominated_and_everything_else_is(
    points: list[tuple[int, int, int, int]],
) -> None:
    found = columns(points)
    on_front = pareto_front(found, ranked(found))
    front = [point for point, on in zip(points, on_front, strict=True) if on]
    for chosen in front:
        assert not any(dominates(other, chosen) for other in points)
    for other in points:
        on_it = other[:3] in {chosen[:3] for chosen in front}
        assert on_it or any(dominates(chosen, other) for chosen in front)


@given(_POINTS)
def test_candidates_are_ranked_by_target_dollars_latency_and_length(
    points: list[tuple[int, int, int, int]],
) -> None:
    order = ranked(columns(points))
    assert [points[at] for at in order] == sorted(points)


@given(_POINTS)
def test_the_cheapest_and_the_fastest_are_on_the_front(
    points: list[tuple[int, int, int, int]],
) -> None:
    found = columns(points)
    order = ranked(found)
    on_front = pareto_front(found, order)
    for target in {point[0] for point in points}:
        front = [points[at] for at in order if on_front[at] and points[at][0] == target]
        mine = [point for point in points if point[0] == target]
        assert front[0] == min(mine)
        assert front[-1][2] == min(point[2] for point in mine)


@given(
    st.integers(1, 500), st.sampled_from([1, 2, 4, 8]), st.sampled_from([8, 16])
)  # replicas, tensor parallel, node
def test_nodes_hold_the_replicas_and_none_is_superfluous(n: int, tp: int, node: int) -> None:
    nodes = float(nodes_needed(n, tp, node))
    assert nodes * (node // tp) >= n > (nodes - 1) * (node // tp)


@given(st.floats(0.01, 1e6), st.floats(0.1, 1e5), st.floats(0.05, 1.0))
def test_replicas_carry_the_load_within_the_utilisation(
    load: float, rate: float, utilisation: float
) -> None:
    replicas = float(replicas_for(load, rate, utilisation))
    assert load / (replicas * rate) <= utilisation * (1 + 1e-6)
    assert replicas == 1 or load / ((replicas - 1) * rate) > utilisation * (1 - 1e-6)


@given(st.floats(10e9, 300e9), st.sampled_from([1, 2, 4, 8]))
def test_bytes_of_a_gpu_are_all_accounted_for(gpu_bytes: float, tp: int) -> None:
    catalog = load_catalog()
    target, draft = catalog.llm("Qwen/Qwen3-8B"), catalog.llm("Qwen/Qwen3-0.6B")
    memory = plan_memory(target, draft, gpu_bytes, tp, load_engine("vllm"))
    pool = float(memory.kv_tokens * memory.kv_bytes_per_token)
    parts = memory.target_weight_bytes + memory.draft_weight_bytes + memory.overhead_bytes
    assert pool + float(parts) == pytest.approx(0.92 * gpu_bytes)


@given(st.floats(0.1, 3000.0), st.integers(2, 9), st.floats(0.0, 0.05))
def test_load_and_latency_meet_where_littles_law_says(load: float, upto: int, own: float) -> None:
    batches = 2.0 ** np.arange(10)
    tpot_s = 0.01 + 0.0002 * batches + own * (batches - 1.0)
    throughput = batches / (tpot_s + own)
    met = concurrency_at(throughput[None], np.array([load]), np.array([upto]), batches)
    latency_s = at_concurrency(tpot_s[None], batches, met)
    assert 1.0 <= met[0] <= batches[upto]
    if throughput[0] <= load <= throughput[upto]:
        assert met[0] == pytest.approx(load * (latency_s[0] + own), rel=1e-9)


@given(st.floats(0.1, 3000.0), st.lists(st.floats(1.0, 500.0), min_size=10, max_size=10))
def test_a_rate_that_stands_still_or_falls_is_met_all_the_same(
    load: float, rates: list[float]
) -> None:
    batches = 2.0 ** np.arange(10)
    met = concurrency_at(np.array([rates]), np.array([load]), np.array([9]), batches)
    assert 1.0 <= met[0] <= 512.0
    if load >= max(rates):
        assert met[0] == 512.0
    if load < rates[0]:
        assert met[0] == 1.0


@given(st.lists(st.floats(0.1, 100.0), min_size=10, max_size=10), st.floats(0.0, 600.0))
def test_a_curve_is_read_as_numpy_reads_it(values: list[float], at: float) -> None:
    batches = 2.0 ** np.arange(10)
    inside = np.clip([at], 1.0, 512.0)
    found = at_concurrency(np.array([values]), batches, inside)
    assert found[0] == pytest.approx(float(np.interp(inside[0], batches, values)), rel=1e-12)


_WORKLOADS = st.builds(
    Workload,
    requests_per_s=st.none() | st.floats(0.01, 1000.0),
    prompt_tokens=st.integers(1, 200_000),
    output_tokens=st.integers(2, 30_000),
    temperature=st.floats(0, 2),
    utilisation=st.floats(0.01, 1.0),
)
_SLOS = st.builds(
    Slo, tpot_ms=st.none() | st.floats(1, 500), ttft_ms=st.none() | st.floats(20, 9000)
)


@settings(max_examples=30)
@given(
    st.sampled_from([llm.id for llm in load_catalog().llms]),
    st.floats(50.0, 1e6),
    _WORKLOADS,
    _SLOS,
    st.sampled_from([1, 4, 16]),
    st.none() | st.floats(0, 1),
)
def test_any_request_has_an_answer_that_keeps_its_limits(
    target: str, budget: float, workload: Workload, slo: Slo, longest: int, assumed: float | None
) -> None:
    asked = PlanRequest(
        targets=(target,), budget_usd_per_month=budget, workload=workload, slo=slo,
        max_num_speculative_tokens=longest, assumed_acceptance=assumed,
    )  # fmt: skip
    plan = recommend(asked)
    assert type(plan).model_validate_json(plan.model_dump_json()) == plan
    assert plan.verdict.feasible == bool(plan.options)
    assert plan.options or plan.verdict.needed
    ids = [option.id for option in plan.options]
    assert len(ids) == len(set(ids))
    for option in plan.options:
        assert option.usd_per_month.mid <= budget
        assert option.utilisation <= workload.utilisation + 1e-6
        assert option.num_speculative_tokens <= longest
        assert slo.tpot_ms is None or option.tpot_ms.mid <= slo.tpot_ms * (1 + 1e-9)
        assert slo.ttft_ms is None or option.ttft_ms.mid <= slo.ttft_ms * (1 + 1e-9)


_TARGETS = st.sampled_from(
    ["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B", "openai/gpt-oss-120b"]
)
_LOADS = st.builds(
    Workload,
    requests_per_s=st.floats(0.05, 200.0),
    prompt_tokens=st.integers(1, 20_000),
    output_tokens=st.integers(2, 3_000),
    utilisation=st.floats(0.1, 1.0),
)


def small(target: str, workload: Workload, **fields: Any) -> tuple[PlanInputs, PlanRequest]:
    """Return a request on two GPUs, and the facts for it."""
    asked = PlanRequest(**{
        "targets": (target,), "budget_usd_per_month": 1e7, "workload": workload,
        "gpus": ("h100-sxm-80gb", "l40s-48gb"), "tensor_parallel": (1, 2),
        "max_num_speculative_tokens": 4, **fields,
    })  # fmt: skip
    request, inputs = plan_inputs(asked)
    return inputs, request


def cheapest_usd(inputs: PlanInputs, request: PlanRequest) -> float:
    """Return dollars a million tokens of the best plan; infinite where there is none."""
    options = search(inputs, request).options
    return options[0].usd_per_million_output_tokens.mid if options else math.inf


@settings(max_examples=15)
@given(_TARGETS, _LOADS, st.floats(0.9, 4.0), st.floats(1.0, 10.0))
def test_more_budget_never_gives_a_worse_plan(
    target: str, workload: Workload, share: float, factor: float
) -> None:
    inputs, any_budget = small(target, workload)
    options = search(inputs, any_budget).options
    assume(options)
    # around the bills that there are: most budgets at random hold nothing or everything
    budget = min(option.usd_per_month.mid for option in options) * share
    tight, loose = (
        any_budget.model_copy(update={"budget_usd_per_month": usd})
        for usd in (budget, budget * factor)
    )
    assert cheapest_usd(inputs, loose) <= cheapest_usd(inputs, tight) * (1 + 1e-9)
    assert share < 1 or math.isfinite(cheapest_usd(inputs, tight))


def tokens_per_month(inputs: PlanInputs, request: PlanRequest) -> float:
    """Return the output tokens of the best plan; none where there is no plan."""
    options = search(inputs, request).options
    if not options:
        return 0.0
    assert options[0].output_tokens_per_month is not None
    return options[0].output_tokens_per_month.mid


@settings(max_examples=10)
@given(_TARGETS, st.floats(0.1, 1.0), st.floats(300.0, 3000.0), st.booleans())
def test_more_budget_never_yields_fewer_tokens(
    target: str, utilisation: float, budget: float, share_node: bool
) -> None:
    inputs, request = small(target, Workload(utilisation=utilisation), share_node=share_node)
    tokens = [
        tokens_per_month(
            inputs, request.model_copy(update={"budget_usd_per_month": budget * factor})
        )
        for factor in (1.0, 1.2, 1.9, 3.0, 7.0, 30.0)
    ]
    assert all(few <= many * (1 + 1e-9) for few, many in pairwise(tokens))
    assert tokens[-1] > tokens[0]


@settings(max_examples=15)
@given(_TARGETS, _LOADS, st.floats(1.0, 5.0), st.sampled_from(["h100-sxm-80gb", "l40s-48gb"]))
def test_a_dearer_offer_never_makes_a_plan_cheaper(
    target: str, workload: Workload, factor: float, gpu: str
) -> None:
    inputs, request = small(target, workload)
    dearer = [
        row.model_copy(update={"usd_per_hour": row.usd_per_hour * Decimal(repr(factor))})
        if row.gpu == gpu
        else row
        for row in inputs.prices
    ]
    now, then = (
        cheapest_usd(inputs, request),
        cheapest_usd(replace(inputs, prices=dearer), request),
    )
    assert now <= then * (1 + 1e-9)


@settings(max_examples=15)
@given(
    _TARGETS,
    _LOADS,
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.sampled_from([Method.NGRAM, Method.SUFFIX, Method.DRAFT_MODEL, Method.EAGLE3]),
)
def test_a_worse_assumed_acceptance_never_makes_a_plan_cheaper(
    target: str, workload: Workload, one: float, other: float, method: Method
) -> None:
    inputs, request = small(target, workload, methods=(method,))
    # nothing that is published may stand in the way of what is assumed
    inputs = replace(inputs, acceptance=())
    worse, better = (
        cheapest_usd(inputs, request.model_copy(update={"assumed_acceptance": rate}))
        for rate in sorted((one, other))
    )
    assert better <= worse * (1 + 1e-9)


@settings(max_examples=15)
@given(
    _TARGETS,
    _LOADS,
    st.lists(st.floats(0.0, 2.0), min_size=2, max_size=4),
    st.lists(st.floats(0.1, 5.0), min_size=2, max_size=4),
)
def test_scenarios_follow_acceptance_and_price(
    target: str, workload: Workload, acceptances: list[float], prices: list[float]
) -> None:
    inputs, request = small(target, workload)
    scenarios = [Scenario(acceptance=a) for a in sorted(acceptances)]
    scenarios += [Scenario(price=p) for p in sorted(prices)]
    usd = [
        math.inf if choice is None else choice.usd_per_million
        for choice in best_choices(inputs, request, scenarios)
    ]
    by_acceptance, by_price = usd[: len(acceptances)], usd[len(acceptances) :]
    pairs = pairwise(by_acceptance)
    assert all(better <= worse * (1 + 1e-9) for worse, better in pairs)
    pairs = pairwise(by_price)
    assert all(cheaper <= dearer * (1 + 1e-9) for cheaper, dearer in pairs)


@settings(max_examples=10)
@given(_TARGETS, _LOADS)
def test_no_draft_is_the_baseline_of_every_draft(target: str, workload: Workload) -> None:
    inputs, request = small(target, workload)
    prices = usable_prices(inputs, request)
    known = Knowledge.of(inputs, prices, Terms.of(request))
    items = evaluate_target(inputs.target(target), known, request, RejectionLog())
    plain = items[0][0]
    assert plain.drafting.method is Method.NONE
    assert (plain.grid.speedup == 1.0).all()
    assert (plain.grid.round_ratio == 1.0).all()
    for item, _ in items[1:]:
        rows = [plain.choices.index(choice) for choice in item.choices]
        same = plain.grid.tpot_s[rows] == item.grid.baseline_tpot_s
        assert same.all()
        ratio = item.grid.decode_s / (item.grid.tpot_s - item.grid.interference_s)
        assert ratio == pytest.approx(item.grid.speedup, rel=1e-6)


@settings(max_examples=15)
@given(_TARGETS, _LOADS)
def test_twice_the_load_on_twice_the_replicas_is_used_as_much(
    target: str, workload: Workload
) -> None:
    inputs, request = small(target, workload)
    known = Knowledge.of(inputs, usable_prices(inputs, request), Terms.of(request))
    load = Load.of(request)
    assert load.tokens_per_s is not None
    twice = replace(load, tokens_per_s=2 * load.tokens_per_s)
    for item, table in evaluate_target(inputs.target(target), known, request, RejectionLog()):
        once, double = (price_candidates(0, item, table, size) for size in (load, twice))
        if once is None or double is None:
            continue
        one, two = once.columns, double.columns
        # rounded up once instead of twice: never more than twice the replicas, one less at most
        comparable = one.n_index == two.n_index
        assert (two.replicas <= 2 * one.replicas)[comparable].all()
        assert (two.replicas >= 2 * one.replicas - 1)[comparable].all()
        same = comparable & (two.replicas == 2 * one.replicas)
        made = [
            item.grid.throughput[c.hardware_index, c.n_index, c.batch_index] for c in (one, two)
        ]
        used = [
            c.planned_tokens_per_s / (c.replicas * rate)
            for c, rate in zip((one, two), made, strict=True)
        ]
        assert used[1][same] == pytest.approx(used[0][same], rel=1e-9)
        assert two.concurrency[same] == pytest.approx(one.concurrency[same], rel=1e-9)
        assert two.tpot_s[same] == pytest.approx(one.tpot_s[same], rel=1e-9)


_LENGTHS = st.builds(
    LognormalLength, median_tokens=st.floats(1, 20_000), sigma=st.floats(0.05, 2.0)
)


@given(_LENGTHS, _LENGTHS, st.floats(-0.5, 1.0))
def test_a_batch_takes_more_room_the_larger_it_is_and_each_of_it_less(
    prompts: LognormalLength, outputs: LognormalLength, correlation: float
) -> None:
    workload = Workload(
        prompt_lengths=prompts, output_lengths=outputs, length_correlation=correlation
    )
    batches = 2.0 ** np.arange(12)
    each = room_tokens(workload, batches)
    whole = workload.prompt_tokens + workload.output_tokens
    assert (each >= whole).all()
    assert (np.diff(each) <= each[:-1] * 1e-12).all()
    assert (np.diff(each * batches) > 0).all()


@settings(max_examples=10)
@given(
    _TARGETS, st.floats(0.05, 20.0), st.integers(1, 8000), st.integers(2, 2000), st.integers(2, 4)
)
def test_equal_services_on_one_offer_never_cost_more_shared(
    target: str, rate: float, prompt: int, output: int, count: int
) -> None:
    load = Workload(requests_per_s=rate, prompt_tokens=prompt, output_tokens=output)
    inputs, request = small(
        target, load, gpus=("h100-sxm-80gb",), tensor_parallel=(2,), providers=("lambda",)
    )
    named = tuple(NamedWorkload(name=f"s{i}", workload=load) for i in range(count))
    found = place_services(inputs, request.model_copy(update={"services": named}))
    if "apart" not in found.ways:
        assert found.ways == {}
        return
    apart, shared = (way_usd(found.ways[name]) for name in ("apart", "shared"))
    assert shared <= apart * (1 + 1e-9)
    causes = sharing_causes(found)
    assert sum(cause.usd_per_month for cause in causes) == pytest.approx(shared - apart, abs=0.1)
    assert {cause.cause for cause in causes} <= {"whole replicas and nodes"}
