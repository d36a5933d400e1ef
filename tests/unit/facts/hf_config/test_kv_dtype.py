"""The KV dtype that a checkpoint asks for, and who may overrule it."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.facts.hf_config.spec import llm_from_config
from capplan.schema.cache import CacheKind

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
IN_16_BIT = 131_072
"""32 layers x 8 heads x 256 elements x 2 bytes."""
FP8_KV = {"num_bits": 8, "type": "float", "dynamic": False, "strategy": "tensor"}
WEIGHTS = {"num_bits": 8, "type": "float", "strategy": "tensor"}
GROUPS = {"group_0": {"targets": ["Linear"], "weights": WEIGHTS}}


def modelopt(**asked: Any) -> dict[str, Any]:
    return {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], **asked}


def compressed(**asked: Any) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": GROUPS,
        "ignore": ["lm_head"],
        **asked,
    }


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        (modelopt(kv_cache_quant_algo="FP8"), 1 / 2),
        (modelopt(kv_cache_scheme=FP8_KV), 1 / 2),
        (modelopt(kv_cache_quant_algo="NVFP4"), 9 / 32),  # 4 bits and a byte for 16 of them
        (modelopt(kv_cache_scheme={"num_bits": 4, "type": "float"}), 9 / 32),
        (compressed(kv_cache_scheme=FP8_KV), 1 / 2),
        (modelopt(), 1),
        (modelopt(kv_cache_quant_algo=None), 1),
        (modelopt(kv_cache_quant_algo="INT8"), 1),  # vLLM warns and keeps 16 bit
        (compressed(kv_cache_scheme=None), 1),
        (compressed(kv_cache_scheme="static"), 1),
    ],
)
def test_kv_takes_the_bits_that_the_checkpoint_asks_for(
    settings: dict[str, Any], share: float
) -> None:
    found = llm_from_config({**LLAMA_8B, "quantization_config": settings}, name="org/llm")
    assert found.spec.kv_bytes_per_token == IN_16_BIT * share
    told = any("settings ask for KV" in line.how for line in found.lines)
    assert told is (share < 1)


def test_a_cache_left_open_for_another_dtype_is_that_of_16_bit() -> None:
    settings = modelopt(kv_cache_quant_algo="FP8")
    found = llm_from_config({**LLAMA_8B, "quantization_config": settings}, name="org/llm")
    plain = llm_from_config(LLAMA_8B, name="org/plain")
    assert found.kv_element_bytes == 1.0
    assert found.open_cache == plain.spec.cache
    assert (plain.kv_element_bytes, plain.open_cache) == (None, None)


def test_states_and_weights_are_none_of_the_kv_settings_business() -> None:
    layers = ["linear_attention", "full_attention"] * 2
    hybrid = {
        **LLAMA_8B,
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "num_hidden_layers": 4,
        "layer_types": layers,
        "head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    }
    open_kv = llm_from_config({**hybrid, "quantization_config": modelopt()}, name="a").spec
    asked = modelopt(kv_cache_quant_algo="FP8")
    fp8_kv = llm_from_config({**hybrid, "quantization_config": asked}, name="b").spec
    assert fp8_kv.weight_bytes == open_kv.weight_bytes
    assert fp8_kv.state_bytes_per_request == open_kv.state_bytes_per_request > 0
    halves = {
        group.kind: (group.bytes_per_token(), other.bytes_per_token())
        for group, other in zip(fp8_kv.cache, open_kv.cache, strict=True)
    }
    assert halves[CacheKind.FULL][0] == halves[CacheKind.FULL][1] / 2
