"""What layers of every kind keep of a request, and what a pass reads of it."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.kvcache import (
    kv_bytes_per_gpu_token,
    kv_bytes_per_request,
    kv_bytes_read,
    kv_known,
    pooled_bytes,
    uneven_heads,
)
from capplan.estimate.kvpages import KvRules, PageGroups, Part, group_layers, page_groups
from capplan.facts.catalog import load_catalog
from capplan.schema.cache import CacheLayers
from capplan.schema.llm import LlmSpec

CATALOG = load_catalog()
LLAMA_8B = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")
PLAIN = KvRules(block_tokens=1, spare_blocks=0, pads_groups=False)


def with_cache(written: str) -> LlmSpec:
    return LLAMA_8B.model_copy(update={"cache": CacheLayers.parse(written)})


def held(written: str, tokens: float, tp: int = 1, n: int = 0, rules: KvRules = PLAIN) -> float:
    return float(kv_bytes_per_request(with_cache(written), tokens, tp, rules, n))


def test_heads_are_split_until_each_gpu_holds_one() -> None:
    sizes = [float(kv_bytes_per_gpu_token(LLAMA_8B, tp)) for tp in (1, 2, 4, 8, 16)]
    assert sizes == [131_072, 65_536, 32_768, 16_384, 16_384]


def test_the_gpu_with_most_heads_counts_where_they_do_not_divide() -> None:
    # 8 heads on 3 GPUs: 3, 3 and 2
    assert float(kv_bytes_per_gpu_token(LLAMA_8B, 3)) == 131_072 * 3 / 8


def test_fp8_halves_what_follows_the_kv_dtype_and_nothing_else() -> None:
    assert float(kv_bytes_per_gpu_token(LLAMA_8B, 1, 1.0)) == 65_536
    fixed = with_cache("2 latent 1x656 @1B")
    assert float(kv_bytes_per_gpu_token(fixed, 1, 2.0)) == 2 * 656
    assert float(kv_bytes_per_gpu_token(fixed, 1, 1.0)) == 2 * 656


def test_a_windowed_layer_keeps_its_window_and_what_is_in_flight() -> None:
    assert held("1 window 1x100 last 128", 64) == 64 * 200
    assert held("1 window 1x100 last 128", 100_000) == 127 * 200
    flying = KvRules(block_tokens=1, spare_blocks=0, in_flight_tokens=1000.0)
    assert held("1 window 1x100 last 128", 100_000, rules=flying) == 1127 * 200


def test_blocks_are_whole_and_a_window_may_start_inside_one() -> None:
    rules = KvRules(block_tokens=16)
    assert held("1 full 1x100", 17, rules=rules) == 32 * 200
    assert held("1 window 1x100 last 128", 5000, rules=rules) == (128 + 16) * 200


def test_a_state_does_not_grow_is_split_and_is_copied_for_every_drafted_token() -> None:
    one = held("4 state 1000000B", 10)
    assert one == held("4 state 1000000B", 100_000) == 4e6
    assert held("4 state 1000000B", 10, tp=4) == 1e6
    assert held("4 state 1000000B", 10, n=3) == 16e6


def test_full_layers_keep_no_copies_for_drafted_tokens() -> None:
    assert held("4 full 8x256", 1000, n=3) == held("4 full 8x256", 1000)


def groups_of(written: str, rules: KvRules | None = None, tp: float = 1.0) -> PageGroups:
    part = Part(CacheLayers.parse(written), np.asarray(tp))
    return page_groups([part], rules if rules is not None else KvRules())


@pytest.mark.parametrize(
    ("written", "counts", "layers"),
    [
        # vLLM makes groups of equally many layers: 52 windowed ones fill six groups of ten
        ("10 full 16x256 + 52 window 16x256 last 1024", (1, 6), 10),
        ("12 full 8x128 + 12 window 8x128 last 128", (1, 1), 12),
        # with the layer of a head: 13 and 12 become 13 and 13, not 13 and 24
        ("13 full 8x128 + 12 window 8x128 last 128", (1, 1), 13),
        ("12 full 2x512 + 36 state 1000000B", (1, 3), 12),
    ],
)
def test_groups_are_filled_up_to_one_size(
    written: str, counts: tuple[int, ...], layers: int
) -> None:
    groups = groups_of(written)
    assert groups.counts == counts
    assert group_layers([g.layers for g in CacheLayers.parse(written)]) == layers


def test_layers_that_all_keep_the_same_tokens_form_one_group_whatever_their_sizes() -> None:
    groups = groups_of("61 latent 1x576 + 61 latent 1x132 @1B")
    assert groups.groups == 1
    assert float(groups.block_bytes) == 61 * (1152 + 132) * 16


def test_a_smaller_page_holds_more_tokens_where_it_divides_the_larger_else_it_is_padded() -> None:
    # Gemma-4-31B: 8,192 bytes a token in full layers, 16,384 in windowed ones
    groups = groups_of("10 full 4x1024 + 50 window 16x512 last 1024")
    assert [float(size) for size in groups.block_tokens] == [32, 16]
    odd = groups_of("10 full 3x1024 + 50 window 16x512 last 1024")
    assert [float(size) for size in odd.block_tokens] == [16, 16]


def test_blocks_are_raised_until_a_page_of_tokens_holds_a_state() -> None:
    """Start-ups of Qwen3.5: 784 tokens for 27B, 528 for 9B and 1,056 for 35B-A3B; fp8 doubles."""
    for name, tokens, fp8 in (
        ("Qwen/Qwen3.5-27B", 784, 1568),
        ("Qwen/Qwen3.5-9B", 528, 1056),
        ("Qwen/Qwen3.5-35B-A3B", 1056, 2096),
    ):
        part = Part(CATALOG.llm(name).cache, np.asarray(1.0))
        assert float(page_groups([part], KvRules()).least_block_tokens) == tokens
        assert float(page_groups([part], KvRules(1.0)).least_block_tokens) == fp8


def test_a_draft_of_the_same_shape_joins_the_group_of_the_target() -> None:
    whole, draft = (CacheLayers.parse(f"{n} full 8x256") for n in (36, 28))
    one = np.asarray(1.0)
    groups = page_groups([Part(whole, one), Part(draft, one)], KvRules())
    assert groups.groups == 1
    assert float(groups.block_bytes) == 64 * 4096 * 16


def test_a_pass_reads_the_window_at_most_and_states_both_ways() -> None:
    llm = with_cache("2 full 1x100 + 3 window 1x100 last 128 + 1 state 5000B")
    assert float(kv_bytes_read(llm, 64, 1)) == (2 + 3) * 200 * 64 + 2 * 5000
    assert float(kv_bytes_read(llm, 10_000, 1)) == 2 * 200 * 10_000 + 3 * 200 * 128 + 2 * 5000


def test_a_request_keeps_one_state_where_nothing_is_drafted() -> None:
    groups = groups_of("4 state 1000B")
    one = float(pooled_bytes(groups, 100))
    assert float(pooled_bytes(groups, 100, 1.0)) == 2 * one == 2 * float(groups.block_bytes)


def test_every_state_is_read_and_written_back() -> None:
    assert float(kv_bytes_read(with_cache("3 state 5000B"), 64, 1)) == 2 * 3 * 5000
    assert float(kv_bytes_read(with_cache("3 state 5000B"), 64, 2)) == 3 * 5000


def test_reading_is_proportional_to_length_where_every_layer_keeps_every_token() -> None:
    lengths = np.array([1.0, 100.0, 50_000.0])
    read = kv_bytes_read(LLAMA_8B, lengths, 4)
    assert read.tolist() == (lengths * 32_768).tolist()


def test_hardware_and_length_broadcast() -> None:
    tp = np.array([1.0, 2.0, 8.0]).reshape(-1, 1, 1)
    tokens = np.array([100.0, 1000.0]).reshape(1, -1, 1)
    llm = CATALOG.llm("openai/gpt-oss-120b")
    assert kv_bytes_per_request(llm, tokens, tp).shape == (3, 2, 1)
    assert kv_bytes_read(llm, 1000.0, tp).shape == (3, 1, 1)


def test_an_llm_of_which_only_the_sum_is_known_is_taken_as_keeping_every_token() -> None:
    bare = LLAMA_8B.model_copy(update={"cache": (), "kv_heads": 8})
    assert float(kv_bytes_per_gpu_token(bare, 2)) == 65_536
    assert float(kv_bytes_read(bare, 10, 2)) == 655_360
    assert float(kv_bytes_per_request(bare, 10, 2, PLAIN)) == 655_360


def test_an_unknown_layout_is_refused_by_name() -> None:
    unknown = LLAMA_8B.model_copy(update={"cache": (), "kv_bytes_per_token": None})
    assert not kv_known(unknown)
    for ask in (kv_bytes_per_gpu_token, kv_bytes_per_request):
        with pytest.raises(ValueError, match=unknown.id):
            ask(unknown, 1) if ask is kv_bytes_per_gpu_token else ask(unknown, 10, 1)


def test_an_llm_without_growing_layers_is_counted_inside_its_window() -> None:
    assert float(kv_bytes_per_gpu_token(with_cache("3 window 1x100 last 128"), 1)) == 600


@pytest.mark.parametrize(
    ("written", "heads", "sizes"),
    [
        ("32 full 8x256", 32, (1, 2, 4, 8, 16, 32)),
        # Phi-4: 40 query heads divide by 4, its 10 KV heads do not (vLLM asserts it)
        ("40 full 10x256", 40, (1, 2)),
        # fewer KV heads than GPUs are copied
        ("36 full 2x256", 16, (1, 2, 4, 8, 16)),
        ("61 latent 1x576", 128, (1, 2, 4, 8, 16, 32)),
    ],
)
def test_heads_split_only_over_groups_that_divide_them(
    written: str, heads: int, sizes: tuple[int, ...]
) -> None:
    llm = with_cache(written).model_copy(update={"heads": heads})
    assert tuple(n for n in (1, 2, 4, 8, 16, 32) if not uneven_heads(llm, n)) == sizes
    assert uneven_heads(llm, 3 * heads) == f"{heads} query heads"
