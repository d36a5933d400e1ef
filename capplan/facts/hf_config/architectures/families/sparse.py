"""Decoders with experts that differ only in what a recipe says, by ``model_type``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capplan.facts.hf_config.architectures.layers import (
    QWEN_WINDOWS,
    after_dense,
    all_but_every,
    all_but_fourth,
    by_kind,
    by_mlp_kind,
    by_step,
    every_other,
    from_index_on,
    has_window,
    interleaved,
    letters,
    listed_range,
    rotary,
    same_window,
)
from capplan.facts.hf_config.architectures.recipe import BIASED, LLAMA, PLAIN, Moe, Recipe

_SHARED = ("n_shared_experts", "num_shared_experts")
_FIRST_DENSE = ("first_k_dense_replace", "num_dense_layers")
_GLM_MOE = Moe(shared_count=_SHARED, correction=True, sparse=after_dense(*_FIRST_DENSE))
_AS_WIDE = Moe(width=("intermediate_size",))

MOE_RECIPES: Mapping[str, Recipe] = {
    "mixtral": replace(PLAIN, moe=_AS_WIDE, windows=same_window),
    "phimoe": replace(
        BIASED,
        moe=_AS_WIDE,
        norm_bias=True,
        head_bias="lm_head_bias",
        windows=same_window,
    ),
    "qwen2_moe": replace(
        PLAIN,
        qkv_bias="qkv_bias",
        windows=QWEN_WINDOWS,
        moe=Moe(
            shared_width=("shared_expert_intermediate_size",), shared_gate=True, sparse=by_step
        ),
    ),
    "qwen3_moe": replace(
        BIASED,
        qk_norm="head",
        moe=Moe(sparse=by_step),
        windows=QWEN_WINDOWS,
    ),
    "olmoe": replace(BIASED, qk_norm="all", moe=_AS_WIDE),
    "flex_olmo": replace(BIASED, qk_norm="all", moe=_AS_WIDE),
    "granitemoe": replace(BIASED, moe=_AS_WIDE),
    "granitemoeshared": replace(
        BIASED,
        moe=Moe(width=("intermediate_size",), shared_width=("shared_intermediate_size",)),
    ),
    "granitemoe_swa": replace(
        BIASED,
        sinks=True,
        moe=Moe(width=("intermediate_size",), shared_width=("shared_intermediate_size",)),
        windows=by_kind(all_but_fourth, used=has_window),
    ),
    "gpt_oss": replace(
        BIASED,
        sinks=True,
        moe=Moe(width=("intermediate_size",), router_bias=True, bias=True),
        windows=by_kind(every_other, used=has_window),
    ),
    "llama4_text": replace(
        BIASED,
        width=("intermediate_size_mlp",),
        moe=Moe(
            width=("intermediate_size",),
            shared_width=("intermediate_size",),
            sparse=interleaved,
        ),
        windows=by_kind(rotary, "attention_chunk_size"),
    ),
    "deepseek": replace(BIASED, moe=Moe(shared_count=_SHARED, sparse=after_dense(*_FIRST_DENSE))),
    "glm4_moe": Recipe(
        qkv_bias="attention_bias", qk_norm="head", qk_norm_on="use_qk_norm", moe=_GLM_MOE
    ),
    "sarvam_moe": Recipe(
        qkv_bias="attention_bias", qk_norm="head", qk_norm_on="use_qk_norm", moe=_GLM_MOE
    ),
    "solar_open": replace(PLAIN, moe=_GLM_MOE),
    "dots1": replace(
        BIASED, qk_norm="head", moe=_GLM_MOE, windows=by_kind(from_index_on, used=has_window)
    ),
    "exaone_moe": replace(
        PLAIN, qk_norm="head", moe=_GLM_MOE, windows=by_kind(letters, used=has_window)
    ),
    "hy_v3": replace(LLAMA, qk_norm="head", moe=_GLM_MOE),
    "afmoe": replace(
        BIASED,
        norms=4,
        qk_norm="head",
        gate="wide",
        moe=_GLM_MOE,
        windows=by_kind(all_but_every(4, "global_attn_every_n_layers"), used=has_window),
    ),
    "laguna": replace(
        BIASED,
        qk_norm="head",
        gate="head",
        moe=Moe(
            shared_width=("shared_expert_intermediate_size",),
            correction=True,
            sparse=after_dense("first_k_dense_replace"),
        ),
        windows=by_kind(lambda _f, _i: False),
    ),
    "mellum": replace(BIASED, qk_norm="head", moe=Moe(), windows=by_kind(lambda _f, _i: False)),
    "minimax_m2": replace(
        PLAIN, qk_norm="all", mtp=False, moe=Moe(width=("intermediate_size",), correction=True)
    ),
    "ernie4_5_moe": Recipe(
        qkv_bias="use_bias",
        o_bias="use_bias",
        mlp_bias="use_bias",
        mtp_dense=True,
        mtp_norms=2,
        moe=Moe(
            shared_count=("moe_num_shared_experts",),
            correction=True,
            bias="use_bias",
            sparse=listed_range,
        ),
    ),
    "cohere2_moe": replace(
        BIASED,
        norms=1,
        moe=Moe(
            width=("intermediate_size",),
            shared_count=_SHARED,
            sparse=by_mlp_kind(after_dense(*_FIRST_DENSE)),
        ),
        windows=by_kind(all_but_every(4, "sliding_window_pattern"), used=has_window),
    ),
    "hunyuan_v1_moe": replace(
        BIASED,
        qk_norm="head",
        moe=Moe(
            width=("moe_intermediate_size", "intermediate_size"),
            shared_width=("intermediate_size",),
        ),
    ),
}
