"""Bytes of quantised checkpoints against the sizes of real ones."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings as limits, strategies as st

from capplan.errors import CapplanError, FactsError
from capplan.facts.hf_config.architectures.read import read_architecture
from capplan.facts.hf_config.quantisation.module_names import module_names
from capplan.facts.hf_config.quantisation.weigh import Weighed, read_scheme, weigh

CHECKPOINTS = Path(__file__).parents[3] / "data" / "checkpoints"

LLAMA_70B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LINEAR_70B = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)
REST_70B = 2 * 128256 * 8192 + 161 * 8192

MOE: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 64,
    "head_dim": 16,
    "intermediate_size": 256,
    "moe_intermediate_size": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((CHECKPOINTS / name / "config.json").read_text())
    return content


def weighed(config: dict[str, Any], settings: dict[str, Any] | None = None) -> Weighed:
    if settings is not None:
        config = {**config, "quantization_config": settings}
    return weigh(read_architecture(config, "test"), config, "test")


def part_bytes(result: Weighed, name: str) -> float:
    return sum(part.size_bytes for part in result.parts if part.part.name == name)


def test_an_unquantised_checkpoint_weighs_two_bytes_a_parameter() -> None:
    result = weighed(LLAMA_70B)
    assert result.total_bytes == 2 * (LINEAR_70B + REST_70B)
    assert result.wording == ""


def test_fp8_with_a_scale_a_row_weighs_what_vllm_holds_of_llama_70b() -> None:
    settings = {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
            }
        },
    }
    # vLLM reports 67.72 GiB for RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic on one GPU
    assert weighed(LLAMA_70B, settings).total_bytes == pytest.approx(67.72 * 2**30, rel=0.002)


def test_the_output_layer_is_quantised_by_compressed_tensors_unless_ignored() -> None:
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}
    settings = {"quant_method": "compressed-tensors", "config_groups": {"g": group}}
    whole = weighed(LLAMA_70B, settings)
    spared = weighed(LLAMA_70B, {**settings, "ignore": ["lm_head"]})
    assert part_bytes(whole, "output layer") == 128256 * 8192
    assert part_bytes(spared, "output layer") == 2 * 128256 * 8192


with (CHECKPOINTS / "wizard-vicuna-30b-gptq" / "sizes.csv").open() as file:
    GPTQ_SIZES = [
        (int(row["bits"]), int(row["group_size"]), int(row["size"]))
        for row in csv.DictReader(file)
    ]


@pytest.mark.parametrize(("bits", "group_size", "size"), GPTQ_SIZES)
def test_gptq_of_a_30b_llama_weighs_what_its_files_do(
    bits: int, group_size: int, size: int
) -> None:
    settings = {"quant_method": "gptq", "bits": bits, "group_size": group_size, "sym": True}
    result = weighed(load("wizard-vicuna-30b-gptq"), settings)
    assert result.total_bytes == pytest.approx(size, rel=0.002)


def test_mxfp4_experts_beside_bf16_weigh_exactly_what_gpt_oss_ships() -> None:
    result = weighed(load("gpt-oss-120b"))
    assert result.total_bytes == 65_248_815_744
    assert result.wording == "mxfp4, groups of 32"


def test_mlx_quantises_embeddings_too() -> None:
    assert weighed(load("qwen3-14b-mlx-4bit")).total_bytes == pytest.approx(
        8_307_783_680, rel=0.001
    )


def test_fp8_blocks_add_a_float_for_each_block() -> None:
    settings = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
    result = weighed(LLAMA_70B, settings)
    expected = LINEAR_70B * (1 + 4 / 128**2) + 2 * REST_70B
    assert result.total_bytes == pytest.approx(expected, abs=10)
    assert result.wording == "fp8, blocks of 128 x 128"


def test_deepseek_v3_keeps_embeddings_output_layer_and_router_in_bf16() -> None:
    result = weighed(load("deepseek-v3"))
    for name, params in (("token embedding", 129280 * 7168), ("router", 58 * 7168 * 256)):
        assert part_bytes(result, name) == 2 * params
    assert result.total_bytes == pytest.approx(673.15e9, rel=0.001)
    # one byte for each of 11.6 billion, two for the projection that the layer begins with
    assert result.mtp_bytes == pytest.approx(11_610_068_224 + 14336 * 7168, rel=0.001)


@pytest.mark.parametrize(
    ("settings", "bits", "wording"),
    [
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128},
            4.15625,
            "awq 4 bit, groups of 128",
        ),
        (
            {"quant_method": "awq", "w_bit": 4, "q_group_size": 64},
            4.3125,
            "awq 4 bit, groups of 64",
        ),
        ({"quant_method": "mxfp4"}, 4.25, "mxfp4, groups of 32"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5, "modelopt nvfp4, groups of 16"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8, "modelopt fp8"),
        ({"quant_method": "fp8"}, 8, "fp8, one scale a matrix"),
        ({"load_in_8bit": True}, 8, "bitsandbytes int8, a scale a row"),
        (
            {
                "load_in_4bit": True,
                "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": True,
            },
            4.127,
            "bitsandbytes nf4, blocks of 64, scales quantised too",
        ),
        ({"quant_method": "hqq", "bits": 4, "group_size": 64}, 4.5, "hqq 4 bit, groups of 64"),
        ({"quant_method": "exl2", "bits": 4.25, "head_bits": 6}, 4.25, "exl2, 4.25 bits a weight"),
        (
            {"quant_method": "torchao", "quant_type": "int8_weight_only"},
            8,
            "torchao 8 bit, a scale a row",
        ),
    ],
)
def test_each_scheme_stores_its_known_bits_a_weight(
    settings: dict[str, Any], bits: float, wording: str
) -> None:
    result = weighed(LLAMA_70B, {"ignore": ["lm_head"], **settings})
    linear = part_bytes(result, "MLP") * 8 / (80 * 3 * 8192 * 28672)
    assert linear == pytest.approx(bits, abs=0.01)
    assert result.wording == wording


def test_gptq_may_quantise_the_output_layer() -> None:
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}
    assert part_bytes(weighed(LLAMA_70B, settings), "output layer") < 128256 * 8192
    settings["lm_head"] = False
    assert part_bytes(weighed(LLAMA_70B, settings), "output layer") == 2 * 128256 * 8192


@pytest.mark.parametrize(
    "listed",
    [
        ["self_attn"],
        ["model.layers.*.self_attn"],
        ["re:.*self_attn.*"],
        [f"model.layers.{i}.self_attn" for i in range(4)],
        [f"model.language_model.layers.{i}.self_attn*" for i in range(4)],
        [f"model.layers.{i}.self_attn.{m}_proj" for i in range(4) for m in "qkvo"],
        [f"model.layers.{i}.self_attn.{m}_proj" for i in range(4) for m in ("qkv", "o")],
    ],
)
def test_attention_left_in_16_bit_is_recognised_however_it_is_named(listed: list[str]) -> None:
    settings = {"quant_method": "fp8", "modules_to_not_convert": listed}
    plain, result = weighed(MOE), weighed(MOE, settings)
    assert part_bytes(result, "attention") == part_bytes(plain, "attention")
    assert part_bytes(result, "routed experts") == part_bytes(plain, "routed experts") / 2


def test_a_quarter_of_the_layers_may_be_left_out() -> None:
    settings = {"quant_method": "fp8", "ignored_layers": ["model.layers.0"]}
    plain = part_bytes(weighed(MOE), "routed experts")
    assert part_bytes(weighed(MOE, settings), "routed experts") == plain * (0.25 + 0.75 / 2)


def test_a_name_ends_where_a_word_ends() -> None:
    listed = module_names(["model.layers.1", "gate"], "test")
    assert listed.match("layers.1.mlp.up_proj")
    assert not listed.match("layers.11.mlp.up_proj")
    assert not listed.match("layers.2.mlp.gate_proj")
    assert listed.match("layers.2.mlp.gate")


def test_experts_alone_are_quantised_when_all_else_is_named_by_expressions() -> None:
    settings = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True},
            }
        },
        "ignore": ["lm_head", "re:.*self_attn.*", r"re:.*mlp\.(gate|up|down)_proj.*"],
    }
    plain, result = weighed(MOE), weighed(MOE, settings)
    assert part_bytes(result, "attention") == part_bytes(plain, "attention")
    experts = part_bytes(plain, "routed experts")
    assert part_bytes(result, "routed experts") == experts / 2 * (0.5 + 2 / 32)


def test_groups_with_targets_of_their_own_have_formats_of_their_own() -> None:
    settings = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            f"model.layers.{i}.{module}": {"quant_algo": algorithm}
            for i in range(4)
            for module, algorithm in (("self_attn", "FP8"), ("mlp.experts", "NVFP4"))
        },
    }
    plain, result = weighed(MOE), weighed(MOE, settings)
    assert part_bytes(result, "attention") == part_bytes(plain, "attention") / 2
    assert part_bytes(result, "routed experts") == part_bytes(plain, "routed experts") / 2 * 0.5625
    assert part_bytes(result, "output layer") == part_bytes(plain, "output layer")


def test_settings_in_the_inner_configuration_count() -> None:
    config = {
        "architectures": ["Llama4ForConditionalGeneration"],
        "text_config": {"quantization_config": {"quant_method": "fp8"}},
    }
    scheme = read_scheme(config, "test")
    assert scheme is not None
    assert scheme.wording == "fp8, one scale a matrix"


@pytest.mark.parametrize("method", ["aqlm", "vptq", "gguf", "spqr", "a-new-one"])
def test_an_unknown_method_is_refused_by_name(method: str) -> None:
    with pytest.raises(FactsError, match=method):
        weighed(LLAMA_70B, {"quant_method": method, "bits": 2})


@pytest.mark.parametrize(
    "settings",
    [
        {"quant_method": "awq"},
        {"quant_method": "gptq", "bits": "four"},
        {"quant_method": "gptq", "bits": 400},
        {"quant_method": "fp8", "weight_block_size": [128]},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        {"quant_method": "compressed-tensors"},
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": None}}},
        {"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups": {"g": {}}},
        {"quant_method": "modelopt", "quant_algo": "FP3"},
        {"quant_method": "bitsandbytes"},
        {"quant_method": "torchao", "quant_type": "intx"},
        {"quant_method": "fp8", "modules_to_not_convert": ["re:("]},
        {"quant_method": "fp8", "modules_to_not_convert": "lm_head"},
        {"quant_method": 7},
        {"bits": 4},
    ],
)
def test_settings_that_do_not_state_the_size_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(FactsError):
        weighed(LLAMA_70B, settings)


ODD = st.sampled_from(
    [
        *(None, True, False, 0, -1, 1, 3, 4, 8, 128, 10**12, 4.25, 1e300, "", "4", "re:(", "x"),
        *([], [0], [128, 128], [-1, 2], ["lm_head"], ["re:["], [None], {}, {"a": 1}),
        *({"a": {"weights": {"num_bits": 4}}}, {"a": {"quant_algo": "FP8"}}, {"-:.*": {}}),
        *({"a": {"weights": {"num_bits": 8, "type": "float"}, "targets": [3]}}, {"default": 1}),
    ]
)
KEYS = st.sampled_from(
    [
        *("quant_method", "bits", "group_size", "weight_block_size", "config_groups", "ignore"),
        *("quant_algo", "quantized_layers", "load_in_4bit", "load_in_8bit", "lm_head", "format"),
        *("modules_to_not_convert", "quant_type", "dynamic", "sparsity_config", "head_bits"),
    ]
)
METHODS = st.sampled_from(
    ["awq", "gptq", "fp8", "mxfp4", "modelopt", "compressed-tensors", "hqq", "torchao", "exl2"]
)


@limits(deadline=None)
@given(method=METHODS, settings=st.dictionaries(KEYS, ODD, max_size=5))
def test_odd_settings_give_bytes_or_a_deliberate_error(
    method: str, settings: dict[str, Any]
) -> None:
    try:
        result = weighed(MOE, {"quant_method": method, **settings})
    except CapplanError:
        return
    assert 0 < result.total_bytes <= 4 * weighed(MOE).total_bytes


def test_compressed_tensors_leaves_a_matrix_in_16_bit_by_its_own_name_alone() -> None:
    weights = {"num_bits": 8, "type": "float", "strategy": "tensor"}
    settings = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }
    modules = [f"model.layers.{i}.self_attn" for i in range(4)]
    matrices = [f"{module}.{name}_proj" for module in modules for name in "qkvo"]
    plain = part_bytes(weighed(MOE), "attention")
    assert part_bytes(weighed(MOE, {**settings, "ignore": modules}), "attention") == plain / 2
    assert part_bytes(weighed(MOE, {**settings, "ignore": matrices}), "attention") == plain
