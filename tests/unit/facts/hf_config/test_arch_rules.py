"""What absent, null and contradictory fields mean."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.errors import FactsError
from capplan.facts.hf_config.architectures.read import read_architecture
from capplan.facts.hf_config.parts import Architecture
from capplan.schema.cache import kv_bytes_per_token

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 48,
    "intermediate_size": 56,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 97,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
EMBEDDING = 97 * 48


def read(**fields: Any) -> Architecture:
    return read_architecture({**LLAMA, **fields}, "here/config.json")


def written(found: Architecture) -> list[str]:
    return [str(group) for group in found.cache]


def test_no_field_for_kv_heads_means_one_for_every_query_head() -> None:
    assert written(read()) == ["4 full 4x24"]
    assert written(read(num_key_value_heads=None)) == ["4 full 4x24"]


def test_a_stated_head_size_wins_over_the_division() -> None:
    assert written(read(head_dim=20)) == ["4 full 4x40"]


@pytest.mark.parametrize(
    ("model_type", "tied"), [("llama", False), ("gemma", True), ("starcoder2", True)]
)
def test_whether_embeddings_are_tied_by_default_depends_on_the_type(
    model_type: str, tied: bool
) -> None:
    found = read(model_type=model_type, num_key_value_heads=2, head_dim=12)
    assert found.tied_embeddings is tied
    names = {part.name for part in found.parts}
    assert ("output layer" in names) is not tied


def test_an_absent_window_is_the_types_default_and_null_is_none() -> None:
    sizes = {"model_type": "mistral", "num_key_value_heads": 2, "max_position_embeddings": 32768}
    assert written(read(**sizes)) == ["4 window 2x24 last 4096"]
    assert written(read(**sizes, sliding_window=None)) == ["4 full 2x24"]


def test_a_window_that_is_switched_off_does_not_count() -> None:
    qwen = {"model_type": "qwen2", "num_key_value_heads": 2, "sliding_window": 64}
    assert written(read(**qwen, use_sliding_window=False)) == ["4 full 2x24"]
    used = read(**qwen, use_sliding_window=True, max_window_layers=3)
    assert written(used) == ["3 full 2x24", "1 window 2x24 last 64"]


def test_a_window_as_long_as_the_context_is_none() -> None:
    found = read(model_type="phi3", num_key_value_heads=2, sliding_window=4096)
    assert written(found) == ["4 full 2x24"]


def test_layers_that_all_have_a_window_still_take_room_for_a_token() -> None:
    found = read(model_type="phi3", num_key_value_heads=2, sliding_window=64)
    assert kv_bytes_per_token(found.cache) == 4 * 2 * 24 * 2


def test_letters_say_which_layers_are_windowed() -> None:
    sizes = {"model_type": "exaone4", "num_key_value_heads": 2, "sliding_window": 64}
    found = read(**sizes, sliding_window_pattern="LLG")
    assert written(found) == ["1 full 2x24", "3 window 2x24 last 64"]


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        (None, 4096),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512}, 4096),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 16384),
        ({"type": "linear", "factor": 2.0}, 8192),
        ({"type": "dynamic", "factor": 3.0}, 12288),
        ({"type": "longrope", "factor": 32.0}, 4096),
    ],
)
def test_which_rotary_scalings_stretch_the_context(scaling: Any, context: int) -> None:
    assert read(rope_scaling=scaling).max_context == context


def test_a_context_that_engines_read_otherwise_is_pointed_out() -> None:
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    assert any("the stated 4096" in note for note in read(rope_scaling=yarn).notes)
    found = read(model_type="phi3", original_max_position_embeddings=1024, num_key_value_heads=2)
    assert any("vLLM starts at 1024" in note for note in found.notes)


def test_the_llm_inside_a_multimodal_file_is_read_and_the_tower_is_not_counted() -> None:
    outer = {
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "text_config": LLAMA,
        "vision_config": {"hidden_size": 64},
    }
    found = read_architecture(outer, "here/config.json")
    assert found.params_total == read().params_total
    assert any("vision_config is not counted" in note for note in found.notes)


@pytest.mark.parametrize("name", ["text_config", "llm_config", "language_config"])
def test_the_llm_is_found_under_each_of_its_names(name: str) -> None:
    outer = {"model_type": "wrapper", name: LLAMA}
    assert read_architecture(outer, "x").params_total == read().params_total


def test_an_inner_configuration_may_leave_sizes_to_their_defaults() -> None:
    # google/gemma-3-4b-it states no heads, head size or vocabulary
    inner = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    outer = {"model_type": "gemma3", "text_config": inner, "vision_config": {}}
    found = read_architecture(outer, "x")
    assert (found.heads, found.vocab_size) == (8, 262_208)
    assert found.params_total == 3_880_263_168
    assert written(found) == ["5 full 4x512", "29 window 4x512 last 1024"]
    assert any("num_attention_heads 8" in note for note in found.notes)


def test_where_outer_and_inner_disagree_the_output_layer_is_its_own() -> None:
    outer = {
        "model_type": "llava",
        "tie_word_embeddings": True,
        "text_config": {**LLAMA, "tie_word_embeddings": False},
    }
    assert not read_architecture(outer, "x").tied_embeddings


@pytest.mark.parametrize(
    "field",
    ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"],
)
def test_a_size_that_is_missing_is_named_never_filled_in(field: str) -> None:
    config = {name: value for name, value in LLAMA.items() if name != field}
    with pytest.raises(FactsError, match=f"x: {field} is missing"):
        read_architecture(config, "x")


@pytest.mark.parametrize("value", ["4096", -1, 0, 1.5, True, [1, 2]])
def test_a_size_that_is_none_is_named_with_its_value(value: Any) -> None:
    with pytest.raises(FactsError, match=r"here/config\.json: hidden_size is"):
        read(hidden_size=value)


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(FactsError, match="num_key_value_heads is 3"):
        read(num_key_value_heads=3)
    with pytest.raises(FactsError, match="head_dim"):
        read(num_attention_heads=5)


def test_a_default_that_does_not_fit_is_called_a_default() -> None:
    with pytest.raises(FactsError, match="num_key_value_heads is absent and 8 by default"):
        read(model_type="mixtral")


def test_a_list_of_layers_that_is_too_short_is_refused() -> None:
    with pytest.raises(FactsError, match="layer_types"):
        read(model_type="gemma2", head_dim=12, layer_types=["full_attention"])


def test_a_kind_of_layer_that_the_type_does_not_have_is_refused() -> None:
    with pytest.raises(FactsError, match="'linear_attention'"):
        read(model_type="olmo3", layer_types=["linear_attention"] * 4)


def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(FactsError, match="'neverheard'") as caught:
        read(model_type="neverheard", architectures=["NeverHeardForCausalLM"])
    assert "models_db" in caught.value.remedy
    assert "capplan facts check" in caught.value.remedy


def test_an_encoder_decoder_is_refused() -> None:
    with pytest.raises(FactsError, match="'t5'"):
        read(model_type="t5", architectures=["T5ForConditionalGeneration"])


def test_no_model_type_at_all_is_said_so() -> None:
    with pytest.raises(FactsError, match="no model_type"):
        read_architecture({"hidden_size": 4}, "x")


def test_a_class_that_is_known_stands_in_for_a_type_that_is_not() -> None:
    found = read(model_type="my_llama")
    assert found.params_total == read().params_total
    assert any("LlamaForCausalLM" in note for note in found.notes)


def test_a_refused_class_is_refused_under_any_type() -> None:
    with pytest.raises(FactsError, match="compressed"):
        read(model_type="deepseek_v3", architectures=["DeepseekV4ForCausalLM"])


def test_layers_that_differ_are_refused_where_they_are_counted_alike() -> None:
    with pytest.raises(FactsError, match="per_layer_config"):
        read(per_layer_config={"0": {"head_dim": 20}})


def test_lists_of_one_number_a_layer_count_as_the_number() -> None:
    sizes = {"model_type": "hunyuan_v1_moe", "num_experts": 6, "head_dim": 12}
    listed = read(**sizes, moe_topk=[2] * 4, moe_intermediate_size=[56] * 4)
    assert listed.experts_per_token == 2
    assert listed.params_total == read(**sizes, moe_topk=2).params_total


def test_more_experts_a_token_than_there_are_is_refused() -> None:
    with pytest.raises(FactsError, match="num_experts_per_tok is 9"):
        read(model_type="olmoe", num_key_value_heads=2, num_experts=8, num_experts_per_tok=9)


def test_only_routed_experts_are_read_in_part() -> None:
    found = read(model_type="mixtral", num_key_value_heads=2, num_local_experts=8)
    unread = 4 * (8 - 2) * 3 * 48 * 56
    assert found.params_total - found.params_active == unread


def test_what_a_scheme_may_quantise_are_matrices() -> None:
    found = read(attention_bias=True)
    quantisable = {part.name for part in found.parts if part.quantisable}
    assert quantisable == {"attention", "MLP", "output layer"}
    matrices = 4 * (4 * 48 * 48 + 3 * 48 * 56) + EMBEDDING
    assert sum(part.params for part in found.parts if part.quantisable) == matrices


def test_deepseek_v2_lite_has_queries_without_a_latent() -> None:
    # deepseek-ai/DeepSeek-V2-Lite, from the shape in its model card; vLLM pads 576 to 640
    found = read_architecture(
        {
            "model_type": "deepseek_v2",
            "hidden_size": 2048,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "vocab_size": 102_400,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
            "q_lora_rank": None,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
        },
        "x",
    )
    assert found.params_total == 15_706_484_224
    assert kv_bytes_per_token(found.cache) == 27 * 576 * 2 == 31_104


@pytest.mark.parametrize(
    ("hidden", "layers", "heads", "fields", "params"),
    [
        (768, 12, 12, {}, 125_239_296),
        (1024, 24, 16, {"word_embed_proj_dim": 512, "do_layer_norm_before": False}, 331_196_416),
    ],
)
def test_opt_has_two_more_positions_and_maybe_a_narrow_embedding(
    hidden: int, layers: int, heads: int, fields: dict[str, Any], params: int
) -> None:
    config = {
        "model_type": "opt",
        "hidden_size": hidden,
        "ffn_dim": 4 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": 50_272,
        "max_position_embeddings": 2048,
        "word_embed_proj_dim": hidden,
        **fields,
    }
    assert read_architecture(config, "x").params_total == params


def test_remote_code_types_are_untied_by_default() -> None:
    assert not read(model_type="internlm2", bias=False).tied_embeddings
    assert read(model_type="minicpm").tied_embeddings


def test_an_absent_dtype_is_taken_as_bfloat16_and_known_to_be_absent() -> None:
    config = {name: value for name, value in LLAMA.items() if name != "torch_dtype"}
    found = read_architecture(config, "x")
    assert (found.dtype, found.dtype_stated) == ("bfloat16", False)
    assert read(torch_dtype="torch.float16").dtype == "float16"


@pytest.mark.parametrize("class_name", ["MistralModel", "InternVLChatModel", "ChatGLMModel"])
def test_a_base_class_alone_has_no_output_layer(class_name: str) -> None:
    whole, found = (
        read(
            model_type="mistral",
            architectures=[name],
            num_key_value_heads=2,
            tie_word_embeddings=False,
        )
        for name in ("MistralForCausalLM", class_name)
    )
    lacks = whole.params_total - found.params_total
    assert lacks == (whole.vocab_size * whole.hidden if class_name == "MistralModel" else 0)


def test_llava_of_the_first_kind_holds_the_llms_fields_itself() -> None:
    sizes = {"num_key_value_heads": 2, "use_sliding_window": False, "tie_word_embeddings": False}
    plain = read(model_type="qwen2", architectures=["Qwen2ForCausalLM"], **sizes)
    found = read(model_type="llava_qwen", architectures=["LlavaQwenForCausalLM"], **sizes)
    assert found.params_total == plain.params_total
    assert found.family == "qwen2"
    assert any("Towers" in note for note in found.notes)


def test_a_minicpm_v_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(FactsError, match="version"):
        read(model_type="minicpmv", architectures=["MiniCPMV"], version=7.5)


def test_a_nested_configuration_may_leave_out_all_that_is_default() -> None:
    # text_config of llava-hf/llava-1.5-7b-hf: LLaMA 7B but for its vocabulary
    inner = {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}
    config = {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "text_config": inner,
        "vision_config": {"model_type": "clip_vision_model"},
        "torch_dtype": "float16",
    }
    found = read_architecture(config, "x")
    assert found.params_total == 6_738_415_616 + 2 * 64 * 4096
    with pytest.raises(FactsError, match="hidden_size is missing"):
        read_architecture({**inner, "architectures": ["LlamaForCausalLM"]}, "x")


def test_a_number_of_kv_heads_a_layer_counts_layer_by_layer() -> None:
    one, several = (
        read(
            model_type="deci",
            architectures=["DeciLMForCausalLM"],
            num_key_value_heads_per_layer=heads,
        )
        for heads in ([1, 1, 1, 1], [4, 2, 1, 2])
    )
    assert several.params_total - one.params_total == 5 * 2 * 12 * 48
    assert written(several) == ["1 full 4x24", "2 full 2x24", "1 full 1x24"]
    with pytest.raises(FactsError, match="num_key_value_heads_per_layer"):
        read(model_type="deci", num_key_value_heads_per_layer=[1, 3, 1, 1])


def test_a_models_own_maximum_wins_over_the_positions_it_was_trained_at() -> None:
    found = read(max_position_embeddings=8192, model_max_length=131072)
    assert found.max_context == 131072
    assert any("model_max_length, which vLLM prefers" in note for note in found.notes)
