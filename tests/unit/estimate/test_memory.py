"""How a GPU is allotted: settings, versions, measured values, padding."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.activation import cuda_graph_bytes, weight_scale
from capplan.estimate.memory import MemoryPlan, MemorySettings, keeps_chunks, plan_memory
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.schema.cache import CacheLayers
from capplan.schema.engine import version_key
from capplan.schema.llm import LlmSpec
from capplan.units import BYTES_PER_GIB

ENGINE = load_engine("vllm")
CATALOG = load_catalog()
LLAMA_8B = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")
QWEN_06B = CATALOG.llm("Qwen/Qwen3-0.6B")
GPU = 80 * BYTES_PER_GIB


def plan(draft: LlmSpec | None = None, tp: int = 1, **settings: object) -> MemoryPlan:
    return plan_memory(LLAMA_8B, draft, GPU, tp, ENGINE, MemorySettings(**settings))  # type: ignore[arg-type]


def test_measured_values_are_taken_as_they_are() -> None:
    measured = {"activation_bytes": 3e9, "non_torch_bytes": 2e8, "cuda_graph_bytes": 1e8}
    memory = plan(utilisation=0.9, version="0.33", **measured)
    # with the engine's own peak nothing is added for sampling: its figures contain it
    assert float(memory.overhead_bytes) == 3e9 + 2e8 + 1e8
    left = 0.9 * GPU - LLAMA_8B.weight_bytes - 3.3e9
    assert float(memory.kv_pool_bytes) == pytest.approx(left)
    # older versions do not set graphs aside: they come on top of the utilisation
    old = plan(utilisation=0.9, version="0.11", **measured)
    assert float(old.overhead_bytes) == 3e9 + 2e8


def test_measured_weights_contain_the_draft() -> None:
    memory = plan(QWEN_06B, weight_bytes=17e9)
    assert float(memory.target_weight_bytes) == 17e9
    assert float(memory.draft_weight_bytes) == 0
    # its KV is counted nevertheless
    assert float(memory.kv_bytes_per_token) == 131_072 + 114_688


def test_versions_differ_in_utilisation_graphs_and_sampler() -> None:
    old, new = plan(version="0.11"), plan(version="0.33")
    assert float(old.usable_bytes) == pytest.approx(0.90 * GPU)
    assert float(new.usable_bytes) == pytest.approx(0.92 * GPU)
    assert float(old.cuda_graph_bytes) == 0 < float(new.cuda_graph_bytes)
    assert float(old.activation_bytes) > 2 * float(new.activation_bytes)
    assert float(old.buffer_bytes) == 0 < float(new.buffer_bytes)


@pytest.mark.parametrize(
    ("version", "since"),
    [("0.6.3", "0.0"), ("0.9.2", "0.9"), ("0.12.1", "0.10"), ("0.20.1", "0.13"),
     ("0.21.0", "0.21"), ("0.33", "0.33"), ("0.33.0.post1", "0.33"), ("1.0", "0.33")],
)  # fmt: skip
def test_a_version_takes_the_last_entry_that_is_not_newer(version: str, since: str) -> None:
    assert ENGINE.memory_for(version).since == since


def test_versions_compare_by_number_not_by_letter() -> None:
    assert version_key("0.9") < version_key("0.10.1") < version_key("0.33")
    with pytest.raises(ValueError, match="not a version"):
        version_key("latest")


@pytest.mark.parametrize(
    ("gib", "name", "seqs", "tokens"),
    [(183.0, "B200", 1024, 16384), (79.2, "NVIDIA H100 80GB HBM3", 1024, 8192),
     (79.3, "NVIDIA A100-SXM4-80GB", 256, 2048), (44.5, "NVIDIA L40S", 256, 2048)],
)  # fmt: skip
def test_batch_limits_follow_the_engines_defaults(
    gib: float, name: str, seqs: int, tokens: int
) -> None:
    limits = ENGINE.limits_for(gib * BYTES_PER_GIB, name)
    assert (limits.max_num_seqs, limits.max_num_batched_tokens) == (seqs, tokens)


def test_fewer_sequences_leave_more_for_kv() -> None:
    pools = [float(plan(max_num_seqs=n).kv_pool_bytes) for n in (1024, 256, 16)]
    assert pools == sorted(pools)
    # below some number the layers are the peak, no longer the sampler
    few, one = plan(max_num_seqs=16), plan(max_num_seqs=1)
    assert float(few.activation_bytes) == float(one.activation_bytes)


def test_the_samplers_share_is_not_divided_by_tensor_parallelism() -> None:
    one, four = plan(tp=1), plan(tp=4)
    assert float(one.activation_bytes) == float(four.activation_bytes)
    assert float(four.target_weight_bytes) == float(one.target_weight_bytes) / 4
    assert float(four.non_torch_bytes) > float(one.non_torch_bytes)


def test_probabilistic_drafts_keep_their_logits() -> None:
    settings = {"draft": QWEN_06B, "num_speculative_tokens": 4, "max_num_seqs": 256}
    greedy, kept = plan(**settings), plan(**settings, probabilistic_drafts=True)
    logits = 256 * 4 * LLAMA_8B.vocab_size * 4
    assert float(kept.buffer_bytes - greedy.buffer_bytes) == logits


def test_the_logits_of_a_verification_count_where_they_exceed_the_samplers() -> None:
    plain = plan(max_num_seqs=64, max_num_batched_tokens=512)
    verified = plan(
        draft=QWEN_06B, max_num_seqs=64, max_num_batched_tokens=512, num_speculative_tokens=7
    )
    rows = 512 * LLAMA_8B.vocab_size
    grown = float(verified.activation_bytes - plain.activation_bytes)
    assert 0 < grown < 6 * rows


@pytest.mark.parametrize(
    ("seqs", "n", "sizes"), [(1024, 0, 51), (256, 0, 51), (32, 0, 11), (1, 0, 2), (32, 3, 35)]
)
def test_fewer_sequences_capture_fewer_graphs(seqs: int, n: int, sizes: int) -> None:
    graphs = cuda_graph_bytes(32, seqs, n, ENGINE)
    assert float(graphs) == pytest.approx(32 * sizes * 2.5e5)


def test_a_draft_takes_weights_and_kv_from_the_pool() -> None:
    alone, drafted = plan(), plan(draft=QWEN_06B, num_speculative_tokens=3)
    taken = float(alone.kv_pool_bytes - drafted.kv_pool_bytes)
    graphs, verification = 28 * 51 * 2.5e5, drafted.activation_bytes - alone.activation_bytes
    assert taken == pytest.approx(QWEN_06B.weight_bytes + graphs + float(verification))
    assert float(drafted.kv_bytes_per_token) == 131_072 + 114_688


def test_printed_tokens_are_the_concurrency_times_the_longest_length() -> None:
    memory = plan()
    assert float(memory.printed_tokens(8192)) == np.floor(
        float(memory.max_concurrency(8192)) * 8192
    )
    # nothing fits: no tokens, not a negative number of them
    none = plan(utilisation=0.1)
    assert float(none.kv_pool_bytes) < 0
    assert float(none.printed_tokens(8192)) == 0


def test_windowed_layers_reserve_what_is_in_flight_at_the_start() -> None:
    llm = CATALOG.llm("openai/gpt-oss-20b")
    memory = plan_memory(llm, None, GPU, 1, ENGINE)
    start, later = memory.printed_tokens(131_072, 16_384.0), memory.printed_tokens(131_072)
    assert 0.8 * float(later) < float(start) < float(later)


def test_room_for_a_request_grows_with_n_only_where_states_are_copied() -> None:
    hybrid = LLAMA_8B.model_copy(
        update={"cache": CacheLayers.parse("8 full 8x256 + 24 state 2000000B")}
    )
    n = np.array([0.0, 4.0])
    memory = plan_memory(hybrid, None, GPU, 1, ENGINE, MemorySettings(num_speculative_tokens=n))
    none, four = memory.request_bytes(1000)
    # a state is padded to the page of 496 tokens of 4,096 bytes
    assert four - none == 4 * 24 * 496 * 4096
    assert 2e6 < 496 * 4096 < 2e6 * 1.02


@pytest.mark.parametrize(
    ("arch", "tp", "scale"), [("hopper", 1, 1.0495), ("ampere", 1, 1.0667), ("hopper", 8, 1.312)]
)
def test_mxfp4_experts_are_padded_as_the_engine_does(arch: str, tp: int, scale: float) -> None:
    llm = CATALOG.llm("openai/gpt-oss-20b")
    assert weight_scale(llm, ENGINE, arch, tp) == pytest.approx(scale, abs=2e-3)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-30B-A3B", "meta-llama/Llama-3.1-8B-Instruct"])
def test_other_weights_are_held_as_they_are_shipped(name: str) -> None:
    assert weight_scale(CATALOG.llm(name), ENGINE, "hopper", 1) == 1.0


@pytest.mark.parametrize("llm", CATALOG.llms, ids=lambda llm: llm.id)
def test_every_llm_of_the_catalogue_is_allotted_without_loss(llm: LlmSpec) -> None:
    tp = np.array([1.0, 8.0])
    memory = plan_memory(llm, None, GPU, tp, ENGINE)
    total = memory.kv_pool_bytes + memory.target_weight_bytes + memory.overhead_bytes
    assert total == pytest.approx(0.92 * GPU)
    assert (memory.overhead_bytes > 0).all()
    assert (memory.overhead_bytes < 0.2 * GPU).all()


def test_layers_that_attend_within_chunks_keep_all_tokens_where_a_head_drafts() -> None:
    """vLLM 0.32, config/vllm.py; older versions keep them all by default."""
    scout = CATALOG.llm("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    head = LLAMA_8B.model_copy(update={"layers": 1, "hidden": scout.hidden})
    now, older = ENGINE.memory_for("0.33"), ENGINE.memory_for("0.12")
    assert keeps_chunks(scout, head, now)
    assert not keeps_chunks(scout, None, now)
    assert not keeps_chunks(scout, QWEN_06B, now)
    assert keeps_chunks(scout, None, older)
    assert keeps_chunks(scout, QWEN_06B, older)
    assert not keeps_chunks(LLAMA_8B, head, now)
