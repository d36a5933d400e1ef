"""Counts from config.json against the networks that transformers builds from it.

Each network is built on the meta device, so no weight exists: small sizes that are no multiples
of one another, so that a mistaken term shows. Counted are the tensors that a checkpoint stores:
every parameter once, and the buffers that are saved with them.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from capplan.facts.hf_config.architectures import defaults
from capplan.facts.hf_config.architectures.read import read_architecture
from capplan.facts.hf_config.architectures.registry import known_types
from capplan.resources import models_db_dir
from capplan.schema.cache import CacheKind, CacheLayers

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 5,
    "intermediate_size": 56,
    "vocab_size": 97,
    "max_position_embeddings": 61,
    "moe_intermediate_size": 22,
    "shared_expert_intermediate_size": 26,
    "shared_intermediate_size": 34,
    "num_experts": 6,
    "num_local_experts": 6,
    "n_routed_experts": 6,
    "moe_num_experts": 6,
    "num_experts_per_tok": 2,
    "num_experts_per_token": 2,
    "moe_k": 2,
    "moe_topk": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_expert_group": 1,
    "sliding_window": 9,
    "q_lora_rank": 20,
    "kv_lora_rank": 14,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 6,
    "v_head_dim": 12,
    "index_n_heads": 3,
    "index_head_dim": 10,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 10,
    "linear_conv_kernel_dim": 3,
    "linear_head_dim": 10,
    "linear_num_heads": 4,
    "mamba_n_heads": 8,
    "mamba_d_head": 12,
    "mamba_d_state": 7,
    "mamba_d_conv": 3,
    "mamba_n_groups": 2,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
"""Taken where a configuration has the field."""

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "llama": [
        {},
        {"attention_bias": True, "mlp_bias": True, "head_dim": 10},
        {"num_key_value_heads": None},
        {"tie_word_embeddings": True},
    ],
    "mistral": [{"head_dim": 10}, {"sliding_window": None}],
    "ministral": [{"head_dim": 12}],
    "mixtral": [{}, {"head_dim": 14}],
    "qwen2": [{}, {"use_sliding_window": True, "max_window_layers": 2}],
    "qwen2_moe": [{}, {"qkv_bias": False, "decoder_sparse_step": 2, "mlp_only_layers": [3]}],
    "qwen3": [{"head_dim": 14}, {"attention_bias": True}],
    "qwen3_moe": [{"head_dim": 14}, {"mlp_only_layers": [0, 2]}],
    "phi": [{}, {"qk_layernorm": True}],
    "phimoe": [{}, {"attention_bias": True, "lm_head_bias": True}],
    "stablelm": [
        {},
        {"use_qkv_bias": True, "qk_layernorm": True},
        {"use_parallel_residual": True},
    ],
    "starcoder2": [{}, {"use_bias": False}],
    "cohere": [{}, {"use_qk_norm": True}],
    "gemma2": [{"head_dim": 14}],
    "gemma3_text": [{"head_dim": 14, "num_hidden_layers": 7}],
    "glm4_moe": [
        {},
        {
            "use_qk_norm": True,
            "attention_bias": True,
            "first_k_dense_replace": 2,
            "n_shared_experts": 3,
        },
    ],
    "deepseek_v2": [
        {"first_k_dense_replace": 1, "n_shared_experts": 2},
        {"q_lora_rank": None, "num_key_value_heads": 4},
    ],
    "deepseek_v3": [
        {"first_k_dense_replace": 2, "n_shared_experts": 2, "num_key_value_heads": 4},
        {"attention_bias": True},
        {"q_lora_rank": None},
    ],
    "glm_moe_dsa": [
        {},
        {"indexer_types": ["full", "shared", "shared", "full", "shared"]},
        {"index_topk_freq": 3, "index_skip_topk_offset": 1},
    ],
    "llama4_text": [
        {
            "intermediate_size_mlp": 70,
            "interleave_moe_layer_step": 2,
            "head_dim": 10,
            "attention_chunk_size": 8,
        }
    ],
    "gpt2": [{}, {"n_inner": 70}],
    "gpt_bigcode": [{}, {"multi_query": False}],
    "gpt_neo": [
        {"attention_types": [[["global", "local"], 2], [["global"], 1]], "window_size": 9}
    ],
    "gptj": [{"rotary_dim": 4}],
    "codegen": [{"rotary_dim": 4}],
    "gpt_neox": [{}, {"attention_bias": False}],
    "opt": [
        {"ffn_dim": 70, "word_embed_proj_dim": 48},
        {"ffn_dim": 70, "word_embed_proj_dim": 20, "do_layer_norm_before": False},
        {"enable_bias": False, "word_embed_proj_dim": 48},
    ],
    "falcon": [
        {},
        {"new_decoder_architecture": True, "num_kv_heads": 2},
        {"multi_query": False, "bias": True, "parallel_attn": False},
        {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    ],
    "mpt": [{"d_model": 48, "n_heads": 4, "n_layers": 3}],
    "persimmon": [{}, {"qk_layernorm": False}],
    "qwen3_next": [{"head_dim": 14}, {"decoder_sparse_step": 2, "tie_word_embeddings": True}],
    "granitemoehybrid": [
        {
            "layer_types": [
                "linear_attention",
                "full_attention",
                "linear_attention",
                "linear_attention",
                "full_attention",
            ]
        },
        {"num_local_experts": 0},
    ],
    "bamba": [{"attn_layer_indices": [1, 3]}, {"mamba_proj_bias": True, "mlp_bias": True}],
    "jamba": [
        {"attn_layer_period": 3, "attn_layer_offset": 1},
        {"num_experts": 1, "mamba_proj_bias": True, "mamba_dt_rank": 5},
    ],
    "falcon_h1": [
        {"mamba_d_ssm": 96},
        {
            "mamba_d_ssm": 96,
            "mamba_rms_norm": True,
            "projectors_bias": True,
            "mamba_proj_bias": True,
        },
    ],
    "mamba": [{"state_size": 7, "time_step_rank": 5}, {"use_bias": True, "expand": 3}],
    "falcon_mamba": [{"state_size": 7, "time_step_rank": 5}],
    "mamba2": [
        {"num_heads": 8, "head_dim": 12, "state_size": 7, "n_groups": 2},
        {"num_heads": 8, "head_dim": 12, "use_bias": True},
    ],
    "nemotron_h": [
        {
            "layer_types": [
                "linear_attention",
                "mlp",
                "full_attention",
                "moe",
                "linear_attention",
            ],
            "mamba_num_heads": 8,
            "mamba_head_dim": 12,
            "ssm_state_size": 7,
            "n_groups": 2,
            "head_dim": 14,
            "moe_shared_expert_intermediate_size": 30,
        },
        {
            "layer_types": ["moe", "linear_attention"],
            "mamba_num_heads": 8,
            "mamba_head_dim": 12,
            "n_groups": 2,
            "moe_latent_size": 18,
        },
    ],
    "lfm2": [
        {
            "layer_types": ["conv", "full_attention", "conv", "conv", "full_attention"],
            "block_multiple_of": 8,
        },
        {"block_auto_adjust_ff_dim": False, "full_attn_idxs": [2], "conv_bias": True},
    ],
    "lfm2_moe": [
        {
            "layer_types": ["conv", "full_attention", "conv", "conv", "full_attention"],
            "num_dense_layers": 2,
        }
    ],
    "minimax": [{"head_dim": 14}],
    "gemma4_text": [
        {
            "head_dim": 14,
            "global_head_dim": 20,
            "vocab_size_per_layer_input": 83,
            "hidden_size_per_layer_input": 6,
            "num_kv_shared_layers": 0,
        },
        {
            "head_dim": 14,
            "global_head_dim": 20,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            "hidden_size_per_layer_input": 0,
            "enable_moe_block": True,
            "top_k_experts": 2,
            "num_hidden_layers": 7,
        },
        {
            "head_dim": 14,
            "num_hidden_layers": 12,
            "num_kv_shared_layers": 4,
            "use_double_wide_mlp": True,
            "vocab_size_per_layer_input": 83,
            "hidden_size_per_layer_input": 6,
        },
    ],
    "gemma3n_text": [
        {
            "head_dim": 12,
            "num_hidden_layers": 10,
            "num_kv_shared_layers": 3,
            "vocab_size_per_layer_input": 83,
            "hidden_size_per_layer_input": 6,
            "laurel_rank": 5,
            "altup_num_inputs": 3,
        }
    ],
    "mimo_v2_flash": [{"head_dim": 14, "v_head_dim": 10, "num_hidden_layers": 7}],
    "longcat_flash": [
        {
            "num_layers": 3,
            "expert_ffn_hidden_size": 22,
            "ffn_hidden_size": 70,
            "zero_expert_num": 0,
        }
    ],
    "ernie4_5_moe": [
        {"moe_layer_start_index": 1, "moe_layer_end_index": 4, "moe_num_shared_experts": 2}
    ],
    "seed_oss": [{}, {"attention_out_bias": True, "mlp_bias": True}],
    "gpt_oss": [{"head_dim": 10}],
    "hunyuan_v1_dense": [{"head_dim": 12}],
    "hunyuan_v1_moe": [{"head_dim": 12}],
    "nemotron": [{"head_dim": 12, "num_key_value_heads": 2}],
    "kimi_linear": [{"num_key_value_heads": 4}],
    "minimax_m3_vl_text": [
        {
            "head_dim": 14,
            "dense_intermediate_size": 70,
            "layer_types": ["full_attention", *["minimax_m3_sparse"] * 4],
            "mlp_layer_types": ["dense", *["sparse"] * 4],
            "index_n_heads": 2,
        }
    ],
    "olmo3": [{}],
    "helium": [{"head_dim": 12}],
    "exaone4": [{"sliding_window_pattern": 2}],
    "granitemoeshared": [{}, {"shared_intermediate_size": 0}],
    "dots1": [{"first_k_dense_replace": 1, "n_shared_experts": 2}],
}
"""Fields beyond :data:`SIZES`, one network each; a type that is not named is built once."""

COMPUTED = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")
"""Buffers of MiniMax's lightning attention that follow from the configuration."""


_BUILT = {
    name
    for name in transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if name
    not in (
        "dbrx",
        "gemma3",
        "llama4",
        "gemma4",
        "gemma3n",
        "gemma4_unified",
        "qwen3_5",
        "qwen3_5_moe",
    )
}
"""Types that a text-only network can be built from. DBRX's own defaults do not build one."""


def _cases() -> list[Any]:
    known = [name for name in known_types() if name in _BUILT]
    return [
        pytest.param(name, variant, id=f"{name}-{index}")
        for name in known
        for index, variant in enumerate(VARIANTS.get(name, [{}]))
    ]


def _config(model_type: str, fields: dict[str, Any]) -> Any:
    cls = transformers.CONFIG_MAPPING[model_type]
    takes = inspect.signature(cls.__init__).parameters
    small = {name: value for name, value in SIZES.items() if name in takes or _alias(cls, name)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(**{**small, **fields}).get_text_config()


def _alias(cls: Any, name: str) -> bool:
    return name in getattr(cls, "attribute_map", {})


def _stored_elements(config: Any) -> int:
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        network = transformers.AutoModelForCausalLM.from_config(config)
    parameters = {name for name, _ in network.named_parameters(remove_duplicate=False)}
    saved = network.state_dict()
    buffers = [
        tensor
        for name, tensor in saved.items()
        if name not in parameters and not name.endswith(COMPUTED)
    ]
    return sum(tensor.numel() for tensor in (*network.parameters(), *buffers))


@pytest.mark.parametrize(("model_type", "fields"), _cases())
def test_as_many_parameters_as_transformers_builds(
    model_type: str, fields: dict[str, Any]
) -> None:
    config = _config(model_type, fields)
    expected = _stored_elements(config)
    for written in (config.to_dict(), json.loads(config.to_json_string(use_diff=True))):
        counted = read_architecture(written, model_type)
        assert counted.params_total == expected
        assert _windowed(counted.cache) == _windowed_layers(config)


def _windowed(cache: tuple[CacheLayers, ...]) -> int:
    return sum(group.layers for group in cache if group.kind is CacheKind.WINDOW)


def _windowed_layers(config: Any) -> int:
    """Return how many layers transformers gives a sliding cache, without those that share one."""
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        every = getattr(config, "sliding_window", None) and config.model_type != "qwen3_moe"
        local = getattr(config, "attention_layers", ()).count("local")
        return config.num_hidden_layers if every else local
    own = kinds[: len(kinds) - (getattr(config, "num_kv_shared_layers", 0) or 0)]
    return sum(kind in ("sliding_attention", "chunked_attention") for kind in own)


def _class_defaults(model_type: str, names: set[str]) -> dict[str, Any]:
    """Return the defaults of those fields that the readers ask for."""
    found = inspect.signature(transformers.CONFIG_MAPPING[model_type].__init__).parameters
    stated = {
        name: list(one.default) if isinstance(one.default, tuple) else one.default
        for name, one in found.items()
        if name in names and one.default is not inspect.Parameter.empty
    }
    plain = (bool, int, str, list)
    return {name: value for name, value in sorted(stated.items()) if isinstance(value, plain)}


def test_stored_defaults_are_those_of_transformers() -> None:
    """``CAPPLAN_UPDATE_GOLDEN=1`` writes the file anew."""
    folder = Path(defaults.__file__).parent
    sources = "".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.py")))
    names = set(re.findall(r'"(\w+)"', sources)) - {"model_type", "dtype"}
    types = [name for name in known_types() if name in transformers.CONFIG_MAPPING]
    expected = {
        "source": f"transformers {transformers.__version__}, configuration classes (Apache-2.0)",
        "types": {name: _class_defaults(name, names) for name in types},
    }
    path = models_db_dir() / defaults.DEFAULTS_FILE
    if os.environ.get("CAPPLAN_UPDATE_GOLDEN"):
        path.write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    assert json.loads(path.read_text("utf-8"))["types"] == expected["types"]


# Multimodal networks: what is not the LLM is told by the beginning of its name.
TOWERS = ("vision", "visual", "multi_modal", "audio", "embed_vision", "embed_audio")
MULTIMODAL: dict[str, dict[str, Any]] = {
    "gemma3": {"head_dim": 14},
    "gemma4": {"head_dim": 14, "hidden_size_per_layer_input": 0},
    "glm4v": {},
    "glm4v_moe": {"head_dim": 12},
    "llama4": {"intermediate_size_mlp": 70, "head_dim": 12, "attention_chunk_size": 8},
    "llava": {"model_type": "llama"},
    "minimax_m3_vl": {"head_dim": 14, "dense_intermediate_size": 70},
    "mistral3": {"model_type": "mistral", "head_dim": 10},
    "qwen2_vl": {},
    "qwen2_5_vl": {},
    "qwen3_5": {"head_dim": 14},
    "qwen3_5_moe": {"head_dim": 14},
    "qwen3_vl": {"head_dim": 14},
    "qwen3_vl_moe": {"head_dim": 14},
}
OUTER = {
    "mistral3": {"tie_word_embeddings": False},  # its default ties what checkpoints hold apart
    "gemma4": {"vision_config": {}},
}


@pytest.mark.parametrize(("model_type", "fields"), MULTIMODAL.items())
def test_of_a_multimodal_network_the_llm_is_counted(
    model_type: str, fields: dict[str, Any]
) -> None:
    cls = transformers.CONFIG_MAPPING[model_type]
    inner = transformers.CONFIG_MAPPING[fields.get("model_type", model_type)]().get_text_config()
    takes = inspect.signature(type(inner).__init__).parameters
    small = {name: value for name, value in SIZES.items() if name in takes}
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        config = cls(text_config={**small, **fields}, **OUTER.get(model_type, {}))
        network = transformers.AutoModelForImageTextToText.from_config(config)
    expected = sum(
        tensor.numel()
        for name, tensor in network.named_parameters()
        if not name.removeprefix("model.").startswith(TOWERS)
    )
    buffers = [
        tensor
        for name, tensor in network.state_dict().items()
        if name.endswith(("e_score_correction_bias", "layer_scalar"))
    ]
    expected += sum(tensor.numel() for tensor in buffers)
    counted = read_architecture(config.to_dict(), model_type)
    assert counted.params_total == expected
    assert any("not counted" in note for note in counted.notes)
