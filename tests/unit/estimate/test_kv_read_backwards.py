"""Start-up figures of engines read backwards, and buffers of llama.cpp, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.errors import RequestError
from capplan.estimate.activation import weight_scale
from capplan.estimate.kvpages import KvRules, Part, page_groups, plain_bytes
from capplan.estimate.kvpool import (
    Breakdown,
    PoolPoint,
    fit_request_bytes,
    keeps_every_token,
)
from capplan.estimate.llamacpp import LlamaCache, kv_buffers
from capplan.estimate.memory import MemoryPlan, MemorySettings, plan_memory
from capplan.estimate.work import (
    PCIE_BYTES_PER_S,
    attention_flops_per_prompt_token,
    exchange_seconds_per_token,
    flops_per_token,
    link_bytes_per_s,
    query_width,
)
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.schema.cache import CacheLayers
from capplan.schema.llm import LlmSpec

ENGINE = load_engine("vllm")
LLAMA_8B = load_catalog().llm("meta-llama/Llama-3.1-8B-Instruct")


def with_cache(written: str, **more: object) -> LlmSpec:
    return LLAMA_8B.model_copy(update={"cache": CacheLayers.parse(written), **more})


# ---- vLLM's pool


def test_two_lengths_tell_the_fixed_part_from_the_slope() -> None:
    # a request of 1,000 tokens takes 3,000 bytes, one of 2,000 takes 5,000
    points = [PoolPoint(1000, 3000.0), PoolPoint(2000, 5000.0)]
    found = fit_request_bytes(points)
    assert found.fixed_bytes == pytest.approx(1000)
    assert found.bytes_per_token == pytest.approx(2)
    assert found.at(4000) == pytest.approx(9000)
    # a pool of 18,000 bytes holds two of them: 8,000 tokens
    assert found.pool_tokens(18_000, 4000) == pytest.approx(8000)


def test_a_start_up_log_prints_concurrency_times_length() -> None:
    assert PoolPoint.from_log(1000, 6000.0, 2000.0) == PoolPoint(1000, 3000.0)


def test_one_length_is_enough_where_every_layer_keeps_every_token() -> None:
    full = with_cache("2 full 1x100 + 3 latent 1x50")
    assert keeps_every_token(full)
    found = fit_request_bytes([PoolPoint(1000, 3000.0), PoolPoint(1000, 5000.0)], full)
    assert (found.fixed_bytes, found.bytes_per_token) == (0.0, 4.0)


@pytest.mark.parametrize("written", ["1 full 1x100 + 1 window 1x100 last 9", "1 state 100B"])
def test_one_length_says_nothing_of_a_hybrid(written: str) -> None:
    hybrid = with_cache(written)
    assert not keeps_every_token(hybrid)
    with pytest.raises(RequestError, match=hybrid.id):
        fit_request_bytes([PoolPoint(1000, 3000.0)], hybrid)


def test_nothing_is_read_off_nothing() -> None:
    with pytest.raises(RequestError, match="No start"):
        fit_request_bytes([])
    with pytest.raises(RequestError, match="unknown layout"):
        fit_request_bytes([PoolPoint(1000, 3000.0)])
    assert not keeps_every_token(LLAMA_8B.model_copy(update={"cache": ()}))


def test_parts_of_a_gpu_imply_a_utilisation() -> None:
    parts = Breakdown(
        capacity_bytes=100.0, weight_bytes=40.0, activation_bytes=5.0, non_torch_bytes=3.0,
        kv_pool_bytes=40.0, cuda_graph_bytes=2.0,
    )  # fmt: skip
    assert parts.implied_utilisation == pytest.approx(0.9)
    assert parts.pool_at(0.95) == pytest.approx(45.0)
    assert parts.pool_at(0.4) == pytest.approx(-10.0)
    assert parts.agrees_with(0.903)
    assert not parts.agrees_with(0.906)
    assert parts.agrees_with(0.95, tolerance=0.06)


# ---- llama.cpp


def test_buffers_of_full_and_windowed_layers() -> None:
    llm = with_cache("2 full 4x256 + 3 window 4x256 last 1024")
    found = kv_buffers(llm, LlamaCache(8192))
    # a cell of one layer: 4 heads x 256 elements of 2 bytes
    assert found.full_bytes == 2 * 2048 * 8192
    # 1,024 + 512 in flight: six times 256 cells
    assert found.windowed_bytes == 3 * 2048 * 1536
    assert found.total_bytes == found.full_bytes + found.windowed_bytes


@pytest.mark.parametrize(
    ("cache", "window", "cells"),
    [
        (LlamaCache(8192), None, 8192),
        (LlamaCache(8192, whole_windows=True), 1024, 8192),
        (LlamaCache(8192, sequences=3), 1024, 3584),  # 3 windows and a batch
        (LlamaCache(8192, sequences=3, unified=False), 1024, 3 * 1536),
        (LlamaCache(8192, sequences=3, unified=False), None, 3 * 2730),
        (LlamaCache(1000), 1024, 1024),  # no more than the context, in whole 256
        (LlamaCache(8192, batch_tokens=100), 500, 768),
    ],
)
def test_cells_of_a_layer(cache: LlamaCache, window: int | None, cells: int) -> None:
    assert cache.cells(window) == cells


def test_quantised_cells() -> None:
    llm = with_cache("1 full 1x64")
    sizes = {
        name: kv_buffers(llm, LlamaCache(32, key_type=name, value_type=name)).total_bytes
        for name in ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
    }
    # 2,048 elements, a scale for every 32 of them
    assert sizes == {
        "f32": 8192, "f16": 4096, "bf16": 4096, "q8_0": 64 * 34, "q5_1": 64 * 24,
        "q5_0": 64 * 22, "q4_1": 64 * 20, "q4_0": 64 * 18,
    }  # fmt: skip
    mixed = LlamaCache(32, key_type="q8_0", value_type="f16")
    assert kv_buffers(llm, mixed).total_bytes == 32 * 34 + 2048


def test_layers_and_types_that_are_not_covered_are_refused() -> None:
    for written, kind in (("1 latent 1x576", "latent"), ("1 state 100B", "state")):
        with pytest.raises(RequestError, match=f"layers of kind {kind}"):
            kv_buffers(with_cache(written), LlamaCache(100))
    with pytest.raises(RequestError, match="layers of kind unknown"):
        kv_buffers(LLAMA_8B.model_copy(update={"cache": ()}), LlamaCache(100))
    with pytest.raises(RequestError, match=r"'q3' is not known"):
        kv_buffers(LLAMA_8B, LlamaCache(100, key_type="q3"))


# ---- pages and plans


def test_states_alone_have_no_block_of_tokens_but_the_rules() -> None:
    groups = page_groups([Part(CacheLayers.parse("4 state 1000B"), np.asarray(1.0))], KvRules())
    assert groups.keeps_states
    assert float(groups.least_block_tokens) == 16
    full = page_groups([Part(CacheLayers.parse("4 full 1x8"), np.asarray(1.0))], KvRules())
    assert not full.keeps_states
    assert float(full.blocks(33)) == 3


def test_windows_that_an_engine_does_not_drop_keep_every_token() -> None:
    part = Part(CacheLayers.parse("1 full 1x8 + 1 window 1x8 last 32"), np.asarray(1.0))
    dropped, kept = KvRules(pads_groups=False), KvRules(pads_groups=False, holds_windows=False)
    assert float(plain_bytes([part], 1600, kept)) == 2 * 16 * 1600
    # 31 tokens in two blocks, and one more where the window begins inside one
    assert float(plain_bytes([part], 1600, dropped)) == 16 * (1600 + 3 * 16)


def plan(llm: LlmSpec, **settings: object) -> MemoryPlan:
    return plan_memory(llm, None, 80e9, 1, ENGINE, MemorySettings(**settings))  # type: ignore[arg-type]


def test_concurrency_and_what_an_older_version_prints() -> None:
    memory = plan(LLAMA_8B, version="0.33")
    assert float(memory.max_concurrency(1600)) == pytest.approx(
        float(memory.kv_pool_bytes) / (1600 * 131_072)
    )
    printed = float(memory.printed_tokens(1600))
    blocks = float(memory.kv_pool_bytes) // (16 * 131_072)
    assert printed == blocks * 1600 // 100
    assert float(memory.printed_tokens(1600, pool_bytes=0.0)) == 0
    assert float(memory.printed_tokens(1600, pool_bytes=-1e9)) == 0
    assert float(memory.printed_tokens(1600, pool_bytes=32 * 131_072.0)) == 32


def test_limits_that_are_stated_are_taken_and_the_other_is_the_engines() -> None:
    seqs = plan(LLAMA_8B, max_num_seqs=7)
    assert (float(seqs.max_num_seqs), float(seqs.max_num_batched_tokens)) == (7, 8192)
    tokens = plan(LLAMA_8B, max_num_batched_tokens=99)
    assert (float(tokens.max_num_seqs), float(tokens.max_num_batched_tokens)) == (1024, 99)


def test_prefix_caching_costs_llms_with_states_a_page_more() -> None:
    llm = with_cache("12 full 2x512 + 36 state 1000000B")
    with_prefixes, without = (plan(llm, caches_prefixes=cached) for cached in (True, False))
    more = float(with_prefixes.request_bytes(1000) - without.request_bytes(1000))
    groups = without.layout.groups()
    assert more == pytest.approx(float(groups.counts[1] * groups.block_bytes))


def test_only_mxfp4_experts_that_are_not_all_used_are_padded() -> None:
    experts = LLAMA_8B.model_copy(
        update={"experts": 8, "experts_per_token": 8, "quantisation": "mxfp4"}
    )
    assert weight_scale(experts, ENGINE, "hopper", 1) == 1.0
    assert weight_scale(LLAMA_8B, ENGINE, "hopper", 1) == 1.0


# ---- work


def test_queries_are_as_wide_as_their_heads_and_unknown_ones_as_the_hidden_state() -> None:
    llm = with_cache("2 full 8x256", heads=32, hidden=4000)
    assert query_width(llm) == 32 * 128
    assert query_width(llm.model_copy(update={"heads": None})) == 4000.0
    assert query_width(with_cache("2 latent 1x576", heads=32, hidden=4000)) == 4000.0
    # 4 x width x layers x half of the prompt
    scores = attention_flops_per_prompt_token(llm, 100)
    assert float(scores) == 4 * 4096 * llm.layers * 50
    assert flops_per_token(llm) == 2 * llm.params_active


def test_all_reduces_of_a_ring() -> None:
    llm = with_cache("2 full 8x256", hidden=1000, layers=10)
    # 2 x 10 x 1,000 x 2 bytes; a ring of 4 moves 1.5 of it, at half of both directions
    assert float(exchange_seconds_per_token(llm, 4, 1e9)) == pytest.approx(40_000 * 1.5 / 5e8)
    assert float(exchange_seconds_per_token(llm, 1, 1e9)) == 0.0
    assert link_bytes_per_s(None) == PCIE_BYTES_PER_S
    assert link_bytes_per_s(9e11) == 9e11
