"""KV pools of many start-ups of vLLM and llama.cpp against the lines they printed."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

from capplan.errors import RequestError
from capplan.estimate.kvcache import kv_bytes_per_gpu_token, kv_bytes_per_request
from capplan.estimate.kvpages import KvRules
from capplan.estimate.llamacpp import LlamaCache, kv_buffers
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.planning.memory import handed_out_bytes
from capplan.planning.memory_use import Subject, memory_use
from capplan.schema.cache import CacheLayers
from capplan.schema.llm import LlmSpec
from capplan.schema.memory import MemoryRequest, MemoryUse
from capplan.units import BYTES_PER_GIB, BYTES_PER_MIB

ENGINE = load_engine("vllm")
CATALOG = load_catalog()
GPU = "h100-sxm-80gb"
"""Stands for any: what a start-up states replaces its size."""


@cache
def start_ups() -> tuple[dict[str, str], ...]:
    path = Path(__file__).parent.parent / "data/memory/vllm_start_ups.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def name_of(row: dict[str, str]) -> str:
    return row["name"]


def with_cache(written: str) -> LlmSpec:
    llm = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")
    return llm.model_copy(
        update={"id": written, "heads": None, "cache": CacheLayers.parse(written)}
    )


def used(row: dict[str, str], draft: LlmSpec | None = None) -> MemoryUse:
    llm = CATALOG.llm(row["llm"]) if row["llm"] else with_cache(row["cache"])
    sizes = {
        "gpu_memory_bytes": "total_gib",
        "weight_bytes": "weights_gib",
        "activation_bytes": "activation_gib",
        "non_torch_bytes": "non_torch_gib",
        "kv_pool_bytes": "pool_gib",
    }
    asked: dict[str, object] = {
        field: float(row[column]) * BYTES_PER_GIB for field, column in sizes.items() if row[column]
    }
    asked |= {"utilisation": float(row["utilisation"])} if row["utilisation"] else {}
    asked |= {"max_num_batched_tokens": int(row["batched"])} if row["batched"] else {}
    asked |= {"prefix_caching": row["prefix_caching"] == "yes"} if row["prefix_caching"] else {}
    request = MemoryRequest.model_validate(
        asked
        | {
            "target": llm.id,
            "gpu": GPU,
            "tensor_parallel": int(row["tp"]),
            "engine_version": row["version"],
            "kv_dtype": row["kv_dtype"],
            "max_model_len": int(row["max_model_len"]),
        }
    )
    return memory_use(request, Subject(llm, draft, CATALOG.gpu(GPU), ENGINE))


@pytest.mark.parametrize("row", start_ups(), ids=name_of)
def test_the_printed_size_of_the_pool_is_met_within_two_per_cent(row: dict[str, str]) -> None:
    assert used(row).kv_tokens == pytest.approx(int(row["tokens"]), rel=0.015)


@pytest.mark.parametrize("row", [row for row in start_ups() if row["concurrency"]], ids=name_of)
def test_the_printed_concurrency_is_met_within_half_a_per_cent(row: dict[str, str]) -> None:
    assert used(row).max_concurrency == pytest.approx(float(row["concurrency"]), rel=5e-3)


def test_hybrid_pools_are_met_to_the_token() -> None:
    hybrids = ("qwen3.5", "qwen3.6", "qwen3.8", "qwen3-next")
    exact = [row for row in start_ups() if row["name"].startswith(hybrids)]
    assert len(exact) == 10
    for row in exact:
        assert used(row).kv_tokens == int(row["tokens"]), row["name"]


def row_named(name: str) -> dict[str, str]:
    return next(row for row in start_ups() if row["name"] == name)


def test_all_layers_counted_as_growing_would_be_refuted() -> None:
    """Wrong: KV of a token times all 64 layers of a hybrid, four times what it takes."""
    row = row_named("qwen3.8-27b")
    wrong = float(row["pool_gib"]) * BYTES_PER_GIB / (4 * 65_536)
    assert wrong < 0.45 * int(row["tokens"])


def test_mla_is_not_divided_and_heads_are_divided_until_one_is_left() -> None:
    """vllm-project/vllm#15871: DeepSeek-V2-Lite on two GPUs needs 0.95 GiB for 32,768 tokens."""
    lite = with_cache("27 latent 1x576")
    for tp in (1, 2, 8):
        need = float(kv_bytes_per_request(lite, 32_768, tp)) / BYTES_PER_GIB
        assert need == pytest.approx(0.95, abs=0.005)
    moe = CATALOG.llm("Qwen/Qwen3-30B-A3B")
    assert [float(kv_bytes_per_gpu_token(moe, tp)) for tp in (4, 8)] == [24_576, 24_576]


def test_what_one_request_needs_is_what_the_refusal_prints() -> None:
    """tpu-inference#223: 131,072 tokens need 16.00 GiB; a refusal of 2026: 40,960 need 5.62."""
    llama = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")
    assert float(kv_bytes_per_request(llama, 131_072, 1)) / BYTES_PER_GIB == 16.0
    qwen = CATALOG.llm("Qwen/Qwen3-8B")
    assert float(kv_bytes_per_request(qwen, 40_960, 1)) / BYTES_PER_GIB == 5.625


def test_the_size_that_old_versions_print_is_no_capacity_of_hybrids() -> None:
    old, new = row_named("gemma-4-31b-a100"), row_named("gemma-4-31b-a100") | {"version": "0.21"}
    printed = used(old)
    # #43308: an equal pool printed 55,000 tokens in 0.20 and 525,000 in 0.21
    assert printed.kv_tokens == pytest.approx(55_000, rel=0.01)
    assert used(new).kv_tokens == pytest.approx(525_000, rel=0.05)
    # the requests it holds did not change, but for the step more in flight
    assert printed.max_concurrency == pytest.approx(used(new).max_concurrency, rel=0.1)
    assert any("6 groups" in note for note in printed.notes)


def test_windowed_layers_kept_every_token_before_the_hybrid_manager() -> None:
    row = row_named("gpt-oss-120b")
    old, new = used(row | {"version": "0.9"}), used(row)
    assert old.max_concurrency == pytest.approx(78_384 / 131_072, rel=0.002)
    assert new.max_concurrency > 1.8 * old.max_concurrency


def test_a_layer_of_a_head_joins_the_groups_of_the_target() -> None:
    """Qwen3.5 with an MTP layer: groups of 17, so 48 states fill three of them up to 51."""
    row = row_named("qwen3.8-27b")
    head = with_cache("1 full 4x512").model_copy(update={"weight_bytes": 1.0})
    plain, drafted = used(row), used(row, head)
    assert drafted.request_bytes / plain.request_bytes == pytest.approx(17 / 16, rel=1e-9)


def test_more_sequences_than_state_blocks_are_warned_about() -> None:
    """E.g. 'max_num_seqs (256) exceeds available Mamba cache blocks (184)' on L40S."""
    row = row_named("qwen3.8-27b-l40s")
    use = used(row)
    assert use.max_num_seqs == 1024
    assert any("has 184" in note and "--max-num-seqs 184" in note for note in use.notes)
    assert not any("block for its state" in note for note in used(row_named("qwen3-14b")).notes)


@pytest.mark.parametrize(
    ("gpu", "seen_gib"),
    [
        # totals in start-ups of vLLM and messages of torch
        ("a100-sxm-80gb", 79.15),
        ("a100-sxm-40gb", 39.39),
        ("h100-sxm-80gb", 79.18),
        ("h200-sxm-141gb", 139.81),
        ("l40s", 44.42),
        ("rtx-3090", 23.58),
        ("rtx-4090", 23.64),
        ("rtx-5090", 31.36),
        ("a10g", 22.06),
        ("v100-sxm-16gb", 15.77),
        ("t4", 14.58),
    ],
)
def test_what_cuda_hands_out_is_met_within_half_a_per_cent(gpu: str, seen_gib: float) -> None:
    ours = handed_out_bytes(CATALOG.gpu(gpu), ENGINE) / BYTES_PER_GIB
    assert ours == pytest.approx(seen_gib, rel=0.005 if gpu != "l40s" else 0.003)


GPT_OSS = CATALOG.llm("openai/gpt-oss-120b")


@pytest.mark.parametrize(
    ("llm", "cache", "full_mib", "windowed_mib"),
    [
        # ollama/ollama#16480: two sequences of 131,072
        (GPT_OSS, LlamaCache(262_144, 2, unified=False, batch_tokens=1024), 9216, 90),
        # public log: -c 65535 -ub 512, four slots of one buffer, 65,536 and 1,024 cells
        (GPT_OSS, LlamaCache(65_536, 4), 2304, 36),
        # public log, Gemma 4 12B, 8,192 and 4,608 cells
        (
            with_cache("8 full 1x1024 + 40 window 8x512 last 1024"),
            LlamaCache(8192, 4, key_type="q8_0", value_type="q8_0"),
            68,
            765,
        ),
        # Ollama, Llama 3.2 3B: '131072 cells, 28 layers, 2/2 seqs', K and V 7,616 MiB each
        (
            CATALOG.llm("meta-llama/Llama-3.2-3B-Instruct"),
            LlamaCache(262_144, 2, unified=False, key_type="q8_0", value_type="q8_0"),
            15_232,
            0,
        ),
        # '32768 cells, 48 layers, 1/1 seqs', K 816 MiB
        (
            CATALOG.llm("Qwen/Qwen3-30B-A3B"),
            LlamaCache(32_768, key_type="q8_0", value_type="q8_0"),
            1632,
            0,
        ),
        # 'KV self size = 3995.00 MiB, K (q8_0): 1997.50'
        (
            CATALOG.llm("Qwen/Qwen3-235B-A22B"),
            LlamaCache(40_960, key_type="q8_0", value_type="q8_0"),
            3995,
            0,
        ),
        # 'kv_size = 4096, type_k = f16, n_layer = 28': 448 MiB
        (CATALOG.llm("Qwen/Qwen3-1.7B"), LlamaCache(4096), 448, 0),
    ],
    ids=["gpt-oss-ollama", "gpt-oss", "gemma-4-12b", "llama-3b", "30b-a3b", "235b", "1.7b"],
)
def test_buffers_of_llama_cpp_are_met_to_the_mib(
    llm: LlmSpec, cache: LlamaCache, full_mib: float, windowed_mib: float
) -> None:
    buffers = kv_buffers(llm, cache)
    assert buffers.full_bytes / BYTES_PER_MIB == full_mib
    assert buffers.windowed_bytes / BYTES_PER_MIB == windowed_mib
    assert buffers.total_bytes == buffers.full_bytes + buffers.windowed_bytes


def test_what_llama_cpp_keeps_in_formats_of_its_own_is_refused() -> None:
    with pytest.raises(RequestError, match="kind state"):
        kv_buffers(CATALOG.llm("Qwen/Qwen3.5-27B"), LlamaCache(4096))
    with pytest.raises(RequestError, match="kind latent"):
        kv_buffers(CATALOG.llm("deepseek-ai/DeepSeek-V3"), LlamaCache(4096))
    with pytest.raises(RequestError, match="not known"):
        kv_buffers(CATALOG.llm("Qwen/Qwen3-8B"), LlamaCache(4096, key_type="q3"))


def test_whole_windows_cost_as_much_as_full_layers() -> None:
    whole = kv_buffers(GPT_OSS, LlamaCache(65_536, 4, whole_windows=True))
    assert whole.windowed_bytes == whole.full_bytes
    rules = KvRules(holds_windows=False)
    ours = float(kv_bytes_per_request(GPT_OSS, 65_536, 1, rules))
    assert ours == whole.total_bytes


OLMO_3_7B = "8 full 32x256 + 24 window 32x256 last 4096"
"""Olmo-3-7B: every fourth layer keeps every token, the others the last 4,096."""
SCOUT = "meta-llama/Llama-4-Scout-17B-16E-Instruct"


def of_one_request(llm: LlmSpec, longest: int, **asked: object) -> float:
    request = MemoryRequest.model_validate(
        {"target": llm.id, "gpu": GPU, "max_model_len": longest, **asked}
    )
    return memory_use(request, Subject(llm, None, CATALOG.gpu(GPU), ENGINE)).request_bytes


def test_two_lengths_of_windowed_layers_stand_as_two_starts_printed() -> None:
    # vllm-project/vllm#29796: one pool, 23.73 requests of 6,144 tokens, 11.12 of 34,048
    asked: dict[str, object] = {"engine_version": "0.11", "max_num_batched_tokens": 2048}
    short, long = (of_one_request(with_cache(OLMO_3_7B), n, **asked) for n in (6_144, 34_048))
    assert long / short == pytest.approx(23.73 / 11.12, rel=1e-3)


def test_llama_4_needed_24_gib_a_request_before_windows_were_dropped() -> None:
    # vllm-project/vllm#16118: 1,048,576 tokens on 8 GPUs
    asked: dict[str, object] = {"tensor_parallel": 8, "engine_version": "0.8"}
    assert of_one_request(CATALOG.llm(SCOUT), 1_048_576, **asked) == 24.0 * BYTES_PER_GIB


def test_a_request_of_the_whole_context_needs_what_vllm_refused_it_for() -> None:
    # vllm-project/vllm#34076: Qwen3-Coder-30B-A3B, a layout equal to Qwen3-30B-A3B
    assert of_one_request(CATALOG.llm("Qwen/Qwen3-30B-A3B"), 262_144) == 24.0 * BYTES_PER_GIB


@pytest.mark.parametrize(
    ("version", "drafts", "layers_that_keep_all"),
    [("0.8", "", 48), ("0.12", "", 48), ("0.13", "", 12), ("0.33", "", 12), ("0.33", "LLM", 12),
     ("0.33", "head", 48)],
)  # fmt: skip
def test_chunked_layers_keep_every_token_where_the_hybrid_manager_is_off(
    version: str, drafts: str, layers_that_keep_all: int
) -> None:
    scout = CATALOG.llm(SCOUT)
    draft = {
        "": None,
        "LLM": CATALOG.llm("meta-llama/Llama-3.2-1B-Instruct"),
        "head": scout.model_copy(
            update={"id": "head", "layers": 1, "cache": CacheLayers.parse("1 full 8x256")}
        ),
    }[drafts]
    used_by = MemoryRequest(
        target=SCOUT, gpu=GPU, tensor_parallel=8, engine_version=version, max_model_len=131_072,
        num_speculative_tokens=3 if drafts else 0,
    )  # fmt: skip
    use = memory_use(used_by, Subject(scout, draft, CATALOG.gpu(GPU), ENGINE))
    of_the_draft = {"": 0, "LLM": 16 * 128 * 2, "head": 256 * 2}[drafts]
    assert use.kv_bytes_per_token == layers_that_keep_all * 256 * 2 + of_the_draft
    told = any("keep every token" in note for note in use.notes)
    assert told is (layers_that_keep_all == 48 and version != "0.8")
