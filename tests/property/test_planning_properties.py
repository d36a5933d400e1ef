"""Pareto front, bills and operating points for arbitrary figures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from capplan.api.plans import recommend
from capplan.economics.cost import nodes_needed, replicas_for
from capplan.estimate.memory import plan_memory
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.planning.candidates import Candidate, operating_point
from capplan.planning.ranking import pareto_front, ranked
from capplan.schema.plan import Plan, PlanRequest
from capplan.schema.workload import Slo, Workload

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

_LENGTHS: Any = SimpleNamespace(grid=SimpleNamespace(lengths=np.arange(9)))
_PRICE: Any = None


def candidate(target: int, usd: float, tpot_s: float, n: int) -> Candidate:
    return Candidate(
        target_index=target, evaluated=_LENGTHS, hardware_index=0, n_index=n, price=_PRICE,
        tariff=_PRICE, batch_index=0, replicas=1, planned_tokens_per_s=1.0, usd_month=usd,
        usd_per_million=usd, tpot_s=tpot_s, concurrency=1.0,
    )  # fmt: skip


candidates = st.lists(
    st.builds(
        candidate,
        st.integers(0, 1),
        st.integers(1, 8).map(float),
        st.integers(1, 8).map(float),
        st.integers(0, 8),
    ),
    min_size=1,
    max_size=30,
)


def dominates(one: Candidate, other: Candidate) -> bool:
    return (
        one.target_index == other.target_index
        and one.usd_per_million <= other.usd_per_million
        and one.tpot_s <= other.tpot_s
        and (one.usd_per_million, one.tpot_s) != (other.usd_per_million, other.tpot_s)
    )


@given(candidates)
def test_nothing_on_the_front_is_dominated_and_everything_else_is(found: list[Candidate]) -> None:
    front = pareto_front(found)
    for chosen in front:
        assert not any(dominates(other, chosen) for other in found)
    points = {(c.target_index, c.usd_per_million, c.tpot_s) for c in front}
    for other in found:
        on_it = (other.target_index, other.usd_per_million, other.tpot_s) in points
        assert on_it or any(dominates(chosen, other) for chosen in front)


@given(candidates)
def test_the_cheapest_and_the_fastest_are_on_the_front(found: list[Candidate]) -> None:
    for target in {c.target_index for c in found}:
        mine = [c for c in found if c.target_index == target]
        front = [c for c in pareto_front(found) if c.target_index == target]
        assert min(c.usd_per_million for c in mine) == front[0].usd_per_million
        assert min(c.tpot_s for c in mine) == front[-1].tpot_s
        assert front[0] is next(c for c in ranked(found) if c.target_index == target)


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


@given(st.floats(0.1, 3000.0), st.integers(2, 9))
def test_load_and_latency_meet_where_littles_law_says(load: float, upto: int) -> None:
    batches = 2.0 ** np.arange(10)
    tpot_s = 0.01 + 0.0002 * batches
    grid = SimpleNamespace(
        batches=batches, tpot_s=tpot_s[None, None], throughput=(batches / tpot_s)[None, None]
    )
    evaluated: Any = SimpleNamespace(grid=grid)
    concurrency, latency_s = operating_point(evaluated, 0, 0, upto, load)
    assert 1.0 <= concurrency <= batches[upto]
    if batches[0] / tpot_s[0] <= load <= batches[upto] / tpot_s[upto]:
        assert concurrency == pytest.approx(load * latency_s, rel=0.05)


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
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
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
