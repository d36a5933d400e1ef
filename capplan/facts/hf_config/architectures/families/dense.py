"""Decoders that differ only in what a recipe says, by ``model_type``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capplan.facts.hf_config.architectures.families.sparse import MOE_RECIPES
from capplan.facts.hf_config.architectures.layers import (
    QWEN_WINDOWS,
    all_but_every,
    all_but_fourth,
    by_kind,
    every_other,
    has_window,
    letters,
    rotary,
    same_window,
    windows_switched_on,
)
from capplan.facts.hf_config.architectures.recipe import BIASED, LLAMA, PLAIN, Recipe
from capplan.facts.hf_config.architectures.shape import Shape
from capplan.facts.hf_config.fields import Fields


def _inner_norms(fields: Fields, shape: Shape) -> int:
    """BitNet: norms before the last matrix of attention and of the MLP."""
    return shape.hidden + fields.integer("intermediate_size")


_DENSE: Mapping[str, Recipe] = {
    "llama": LLAMA,
    "mistral": replace(PLAIN, windows=same_window),
    "ministral": replace(PLAIN, windows=by_kind(lambda _f, _i: True)),
    "ministral3": replace(PLAIN, windows=same_window),
    "arcee": replace(LLAMA, gated=False),
    "baichuan": PLAIN,
    "exaone": LLAMA,
    "granite": LLAMA,
    "granite_swa": replace(LLAMA, windows=by_kind(all_but_fourth, used=has_window), sinks=True),
    "helium": LLAMA,
    "hyperclovax": replace(LLAMA, norms=4),
    "internlm": replace(PLAIN, qkv_bias="bias", o_bias="bias"),
    "internlm2": replace(PLAIN, qkv_bias="bias", o_bias="bias"),
    "internlm3": replace(PLAIN, qkv_bias="qkv_bias", o_bias="bias", mlp_bias="bias"),
    "iquestcoder": LLAMA,
    "minicpm": PLAIN,
    "mimo": replace(PLAIN, qkv_bias="attention_bias", windows=QWEN_WINDOWS),
    "orion": replace(PLAIN, norm_bias=True),
    "xverse": PLAIN,
    "aquila": PLAIN,
    "yi": PLAIN,
    "qwen2": replace(PLAIN, qkv_bias=True, windows=QWEN_WINDOWS),
    "qwen3": replace(BIASED, qk_norm="head", windows=QWEN_WINDOWS),
    "gemma": BIASED,
    "gemma2": replace(BIASED, norms=4, windows=by_kind(every_other, used=has_window)),
    "gemma3_text": replace(
        BIASED,
        norms=4,
        qk_norm="head",
        windows=by_kind(
            all_but_every(6, "sliding_window_pattern", "_sliding_window_pattern"), used=has_window
        ),
    ),
    "vaultgemma": replace(BIASED, windows=by_kind(every_other, used=has_window)),
    "phi": Recipe(
        qkv_bias=True,
        o_bias=True,
        norms=1,
        norm_bias=True,
        gated=False,
        mlp_bias=True,
        width_factor=4,
        qk_norm="head",
        qk_norm_on="qk_layernorm",
        qk_norm_bias=True,
        head_bias=True,
    ),
    "phi3": replace(PLAIN, windows=same_window),
    "starcoder2": Recipe(
        qkv_bias="use_bias",
        o_bias="use_bias",
        norm_bias=True,
        gated=False,
        mlp_bias="use_bias",
        windows=same_window,
    ),
    "stablelm_epoch": Recipe(
        qkv_bias="use_qkv_bias",
        norm_bias=True,
        qk_norm="all",
        qk_norm_on="qk_layernorm",
        parallel="use_parallel_residual",
    ),
    "cohere": replace(BIASED, norms=1, qk_norm="all", qk_norm_on="use_qk_norm"),
    "cohere2": replace(
        BIASED,
        norms=1,
        windows=by_kind(all_but_every(4, "sliding_window_pattern"), used=has_window),
    ),
    "olmo": replace(BIASED, norm_params=False),
    "olmo2": replace(BIASED, qk_norm="all"),
    "olmo3": replace(BIASED, qk_norm="all", windows=by_kind(all_but_every(4), used=has_window)),
    "glm": replace(PLAIN, qkv_bias="attention_bias"),
    "glm4": replace(PLAIN, qkv_bias="attention_bias", norms=4),
    "glm4v_text": replace(PLAIN, qkv_bias=True, norms=4),
    "smollm3": replace(LLAMA, windows=by_kind(rotary, used=windows_switched_on)),
    "seed_oss": Recipe(
        qkv_bias="attention_bias", o_bias="attention_out_bias", mlp_bias="mlp_bias"
    ),
    "apertus": replace(BIASED, gated=False, qk_norm="head", vectors=lambda _f, _s: 4),
    "exaone4": replace(PLAIN, qk_norm="head", windows=by_kind(letters, used=has_window)),
    "ernie4_5": Recipe(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"),
    "hunyuan_v1_dense": replace(BIASED, qk_norm="head"),
    "nemotron": replace(LLAMA, gated=False, norm_bias=True),
    "bitnet": replace(BIASED, vectors=_inner_norms),
    "jais2": replace(LLAMA, gated=False, norm_bias=True),
    "nanochat": replace(BIASED, gated=False, norm_params=False),
    "persimmon": Recipe(
        qkv_bias=True,
        o_bias=True,
        norm_bias=True,
        gated=False,
        mlp_bias=True,
        qk_norm="head",
        qk_norm_on="qk_layernorm",
        qk_norm_bias=True,
    ),
}

_ALIASES: Mapping[str, str] = {
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "glm4v_moe_text": "glm4_moe",
    "stablelm": "stablelm_epoch",
    "Yi": "yi",
    "qwen3_omni_moe_text": "qwen3_moe",
    "qwen2_5_omni_text": "qwen2",
    "minicpm4": "minicpm",
    "mixformer-sequential": "phi",
    "phi-msft": "phi",
}

_NAMED: Mapping[str, Recipe] = {**_DENSE, **MOE_RECIPES}

RECIPES: Mapping[str, Recipe] = {
    **_NAMED,
    **{alias: _NAMED[name] for alias, name in _ALIASES.items()},
}
