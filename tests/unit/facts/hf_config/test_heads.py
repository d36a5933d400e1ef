"""Drafting heads: which configurations are heads, and what they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import FactsError
from capplan.facts.hf_config.heads.read import read_head
from capplan.facts.hf_config.parts import Architecture
from capplan.schema.pairing import Method

HEADS = Path(__file__).parents[3] / "data" / "checkpoints" / "specforge-heads"

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
LLAMA_70B = {
    **LLAMA_8B,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
}
QWEN3_32B = {
    **LLAMA_8B,
    "hidden_size": 5120,
    "head_dim": 128,
    "intermediate_size": 25600,
    "num_attention_heads": 64,
    "vocab_size": 151936,
}
GPT_OSS = {
    **LLAMA_8B,
    "hidden_size": 2880,
    "head_dim": 64,
    "intermediate_size": 17280,
    "num_attention_heads": 64,
    "vocab_size": 201088,
}
EAGLE3 = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000}


def head(config: dict[str, Any], name: str = "test") -> Architecture:
    found = read_head(config, name)
    assert found is not None
    assert found.head is not None
    return found


def stored(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((HEADS / f"{name}.json").read_text())
    return content


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        ({**LLAMA_8B, **EAGLE3}, 0.42),
        ({**LLAMA_70B, **EAGLE3}, 1.40),
        ({**QWEN3_32B, **EAGLE3}, 0.78),
        ({**GPT_OSS, **EAGLE3}, 0.31),
        (stored("llama3-70b-eagle3"), 1.40),
        ({**stored("qwen3-30b-a3b-eagle3"), "intermediate_size": 12288}, 0.18),
    ],
)
def test_eagle3_heads_have_their_published_sizes(config: dict[str, Any], billions: float) -> None:
    # sizes: EAGLE README @cb7e0841 and SpecForge's specbundle.md @a6b6b023, two decimals
    assert head(config).params_total / 1e9 == pytest.approx(billions, abs=0.0051)


def test_eagle3_reads_embedding_and_hidden_state_and_has_an_output_layer() -> None:
    found = head({**LLAMA_8B, **EAGLE3})
    sums = {part.name: part.how for part in found.parts}
    assert sums["attention"].startswith("8192 x 4096 + 8192 x 1024")
    assert sums["projections"] == "12288 x 4096"
    assert sums["output layer"] == "32000 x 4096"
    assert found.head is not None
    assert found.head.method is Method.EAGLE3
    assert found.head.draft_vocab_size == 32000
    assert [str(group) for group in found.cache] == ["1 full 8x256"]


@pytest.mark.parametrize(("config", "billions"), [(LLAMA_8B, 0.25), (LLAMA_70B, 0.99)])
def test_the_first_eagle_heads_call_themselves_llama(
    config: dict[str, Any], billions: float
) -> None:
    plain = {**config, "architectures": ["LlamaForCausalLM"]}
    found = head(plain, "yuhuili/EAGLE-LLaMA3-Instruct")
    assert found.params_total / 1e9 == pytest.approx(billions, abs=0.005)
    assert found.head is not None
    assert found.head.method is Method.EAGLE
    assert found.head.draft_vocab_size is None


def test_a_one_layer_llm_is_no_head_unless_something_says_so() -> None:
    plain = {**LLAMA_8B, "architectures": ["LlamaForCausalLM"]}
    assert read_head(plain, "me/one-layer") is None
    assert read_head({**plain, "num_hidden_layers": 2}, "me/eagle-2-layers") is None
    assert read_head(plain, "me/one-layer", frozenset({"fc.weight"})) is not None
    assert read_head({**plain, "draft_vocab_size": 32000}, "me/one-layer") is not None


def test_llms_that_are_called_eagle_are_no_heads() -> None:
    config = {
        "architectures": ["Eagle2_5_VLForConditionalGeneration"],
        "model_type": "eagle_2_5_vl",
    }
    assert read_head(config, "nvidia/Eagle2.5-8B") is None


def test_the_speculators_format_nests_the_layer_and_names_the_target() -> None:
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": 32000,
        "speculators_config": {
            "algorithm": "eagle3",
            "verifier": {"name_or_path": "meta-llama/Llama-3.1-8B-Instruct"},
        },
        "transformer_layer_config": LLAMA_8B,
    }
    found = head(config)
    assert found.head is not None
    assert found.head.target_id == "meta-llama/Llama-3.1-8B-Instruct"
    # the published size of the 8B speculator, 1.0 B, holds an embedding of its own
    assert found.params_total / 1e9 == pytest.approx(0.95, abs=0.005)
    shared = read_head(config, "test", frozenset({"fc.weight", "lm_head.weight"}))
    assert shared is not None
    assert shared.params_total == found.params_total - 128256 * 4096


def test_the_listed_target_layers_widen_the_projection() -> None:
    listed = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4]}}
    more = head({**LLAMA_8B, **EAGLE3, **listed})
    assert more.params_total - head({**LLAMA_8B, **EAGLE3}).params_total == 4096 * 4096


def test_a_head_narrower_than_its_target_states_both_sizes() -> None:
    found = head({**LLAMA_8B, **EAGLE3, "target_hidden_size": 8192})
    assert found.head is not None
    assert found.head.target_hidden == 8192
    assert {part.name: part.how for part in found.parts}["projections"] == "24576 x 4096"


def test_a_dflash_head_is_a_stack_without_embeddings() -> None:
    found = head(stored("qwen3-8b-dflash"))
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12288 + 2 * 128 + 2 * 4096
    assert found.params_total == 5 * layer + 5 * 4096 * 4096 + 2 * 4096
    assert [str(group) for group in found.cache] == ["5 full 8x256"]


def test_dspark_adds_a_markov_and_a_confidence_head_to_dflash() -> None:
    more = head(stored("qwen3-8b-dspark"))
    fewer = head(stored("qwen3-8b-dflash"))
    added = 2 * 151936 * 256 + (4096 + 256) + 1
    assert more.params_total - fewer.params_total == added
    assert more.head is not None
    assert more.head.method is Method.DSPARK


def test_p_eagle_has_one_wide_layer_and_more_plain_ones() -> None:
    config = {**LLAMA_8B, "architectures": ["PEagleDraftModel"], "num_hidden_layers": 4}
    found = head(config)
    assert found.head is not None
    assert found.head.method is Method.PEAGLE
    assert [str(group) for group in found.cache] == ["4 full 8x256"]


def test_medusa_heads_are_residual_blocks_with_an_output_layer_each() -> None:
    config = {
        "model_type": "medusa",
        "medusa_num_heads": 5,
        "medusa_num_layers": 1,
        "hidden_size": 4096,
        "vocab_size": 32000,
    }
    found = head(config)
    assert found.params_total == 5 * (4096 * 4096 + 4096 + 32000 * 4096)
    assert found.cache == ()


def test_medusa_without_sizes_is_refused_by_the_missing_field() -> None:
    config = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "a/b"}
    with pytest.raises(FactsError, match="hidden_size"):
        read_head(config, "FasterDecoding/medusa-vicuna-7b-v1.3")


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"model_type": "mlp_speculator"}, "mlp_speculator"),
        ({"architectures": ["DFlash2DraftModel"]}, "dflash2"),
        ({**LLAMA_8B, **EAGLE3, "model_type": "a_new_one"}, "a_new_one"),
        ({**LLAMA_8B, **EAGLE3, "kv_lora_rank": 512}, "latent"),
        ({**LLAMA_8B, **EAGLE3, "num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({**LLAMA_8B, **EAGLE3, "num_attention_heads": 0}, "num_attention_heads"),
        ({**EAGLE3, "model_type": "llama"}, "hidden_size"),
    ],
)
def test_what_is_not_known_is_refused_by_name(config: dict[str, Any], word: str) -> None:
    with pytest.raises(FactsError, match=word):
        read_head(config, "test")


def test_a_norm_before_the_projection_is_as_wide_as_all_states_it_reads() -> None:
    # RedHatAI/gpt-oss-20b-speculator.eagle3: one norm over three hidden states of 2880
    plain, normed = ({**GPT_OSS, **EAGLE3, "norm_before_fc": value} for value in (False, True))
    assert head(normed).params_total - head(plain).params_total == 3 * 2880


def test_a_truncated_vocabulary_marks_an_eagle3_head_that_calls_itself_llama() -> None:
    # nebius/EAGLE3-gpt-oss-20b names no head anywhere
    config = {**GPT_OSS, "architectures": ["LlamaForCausalLM"], "truncated_vocab_size": 64000}
    found = head(config)
    assert found.head is not None
    assert (found.head.method, found.head.draft_vocab_size) == (Method.EAGLE3, 64000)
