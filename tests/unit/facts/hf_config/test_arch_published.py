"""Published checkpoints of many families: shapes of their configurations, totals of their files.

The totals are the parameter counts that Hugging Face shows for the checkpoints' safetensors
files. Types whose code comes with the checkpoint (transformers cannot build them) are tested here
alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from capplan.facts.hf_config.architectures.read import read_architecture

COMMON = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
)


def shape(model_type: str, *sizes: int | None, **fields: Any) -> dict[str, Any]:
    stated = {name: size for name, size in zip(COMMON, sizes, strict=True) if size is not None}
    return {"model_type": model_type, "max_position_embeddings": 8192, **stated, **fields}


PUBLISHED: dict[str, tuple[int, dict[str, Any]]] = {
    "01-ai/Yi-34B": (34_388_917_248, shape("llama", 7168, 20480, 60, 56, 8, 64000)),
    "ai21labs/Jamba-v0.1": (
        51_570_323_328,
        shape(
            "jamba",
            *(4096, 14336, 32, 32, 8, 65536),
            num_experts=16,
            num_experts_per_tok=2,
            attn_layer_period=8,
            attn_layer_offset=4,
            expert_layer_period=2,
            expert_layer_offset=1,
            mamba_dt_rank=256,
        ),
    ),
    "allenai/OLMoE-1B-7B-0924": (
        6_919_161_856,
        shape("olmoe", 2048, 1024, 16, 16, 16, 50304, num_experts=64, num_experts_per_tok=8),
    ),
    "baichuan-inc/Baichuan2-7B-Chat": (
        7_505_973_248,
        shape("baichuan", 4096, 11008, 32, 32, None, 125696),
    ),
    "baidu/ERNIE-4.5-21B-A3B-PT": (
        21_825_437_888,
        shape(
            "ernie4_5_moe",
            *(2560, 12288, 28, 20, 4, 103424),
            moe_num_experts=64,
            moe_k=6,
            moe_intermediate_size=1536,
            moe_num_shared_experts=2,
            moe_layer_start_index=1,
            moe_layer_end_index=27,
            tie_word_embeddings=True,
        ),
    ),
    "bigcode/starcoder2-7b": (7_173_923_840, shape("starcoder2", 4608, 18432, 32, 36, 4, 49152)),
    "ByteDance-Seed/Seed-OSS-36B-Instruct": (
        36_151_104_512,
        shape("seed_oss", 5120, 27648, 64, 80, 8, 155136, head_dim=128, attention_bias=True),
    ),
    "CohereLabs/c4ai-command-r-v01": (
        34_980_831_232,
        shape("cohere", 8192, 22528, 40, 64, 64, 256000),
    ),
    "CohereLabs/c4ai-command-r-plus": (
        103_810_674_688,
        shape("cohere", 12288, 33792, 64, 96, 8, 256000, use_qk_norm=True),
    ),
    "databricks/dbrx-instruct": (
        131_596_523_520,
        {
            "model_type": "dbrx",
            "d_model": 6144,
            "n_heads": 48,
            "n_layers": 40,
            "vocab_size": 100352,
            "max_seq_len": 32768,
            "attn_config": {"kv_n_heads": 8},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
    ),
    "deepseek-ai/deepseek-moe-16b-base": (
        16_375_728_128,
        shape(
            "deepseek",
            *(2048, 10944, 28, 16, 16, 102400),
            moe_intermediate_size=1408,
            n_routed_experts=64,
            n_shared_experts=2,
            num_experts_per_tok=6,
            first_k_dense_replace=1,
        ),
    ),
    "deepseek-ai/DeepSeek-V2": (
        235_741_434_880,
        shape(
            "deepseek_v2",
            *(5120, 12288, 60, 128, 128, 102400),
            moe_intermediate_size=1536,
            n_routed_experts=160,
            n_shared_experts=2,
            num_experts_per_tok=6,
            first_k_dense_replace=1,
            q_lora_rank=1536,
            kv_lora_rank=512,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
        ),
    ),
    "google/gemma-2-9b": (
        9_241_705_984,
        shape("gemma2", 3584, 14336, 42, 16, 8, 256000, head_dim=256),
    ),
    "google/gemma-7b": (8_537_680_896, shape("gemma", 3072, 24576, 28, 16, 16, 256000)),
    "HuggingFaceTB/SmolLM3-3B": (3_075_098_624, shape("smollm3", 2048, 11008, 36, 16, 4, 128256)),
    "internlm/internlm2-7b": (
        7_737_708_544,
        shape("internlm2", 4096, 14336, 32, 32, 8, 92544, bias=False),
    ),
    "LGAI-EXAONE/EXAONE-4.0-32B": (
        32_003_216_384,
        shape("exaone4", 5120, 27392, 64, 40, 8, 102400, sliding_window_pattern="LLLG"),
    ),
    "LiquidAI/LFM2-1.2B": (
        1_170_340_608,
        shape("lfm2", 2048, 12288, 16, 32, 8, 65536, full_attn_idxs=[2, 5, 8, 10, 12, 14]),
    ),
    "microsoft/Phi-3-mini-4k-instruct": (
        3_821_079_552,
        shape("phi3", 3072, 8192, 32, 32, 32, 32064, sliding_window=2047),
    ),
    "microsoft/Phi-3.5-MoE-instruct": (
        41_873_153_344,
        shape("phimoe", 4096, 6400, 32, 32, 8, 32064, attention_bias=True, lm_head_bias=True),
    ),
    "microsoft/phi-2": (2_779_683_840, shape("phi", 2560, 10240, 32, 32, 32, 51200)),
    "moonshotai/Kimi-Linear-48B-A3B-Instruct": (
        49_122_681_728,
        shape(
            "kimi_linear",
            *(2304, 9216, 27, 32, 32, 163840),
            moe_intermediate_size=1024,
            num_experts=256,
            num_experts_per_token=8,
            num_shared_experts=1,
            first_k_dense_replace=1,
            kv_lora_rank=512,
            q_lora_rank=None,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
            linear_attn_config={
                "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
                "num_heads": 32,
                "head_dim": 128,
                "short_conv_kernel_size": 4,
            },
        ),
    ),
    "Qwen/Qwen1.5-MoE-A2.7B": (
        14_315_784_192,
        shape(
            "qwen2_moe",
            *(2048, 5632, 24, 16, 16, 151936),
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
            num_experts=60,
            num_experts_per_tok=4,
        ),
    ),
    "tencent/Hunyuan-A13B-Instruct": (
        80_393_183_232,
        shape(
            "hunyuan_v1_moe",
            *(4096, 3072, 32, 32, 8, 128167),
            head_dim=128,
            num_experts=64,
            moe_topk=[8] * 32,
            moe_intermediate_size=[3072] * 32,
            tie_word_embeddings=True,
        ),
    ),
    "tiiuae/falcon-40b": (
        41_303_293_952,
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "vocab_size": 65024,
            "new_decoder_architecture": True,
        },
    ),
    "zai-org/chatglm3-6b": (
        6_243_584_032,
        {
            "model_type": "chatglm",
            "hidden_size": 4096,
            "ffn_hidden_size": 13696,
            "num_layers": 28,
            "num_attention_heads": 32,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
            "kv_channels": 128,
            "padded_vocab_size": 65024,
            "seq_length": 8192,
            "add_qkv_bias": True,
        },
    ),
    "zai-org/glm-4-9b-chat-hf": (9_399_951_360, shape("glm", 4096, 13696, 40, 32, 2, 151552)),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_of_the_published_checkpoint(name: str) -> None:
    params, config = PUBLISHED[name]
    assert read_architecture(config, name).params_total == params


GLM_AIR = shape(
    "glm4_moe",
    *(4096, 10944, 46, 96, 8, 151552),
    head_dim=128,
    attention_bias=True,
    moe_intermediate_size=1408,
    n_routed_experts=128,
    n_shared_experts=1,
    num_experts_per_tok=8,
    first_k_dense_replace=1,
    num_nextn_predict_layers=1,
)
QWEN3_NEXT = shape(
    "qwen3_next",
    *(2048, 5120, 48, 16, 2, 151936),
    num_experts=512,
    num_experts_per_tok=10,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
)


@pytest.mark.parametrize(
    ("config", "files", "copies"),
    [
        # GLM's MTP layer comes with copies of the embedding and the output layer
        (GLM_AIR, 110_468_824_832, 2 * 151_552 * 4096),
        (QWEN3_NEXT, 81_324_862_720, 0),
    ],
    ids=["zai-org/GLM-4.5-Air", "Qwen/Qwen3-Next-80B-A3B-Instruct"],
)
def test_mtp_layers_make_up_the_rest_of_the_files(
    config: dict[str, Any], files: int, copies: int
) -> None:
    found = read_architecture(config, "x")
    mtp = sum(part.params for part in found.mtp_parts)
    assert found.mtp_layers == 1
    assert found.params_total + mtp + copies == files
