"""What a serving loop and a speculative round have to do, counted in data-sheet seconds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.estimate.decoding import FACTORS, DecodeSetting, decode_work, engine_family
from capplan.estimate.moe import params_read
from capplan.estimate.pooling import fit_pooled
from capplan.estimate.round_cost import (
    ROUND_FACTORS,
    MachineRound,
    round_work,
    typical_head_params,
)
from capplan.estimate.serving import (
    TPOT_FACTORS,
    TTFT_FACTORS,
    ServingSetting,
    tpot_work,
    ttft_work,
)
from capplan.estimate.work import exchange_seconds_per_token, link_bytes_per_s, query_width
from capplan.facts.catalog import load_catalog

CATALOG = load_catalog()
LLAMA_70B = CATALOG.llm("meta-llama/Llama-3.1-70B-Instruct")
LLAMA_8B = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")
QWEN_MOE = CATALOG.llm("Qwen/Qwen3-30B-A3B")
H100 = CATALOG.gpu("h100-sxm-80gb")
SERVED = ServingSetting(
    llm=LLAMA_70B,
    gpu=H100,
    engine="vllm",
    tensor_parallel=4,
    bytes_per_param=1.0,
    kv_element_bytes=1.0,
    peak_flops_per_s=1978e12,
    concurrency=16,
    prompt_tokens=1024,
    output_tokens=1024,
)
STEP = DecodeSetting(LLAMA_8B, H100, "vLLM V1", "H100", 2.0, 1, 8, 1000)


def amounts(setting: ServingSetting) -> dict[str, float]:
    work = tpot_work(setting)
    return dict(zip((f.name for f in TPOT_FACTORS), work.amounts, strict=True))


def first(setting: ServingSetting, tpot_s: float = 0.02) -> dict[str, float]:
    work = ttft_work(setting, tpot_s)
    return dict(zip((f.name for f in TTFT_FACTORS), work.amounts, strict=True))


def test_a_request_alone_meets_no_prompt_of_another() -> None:
    alone = amounts(replace(SERVED, concurrency=1))
    assert alone["attention"] == 0
    # one decoded token counts one and a half prompt tokens
    assert alone["flops"] == pytest.approx(1.5 * 2 * 70.553706496e9 / (4 * 1978e12))


def test_short_answers_bring_more_prompts_into_each_token() -> None:
    long, short = amounts(SERVED), amounts(replace(SERVED, output_tokens=128))
    assert short["attention"] == pytest.approx(8 * long["attention"])
    assert short["weights"] == long["weights"]


def test_a_full_kv_cache_limits_what_decodes_and_makes_the_rest_wait() -> None:
    crowded = replace(SERVED, tensor_parallel=2, concurrency=512, kv_element_bytes=2.0)
    assert crowded.running == crowded.room < 512
    assert amounts(crowded)["request"] == crowded.room
    waits = first(crowded)["wait"]
    assert waits == pytest.approx((512 / crowded.room - 1) * 1024 * 0.02)
    assert first(SERVED)["wait"] == 0


def test_the_first_token_waits_for_more_the_longer_the_prompt_and_the_queue() -> None:
    near = first(SERVED)
    assert first(replace(SERVED, prompt_tokens=8192))["own"] > 8 * near["own"]
    assert first(replace(SERVED, concurrency=32))["others"] == pytest.approx(
        near["others"] * 31 / 15
    )


def test_all_reduces_of_a_token_move_over_one_direction_of_the_link() -> None:
    # two a layer, 8,192 elements of 2 bytes, 1.5 times over a ring of four, at 450 GB/s
    expected = 2 * 80 * 8192 * 2 * 1.5 / 450e9
    assert float(exchange_seconds_per_token(LLAMA_70B, 4, 900e9)) == pytest.approx(expected)
    assert float(exchange_seconds_per_token(LLAMA_70B, 1, 900e9)) == 0


def test_gpus_without_a_named_link_exchange_over_pci_express() -> None:
    assert link_bytes_per_s(None) < link_bytes_per_s(900e9)


def test_query_heads_not_the_hidden_size_set_the_attention_of_qwen() -> None:
    assert query_width(CATALOG.llm("Qwen/Qwen3-32B")) == 64 * 128
    assert query_width(LLAMA_70B) == 8192


def test_experts_are_read_as_tokens_touch_them() -> None:
    one, many = (float(params_read(QWEN_MOE, n, 0.44)) for n in (1, 4096))
    assert one == pytest.approx(QWEN_MOE.params_active)
    assert many == pytest.approx(QWEN_MOE.params_total, rel=1e-3)
    assert float(params_read(LLAMA_8B, 64, 0.44)) == LLAMA_8B.params_active


def test_engines_of_one_family_share_their_first_word() -> None:
    assert engine_family("gpt-fast + FlashInfer + CUDA graph") == engine_family(
        "gpt-fast torch.compile"
    )
    assert engine_family("") == ""


def round_amounts(machine: MachineRound) -> dict[str, float]:
    decode = fit_pooled(FACTORS, [], [])
    work = round_work(machine, decode)
    return dict(zip((f.name for f in ROUND_FACTORS), work.amounts, strict=True))


def test_a_dense_round_reads_no_more_weights_and_a_mixture_does() -> None:
    dense = round_amounts(MachineRound(STEP, 3, 4, 4e8, None))
    sparse = round_amounts(MachineRound(replace(STEP, llm=QWEN_MOE), 3, 4, 2e8, None))
    assert dense["experts"] == 0
    assert sparse["experts"] > 0.3


def test_extra_tokens_are_nearly_free_at_small_batches_and_dear_at_large_ones() -> None:
    small, large = (
        round_amounts(MachineRound(replace(STEP, batch=b), 3, 4, 4e8, None))["flops"]
        for b in (1, 256)
    )
    assert small < 0.001
    assert large > 0.5


def test_a_drafting_llm_pays_its_own_step_and_a_launch_a_pass() -> None:
    draft = replace(STEP, llm=CATALOG.llm("meta-llama/Llama-3.2-1B-Instruct"))
    found = round_amounts(MachineRound(STEP, 3, 4, None, draft))
    decode = fit_pooled(FACTORS, [], [])
    steps = [decode.predict(decode_work(s)).value for s in (draft, STEP)]
    assert found["pass_ms"] == pytest.approx(3 * 1e-3 / steps[1])
    assert found["head"] == 0
    assert found["draft"] == pytest.approx(3 * steps[0] / steps[1])


def test_a_head_is_read_once_a_pass_at_the_bandwidth_that_readings_reach() -> None:
    found = round_amounts(MachineRound(STEP, 3, 4, 4e8, None))
    step_s = fit_pooled(FACTORS, [], []).predict(decode_work(STEP)).value
    pass_s = 4e8 * 2 / (H100.memory_bytes_per_s * 0.85)
    assert found["head"] == pytest.approx(3 * pass_s / step_s)
    assert found["draft"] == 0
    assert round_amounts(MachineRound(STEP, 3, 4, None, None))["head"] == 0


def test_the_usual_head_is_the_size_of_published_ones() -> None:
    assert typical_head_params(LLAMA_8B) == pytest.approx(0.42e9, rel=0.05)
    assert typical_head_params(LLAMA_70B) == pytest.approx(1.4e9, rel=0.05)
