"""Bytes on one GPU, and how many experts a pass touches."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.memory import MemoryPlan, plan_memory
from capplan.estimate.moe import distinct_experts
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.schema.llm import LlmSpec

ENGINE = load_engine("vllm")
CATALOG = load_catalog()
LLAMA_8B = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")


def plan(target: LlmSpec, draft: LlmSpec | None, gpu_bytes: float, tp: int = 1) -> MemoryPlan:
    return plan_memory(target, draft, gpu_bytes, tp, ENGINE)


def test_llama_8b_keeps_128_kib_of_kv_a_token() -> None:
    # 2 (K and V) x 32 layers x 8 heads x 128 x 2 bytes
    assert float(plan(LLAMA_8B, None, 80e9).kv_bytes_per_token) == 131072


def test_a_06b_draft_multiplies_the_kv_of_qwen3_8b_by_1778() -> None:
    # published: 1.77 measured (SpecDecode-Bench, arXiv:2601.11580)
    target, draft = CATALOG.llm("Qwen/Qwen3-8B"), CATALOG.llm("Qwen/Qwen3-0.6B")
    with_draft, without = plan(target, draft, 80e9), plan(target, None, 80e9)
    factor = float(with_draft.kv_bytes_per_token / without.kv_bytes_per_token)
    assert factor == pytest.approx(1.778, abs=5e-4)
    # fewer bytes left for longer rows: the pool shrinks by more than the factor
    assert float(with_draft.kv_tokens) < float(without.kv_tokens) / factor


def test_llama_8b_on_80_gb_by_hand() -> None:
    memory = plan(LLAMA_8B, None, 80e9)
    # sampler 14 + 4.125 bytes for 1,024 x 128,256; hidden states 2.72 x 8,192 x 4,096;
    # 32 layers in 51 sizes of graphs, and what lies outside torch
    overhead = 18.125 * 1024 * 128256 + 2.72 * 8192 * 4096 + 32 * 51 * 2.5e5 + 1.4e8
    left = 0.92 * 80e9 - 16.060522496e9 - overhead
    assert float(memory.kv_tokens) == pytest.approx(left / 131072)
    assert 410_000 < float(memory.kv_tokens) < 420_000


def test_what_does_not_fit_is_negative_by_what_it_lacks() -> None:
    memory = plan(CATALOG.llm("meta-llama/Llama-3.3-70B-Instruct"), None, 80e9)
    lacking = float(-memory.kv_tokens * memory.kv_bytes_per_token)
    assert lacking == pytest.approx(141.1e9 + float(memory.overhead_bytes) - 73.6e9, rel=0.01)
    assert lacking == pytest.approx(-float(memory.kv_pool_bytes))


def test_tensor_parallelism_splits_weights_and_heads() -> None:
    one, four = plan(LLAMA_8B, None, 80e9, 1), plan(LLAMA_8B, None, 80e9, 4)
    assert float(four.target_weight_bytes) * 4 == pytest.approx(float(one.target_weight_bytes))
    assert float(four.kv_bytes_per_token) * 4 == float(one.kv_bytes_per_token)
    sixteen = plan(LLAMA_8B, None, 80e9, 16)
    assert float(sixteen.kv_bytes_per_token) * 8 == float(one.kv_bytes_per_token)


def test_hardware_choices_broadcast() -> None:
    memory = plan_memory(LLAMA_8B, None, np.array([24e9, 80e9]), np.array([1.0, 2.0]), ENGINE)
    assert memory.kv_tokens.shape == (2,)
    # small GPUs run fewer sequences and tokens at once, so less is set aside
    small, large = memory.overhead_bytes.tolist()
    assert small < 0.5 * large


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(1, 8.0), (4, 29.1), (16, 82.4), (10_000, 128.0)],
)
def test_distinct_experts_of_128_with_top_8(tokens: int, expected: float) -> None:
    # 128 * (1 - (1 - 1/16)^t), independent routing
    assert float(distinct_experts(tokens, 128, 8, 1.0)) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("correlation", [0.27, 0.44, 1.0])
def test_experts_lie_between_top_k_and_all_and_never_fall(correlation: float) -> None:
    touched = distinct_experts(np.arange(1, 2000), 256, 8, correlation)
    assert touched[0] == pytest.approx(8.0)
    assert ((touched >= 8.0 - 1e-9) & (touched <= 256.0)).all()
    assert (np.diff(touched) >= 0).all()


def test_correlated_routing_touches_fewer_experts() -> None:
    assert float(distinct_experts(15, 256, 8, 0.52)) < float(distinct_experts(15, 256, 8, 1.0))
    # published: 58.9 of 256 in 15 rows (Laguna XS 2.1), which the engine file brings to .52
    assert float(distinct_experts(15, 256, 8, 0.52)) == pytest.approx(58.9, rel=0.02)
