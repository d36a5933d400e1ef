"""Memory where one part alone decides, at the ends of its ranges and with nothing but defaults."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.activation import activation_peak_bytes, cuda_graph_bytes, weight_scale
from capplan.estimate.kvcache import kv_bytes_per_request, kv_bytes_read, pooled_bytes
from capplan.estimate.kvpages import (
    KvRules,
    PageGroups,
    Part,
    group_layers,
    page_groups,
    plain_bytes,
)
from capplan.estimate.memory import MemoryPlan, MemorySettings, plan_memory
from capplan.estimate.round_cost import typical_head_params
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.schema.cache import CacheLayers
from capplan.schema.llm import LlmSpec
from capplan.units import BYTES_PER_GIB

ENGINE = load_engine("vllm")
LLAMA_8B = load_catalog().llm("meta-llama/Llama-3.1-8B-Instruct")
SMALL = LLAMA_8B.model_copy(
    update={
        "hidden": 1000,
        "layers": 10,
        "vocab_size": 100,
        "params_active": 1e5 + 10 * 1000 * 5000,
    }
)
"""A width of 5,000 elements a layer."""


# ---- the trial run


def peak(llm: LlmSpec, seqs: float, batched: float, n: float, *, tp: float = 1, logit: float = 0,
         width: float = 0) -> float:  # fmt: skip
    """Return the peak beyond the hidden states, which take two bytes here."""
    engine = ENGINE.model_copy(
        update={"activation_bytes_per_hidden": 2.0, "activation_bytes_per_width": width}
    )
    allots = ENGINE.memory_versions[-1].model_copy(update={"activation_bytes_per_logit": logit})
    found = activation_peak_bytes(llm, tp, seqs, batched, n, engine, allots)
    return float(found) - 2.0 * batched * llm.hidden


def test_plain_serving_verifies_nothing() -> None:
    assert peak(SMALL, 8, 64, 0) == 0.0
    assert peak(SMALL, 8, 64, 0, logit=1.0) == 8 * 100


@pytest.mark.parametrize(("n", "rows"), [(1, 16), (2, 24), (7, 64), (9, 64)])
def test_a_verification_keeps_its_rows_in_two_formats(n: int, rows: int) -> None:
    # eight sequences of n + 1 rows, but no more than the 64 tokens of a step
    assert peak(SMALL, 8, 64, n) == rows * 100 * (2 + 4)


def test_beyond_a_gibibyte_float32_logits_are_verified_in_pieces() -> None:
    large = SMALL.model_copy(update={"vocab_size": 10_000_000})
    assert peak(large, 8, 64, 7) == 64e7 * 2 + BYTES_PER_GIB


def test_layers_are_split_and_routed_tokens_are_not() -> None:
    assert peak(SMALL, 1, 64, 0, width=3.0, tp=2) == pytest.approx(3.0 * 64 * 5000 / 2)
    # two bytes of the hidden state for each of four experts a token: 64 x 4 x 1,000 x 2
    routed = SMALL.model_copy(update={"experts": 8, "experts_per_token": 4})
    assert peak(routed, 1, 64, 0, width=3.0, tp=2) == pytest.approx(512_000)
    assert peak(routed, 1, 64, 0, width=3.0) == pytest.approx(3.0 * 64 * 5000)
    # a layer is no narrower than twice the hidden size
    thin = SMALL.model_copy(update={"params_active": 1e6})
    assert peak(thin, 1, 64, 0, width=3.0) == pytest.approx(3.0 * 64 * 2000)


@pytest.mark.parametrize("n", [0, 2])
def test_graphs_are_captured_at_every_size_of_the_grid(n: int) -> None:
    grid = np.array([1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)])
    seqs = np.arange(1, 300)
    sizes = (grid <= np.minimum(2 * seqs * (n + 1), 512)[:, None]).sum(axis=1)
    one = ENGINE.model_copy(update={"cuda_graph_bytes_per_layer_size": 1.0})
    assert cuda_graph_bytes(3, seqs, n, one).tolist() == (3 * sizes).tolist()


def mxfp4(inner: int, experts: int = 4, **more: object) -> LlmSpec:
    """Return experts of 128 x ``inner`` in one layer, three matrices of 4.25 bits; one a token."""
    expert = 3 * 128 * inner * 4.25 / 8
    sizes = {"weight_bytes": 1e4 + experts * expert, "weight_bytes_active": 1e4 + expert}
    return LLAMA_8B.model_copy(
        update={"layers": 1, "hidden": 128, "experts": experts, "experts_per_token": 1,
                "quantisation": "MXFP4", **sizes, **more}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "tp", "held"),
    [(96, 1, 128), (96, 2, 2 * 64), (96, 5, 5 * 64), (32, 1, 64), (8, 1, 64 * 8 / 32)],
)
def test_padded_experts_by_hand(inner: int, tp: int, held: float) -> None:
    # multiples of 64 and 256: the hidden size doubles, the inner one grows on every GPU by itself;
    # less than a block of 32 counts as one
    engine = ENGINE.model_copy(update={"mxfp4_multiples": {"default": (64, 256), "x": (32, 128)}})
    llm = mxfp4(inner)
    expert = 3 * 128 * inner * 4.25 / 8
    grown = held / inner * 2
    expected = (1e4 + 4 * expert * grown) / llm.weight_bytes
    assert weight_scale(llm, engine, "y", tp) == pytest.approx(expected)
    if inner % 32 == 0 and tp == 1:
        assert weight_scale(llm, engine, "x", tp) == pytest.approx(1.0)


# ---- pages


def groups_of(written: str, **rules: int) -> PageGroups:
    return page_groups([Part(CacheLayers.parse(written), np.asarray(1.0))], KvRules(**rules))


@pytest.mark.parametrize(
    ("written", "rules", "tokens"),
    [
        # 16 bytes a token: 1,000 need 63 tokens, in steps of 16
        ("1 full 1x8 + 1 state 1000B", {}, 64),
        ("1 full 1x8 + 1 state 1024B", {}, 64),
        ("1 full 1x8 + 1 state 1025B", {}, 80),
        ("1 full 1x8 + 1 state 1000B", {"block_tokens": 24}, 72),
        ("1 full 1x8 + 1 state 1000B", {"block_tokens": 100}, 100),
        ("1 latent 1x8 + 1 state 1000B", {}, 128),
        ("1 latent 1x8 + 1 state 1000B", {"block_tokens": 200}, 200),
        ("1 full 1x8 + 1 state 10B", {}, 16),
    ],
)
def test_blocks_have_so_many_tokens_that_a_page_holds_a_state(
    written: str, rules: dict[str, int], tokens: int
) -> None:
    found = groups_of(written, **rules)
    assert float(found.least_block_tokens) == tokens
    assert float(found.block_bytes) == tokens * 16
    assert found.groups == 2
    # one page of tokens and one of the state
    assert float(found.blocks(1)) == 2
    assert float(found.blocks(tokens + 1)) == 3


@pytest.mark.parametrize(
    ("counts", "layers"), [((2, 3), 2), ((4, 5), 5), ((4, 6), 4), ((7, 7), 7), ((1, 1, 9), 1)]
)
def test_groups_take_the_larger_count_below_one_and_a_half_times_the_smaller(
    counts: tuple[int, ...], layers: int
) -> None:
    assert group_layers(counts) == layers


def test_a_state_is_kept_once_where_nothing_is_drafted() -> None:
    parts = [Part(CacheLayers.parse("3 state 1000B"), np.asarray(2.0))]
    rules = KvRules(pads_groups=False)
    assert float(plain_bytes(parts, 99, rules)) == 3 * 500
    assert float(plain_bytes(parts, 99, rules, 4)) == 5 * 3 * 500
    llm = LLAMA_8B.model_copy(update={"cache": parts[0].cache})
    assert float(kv_bytes_per_request(llm, 99, 2)) == 3 * 500
    assert float(pooled_bytes(page_groups(parts, KvRules()), 99)) == 3 * 500


def test_a_pass_reads_what_stands_behind_a_state_too() -> None:
    llm = LLAMA_8B.model_copy(
        update={"cache": CacheLayers.parse("3 state 1000B + 2 full 4x8 + 1 window 4x8 last 10")}
    )
    # states read and written back, 100 tokens of two layers and 10 of a windowed one, on two GPUs
    found = float(kv_bytes_read(llm, 100, 2))
    assert found == 2 * 3 * 500 + (2 * 100 + 10) * 4 * 8 * 2 / 2


# ---- a whole GPU


def plan(llm: LlmSpec = LLAMA_8B, draft: LlmSpec | None = None, tp: int = 1,
         **settings: object) -> MemoryPlan:  # fmt: skip
    return plan_memory(llm, draft, 80e9, tp, ENGINE, MemorySettings(**settings))  # type: ignore[arg-type]


def test_a_draft_on_one_gpu_lies_there_whole_beside_a_split_target() -> None:
    whole, split = plan(draft=LLAMA_8B, tp=4, draft_tensor_parallel=1), plan(draft=LLAMA_8B, tp=4)
    assert float(whole.draft_weight_bytes) == LLAMA_8B.weight_bytes
    assert float(split.draft_weight_bytes) == LLAMA_8B.weight_bytes / 4
    assert float(whole.kv_bytes_per_token) == 131_072 / 4 + 131_072
    assert float(whole.request_bytes(160)) == 160 * (131_072 / 4 + 131_072)
    # no more GPUs than the target has
    assert float(plan(draft=LLAMA_8B, tp=2, draft_tensor_parallel=8).draft_weight_bytes) == (
        LLAMA_8B.weight_bytes / 2
    )


@pytest.mark.parametrize(("tp", "doublings"), [(1, 0), (2, 1), (8, 3)])
def test_what_lies_outside_torch_grows_with_every_doubling(tp: int, doublings: int) -> None:
    single, more = ENGINE.non_torch_bytes_single, ENGINE.non_torch_bytes_per_doubling
    assert float(plan(tp=tp).non_torch_bytes) == pytest.approx(single + doublings * more)


def test_weights_that_the_engine_pads_are_held_as_such() -> None:
    padded = plan(tp=2, target_weight_scale=1.25)
    assert float(padded.target_weight_bytes) == pytest.approx(LLAMA_8B.weight_bytes * 1.25 / 2)
    assert float(plan(tp=2).target_weight_bytes) == pytest.approx(LLAMA_8B.weight_bytes / 2)


def test_versions_that_share_blocks_out_evenly_print_whole_blocks_of_a_group() -> None:
    # four full and four windowed layers of 16 bytes a token: two groups, blocks of 4 x 16 x 16
    hybrid = LLAMA_8B.model_copy(
        update={"cache": CacheLayers.parse("4 full 1x8 + 4 window 1x8 last 64")}
    )
    old, new = plan(hybrid, version="0.15"), plan(hybrid, version="0.33")
    pool = 1024.0 * 21
    assert float(old.printed_tokens(1600, pool_bytes=pool)) == 21 // 2 * 16
    # a request of 1,600 tokens takes 100 blocks and 4 of the window, and one more
    assert float(new.printed_tokens(1600, pool_bytes=pool)) == 21 * 1600 // 105


def test_the_usual_head_has_a_vocabulary_of_32_000() -> None:
    # a layer and the projection of three states, 17 hidden sizes squared
    assert typical_head_params(SMALL) == 17 * 1000**2 + 32_000 * 1000
    assert typical_head_params(SMALL, 500) == 17 * 1000**2 + 500 * 1000
