"""``capplan memory``: what it prints, how it ends, and that its advice is true."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import capplan
from capplan.cli.main import cli
from capplan.errors import RequestError

QWEN_32B = ("Qwen/Qwen3-32B", "--gpu", "h100-sxm-80gb")


def memory(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["memory", *arguments], standalone_mode=False)


def answer(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(memory(*arguments, "--format", "json").stdout)
    return found


def test_what_fits_ends_with_0_and_what_does_not_with_3() -> None:
    assert memory(*QWEN_32B, "--tp", "2").return_value == 0
    assert memory(*QWEN_32B).return_value == 3


def test_the_breakdown_adds_up() -> None:
    found = answer(*QWEN_32B, "--tp", "2", "--draft", "Qwen/Qwen3-0.6B", "-n", "3")
    parts = sum(found[f"{name}_bytes"] for name in (
        "target_weight", "draft_weight", "activation", "cuda_graph", "non_torch", "buffer",
        "kv_pool"))  # fmt: skip
    assert parts == pytest.approx(found["usable_bytes"])
    assert found["usable_bytes"] == pytest.approx(0.92 * found["capacity_bytes"])
    assert found["kv_tokens"] == pytest.approx(
        found["max_concurrency"] * found["max_model_len"], abs=1.0
    )


def test_the_table_says_what_lacks_and_what_would_help() -> None:
    text = memory(*QWEN_32B).stdout
    assert "= KV pool" in text
    assert "Does not fit by" in text
    assert "Each of these alone makes it fit:" in text
    assert "--tp 2" in text


def test_every_change_it_names_really_makes_it_fit() -> None:
    found = answer(*QWEN_32B)
    assert len(found["remedies"]) >= 3
    for remedy in found["remedies"]:
        assert remedy.startswith("--")
        assert answer(*QWEN_32B, *shlex.split(remedy))["fits"], remedy


def test_it_says_when_no_single_change_helps() -> None:
    text = memory("meta-llama/Llama-3.1-70B-Instruct", "--gpu", "l4", "--tp", "1").stdout
    assert "weights alone" in text
    assert "--max-model-len" not in text.split("alone makes")[-1]


def test_measured_values_replace_estimates() -> None:
    found = answer(
        "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h100-sxm-80gb", "--gpu-memory-gib", "79.18",
        "--activation-gib", "4.76", "--non-torch-gib", "0.13", "--cuda-graph-gib", "0",
        "--engine-version", "0.11", "--utilisation", "0.9", "--max-model-len", "16000",
    )  # fmt: skip
    assert found["kv_pool_bytes"] / 2**30 == pytest.approx(51.38, abs=0.1)
    assert found["kv_tokens"] == pytest.approx(51.38 * 2**30 / 131072, rel=0.003)


def test_a_printed_pool_that_the_parts_contradict_is_noted() -> None:
    """gpt-oss-120b of llm-d-planner @e50305af: 0.9 is printed, 0.95 follows from 3.33 GiB."""
    printed = (
        "openai/gpt-oss-120b", "--gpu", "h100-sxm-80gb", "--gpu-memory-gib", "79.18",
        "--activation-gib", "7.38", "--non-torch-gib", "0.13", "--engine-version", "0.11",
        "--max-model-len", "16000", "--kv-pool-gib", "3.33",
    )  # fmt: skip
    wrong, right = (answer(*printed, "--utilisation", share) for share in ("0.9", "0.95"))
    assert "the parts imply 0.95" in wrong["notes"][0]
    assert not any("the parts imply" in note for note in right["notes"])


def test_more_than_the_checkpoints_own_context_is_noted() -> None:
    found = answer(*QWEN_32B, "--tp", "4", "--max-model-len", "100000")
    assert "40,960 tokens" in found["notes"][0]


def test_fp8_kv_holds_twice_as_many_tokens() -> None:
    plain, small = (answer(*QWEN_32B, "--tp", "2", "--kv-dtype", d) for d in ("auto", "fp8"))
    assert small["kv_tokens"] == pytest.approx(2 * plain["kv_tokens"], rel=1e-3)


def test_the_workloads_own_length_is_counted_beside_the_longest() -> None:
    found = answer(*QWEN_32B, "--tp", "2", "--prompt-tokens", "1000", "--output-tokens", "200")
    assert found["workload_tokens"] == 1201
    assert found["workload_concurrency"] > 20 * found["max_concurrency"]


def test_a_head_of_the_catalogue_counts_one_layer_of_the_target() -> None:
    plain = answer("meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h100-sxm-80gb")
    drafted = answer(
        "meta-llama/Llama-3.1-8B-Instruct",
        "--gpu",
        "h100-sxm-80gb",
        "--method",
        "eagle",
        "-n",
        "3",
    )
    assert drafted["draft_weight_bytes"] > 1e8
    assert drafted["kv_bytes_per_token"] - plain["kv_bytes_per_token"] == 4096


def test_prompt_lookup_loads_nothing() -> None:
    found = answer(*QWEN_32B, "--tp", "2", "--method", "ngram", "-n", "4")
    assert found["draft"] is None
    assert found["draft_weight_bytes"] == 0


def test_a_directory_is_read_like_an_id(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048,
        "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
        "tie_word_embeddings": True, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = answer(str(tmp_path), "--gpu", "l4", "--max-model-len", "8192")
    # Llama-3.2-1B: 1.24e9 parameters, 16 layers of 8 heads
    assert found["target_weight_bytes"] == pytest.approx(2.47e9, rel=0.01)
    assert found["kv_bytes_per_token"] == 16 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*QWEN_32B, "--tp", "3"), "64 query heads, which 3 GPUs cannot share"),
        (("Qwen/Qwen3-32B", "--gpu", "h100-sxm-80gb", "--method", "medusa"), "not known"),
    ],
)
def test_the_impossible_is_refused_with_a_reason(arguments: tuple[str, ...], message: str) -> None:
    done = memory(*arguments)
    assert isinstance(done.exception, RequestError)
    assert message in str(done.exception)


def test_drafting_with_nothing_is_misuse() -> None:
    done = CliRunner().invoke(cli, ["memory", *QWEN_32B, "-n", "3"])
    assert done.exit_code == 2
    assert "--draft or --method" in done.output


def test_prompt_length_without_output_length_is_misuse() -> None:
    done = CliRunner().invoke(cli, ["memory", *QWEN_32B, "--prompt-tokens", "10"])
    assert done.exit_code == 2
    assert "belong together" in done.output


def test_the_library_answers_as_the_command_does() -> None:
    use = capplan.plan_memory(
        capplan.MemoryRequest(target="Qwen/Qwen3-32B", gpu="h100-sxm-80gb", tensor_parallel=2)
    )
    assert isinstance(use, capplan.MemoryUse)
    assert use.fits
    assert json.loads(use.model_dump_json()) == answer(*QWEN_32B, "--tp", "2")


def test_a_draft_llm_keeps_all_its_layers_and_takes_1_778_times_the_kv() -> None:
    """SpecDecode-Bench (arXiv:2601.11580) measured 1.77; the pairing is in models_db."""
    plain = answer("Qwen/Qwen3-8B", "--gpu", "l40s", "--max-model-len", "8192")
    drafted = answer(
        "Qwen/Qwen3-8B", "--gpu", "l40s", "--max-model-len", "8192",
        "--draft", "Qwen/Qwen3-0.6B", "-n", "4",
    )  # fmt: skip
    assert plain["kv_bytes_per_token"] == 147_456
    assert drafted["kv_bytes_per_token"] == 147_456 + 114_688
    assert drafted["request_bytes"] / plain["request_bytes"] == pytest.approx(1.778, abs=5e-4)


def test_a_part_that_is_not_there_is_not_listed() -> None:
    text = memory("Qwen/Qwen3-8B", "--gpu", "l40s", "--max-model-len", "8192").stdout
    assert "draft weights" not in text
    assert "target weights" in text


def test_a_pool_asked_for_outright_is_held_against_the_whole_gpu() -> None:
    arguments = ("Qwen/Qwen3-8B", "--gpu", "rtx-4090", "--max-model-len", "8192")
    fits = answer(*arguments, "--kv-cache-memory-gib", "4")
    assert fits["kv_tokens"] == int(4 * 2**30 / 147_456 / 16) * 16
    assert any("asked for outright" in note for note in fits["notes"])
    done = memory(*arguments, "--kv-cache-memory-gib", "10", "--format", "json")
    assert done.return_value == 3
    found = json.loads(done.stdout)
    assert "asked for leaves too little" in found["verdict"]
    assert found["remedies"] == ["--tp 2"]
    both = memory(*arguments, "--kv-cache-memory-gib", "4", "--kv-pool-gib", "4")
    assert "give one" in str(both.exception)


def test_what_loading_took_replaces_the_weights_and_contains_the_draft() -> None:
    found = answer(
        "Qwen/Qwen3-8B", "--gpu", "rtx-4090", "--weights-gib", "6.5", "--max-model-len", "8192",
        "--draft", "Qwen/Qwen3-0.6B",
    )  # fmt: skip
    assert found["target_weight_bytes"] == 6.5 * 2**30
    assert found["draft_weight_bytes"] == 0


def test_graphs_come_on_top_in_versions_that_do_not_set_them_aside() -> None:
    arguments = (*QWEN_32B, "--tp", "2", "--cuda-graph-gib", "0.95")
    old, new = (answer(*arguments, "--engine-version", version) for version in ("0.11", "0.33"))
    assert old["cuda_graph_bytes"] == 0
    assert "come on top" in old["notes"][0]
    assert new["cuda_graph_bytes"] == 0.95 * 2**30


def test_other_versions_print_another_size_of_a_hybrid_pool() -> None:
    """hf-mem#60: gpt-oss-120b printed 78,384 tokens of 5.38 GiB."""
    arguments = (
        "openai/gpt-oss-120b", "--gpu", "h100-sxm-80gb", "--kv-pool-gib", "5.38",
        "--max-model-len", "131072",
    )  # fmt: skip
    notes = " ".join(answer(*arguments)["notes"])
    assert "print 78,336 tokens" in notes
    assert answer(*arguments, "--engine-version", "0.19")["kv_tokens"] == 78_336


def test_of_fewer_sequences_only_the_most_that_fit_are_offered() -> None:
    result = memory("openai/gpt-oss-120b", "--gpu", "h100-sxm-80gb", "--context", "128K")
    assert result.return_value == 3
    assert result.output.count("--max-num-seqs") == 1


@pytest.mark.parametrize("version", ["9", "0.34", "1.0.2"])
def test_a_version_nobody_has_read_is_refused_with_those_that_are_known(version: str) -> None:
    error = memory(*QWEN_32B, "--tp", "2", "--engine-version", version).exception
    assert isinstance(error, RequestError)
    assert f"vllm {version} allots memory" in error.message
    assert "up to 0.33" in error.remedy
    assert "0.21" in error.remedy


@pytest.mark.parametrize("version", ["0.33.1", "0.32.0", "0.6", "0.33rc1"])
def test_patches_of_a_known_version_and_older_ones_are_taken(version: str) -> None:
    assert answer(*QWEN_32B, "--tp", "2", "--engine-version", version)["fits"]


def checkpoint(tmp_path: Path, **fields: Any) -> str:
    """Llama-3.1-8B's own shape: 131,072 KV bytes a token in 16 bit."""
    shape = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "config.json").write_text(json.dumps(shape | fields), encoding="utf-8")
    return str(tmp_path)


FP8_KV = {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
ON_5090 = ("--gpu", "rtx-5090", "--max-model-len", "8K")


def test_a_checkpoint_that_asks_for_fp8_kv_gets_it_unless_told_otherwise(tmp_path: Path) -> None:
    target = checkpoint(tmp_path, quantization_config=FP8_KV)
    found, plain = (answer(target, *ON_5090, *more) for more in ((), ("--kv-dtype", "bfloat16")))
    assert (found["kv_bytes_per_token"], plain["kv_bytes_per_token"]) == (65_536, 131_072)
    assert found["kv_pool_bytes"] == plain["kv_pool_bytes"]
    assert found["max_concurrency"] == pytest.approx(2 * plain["max_concurrency"], rel=1e-3)
    assert any("--kv-dtype bfloat16" in note for note in found["notes"])
    assert not any("quantisation settings" in note for note in plain["notes"])


def test_the_drafts_kv_follows_the_dtype_of_the_targets_checkpoint(tmp_path: Path) -> None:
    target = checkpoint(tmp_path, quantization_config=FP8_KV)
    found = answer(target, *ON_5090, "--draft", "meta-llama/Llama-3.2-1B-Instruct", "-n", "3")
    assert found["kv_bytes_per_token"] == 65_536 + 16 * 8 * 128  # 16 layers, 8 heads, 2 x 64, 1 B


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--draft", "Qwen/Qwen3-0.6B", "--method", "eagle3"), "is an LLM of its own"),
        (("--method", "mtp"), "has no MTP layers"),
    ],
)
def test_a_method_that_does_not_fit_the_draft_is_refused(
    arguments: tuple[str, ...], message: str
) -> None:
    done = memory("Qwen/Qwen3-8B", "--gpu", "h100-sxm-80gb", *arguments)
    assert isinstance(done.exception, RequestError)
    assert message in str(done.exception)


def test_a_head_is_no_draft_model(tmp_path: Path) -> None:
    head = checkpoint(
        tmp_path,
        architectures=["LlamaForCausalLMEagle3"],
        num_hidden_layers=1,
        draft_vocab_size=32_000,
    )
    target = ("meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h100-sxm-80gb", "--draft", head)
    done = memory(*target, "--method", "draft_model")
    assert isinstance(done.exception, RequestError)
    assert "is a head (eagle3)" in str(done.exception)
    assert answer(*target, "--method", "eagle3")["draft_weight_bytes"] == 849_379_328
    assert not any("another LLM's head" in note for note in answer(*target)["notes"])
    wider = answer(*QWEN_32B, "--draft", head, "--max-model-len", "8K")
    assert any("hidden states of 4,096" in note for note in wider["notes"])


@pytest.mark.parametrize("version", ["abc", "v0.11", "0..1"])
def test_what_is_no_version_is_misuse_that_names_the_option(version: str) -> None:
    done = CliRunner().invoke(cli, ["memory", *QWEN_32B, "--engine-version", version])
    assert done.exit_code == 2
    assert "--engine-version" in done.output
    assert repr(version) in done.output


def test_float32_is_loaded_in_16_bit(tmp_path: Path) -> None:
    # vLLM 0.32, config/model.py: float32 is cast unless --dtype float32
    target = checkpoint(tmp_path, torch_dtype="float32")
    found = answer(target, "--gpu", "h100-sxm-80gb", "--max-model-len", "8K")
    assert found["target_weight_bytes"] == 2 * 8_030_261_248
    assert any("float32" in note for note in found["notes"])
    told = answer(target, "--gpu", "h100-sxm-80gb", "--max-model-len", "8K", "--weights-gib", "30")
    assert not any("float32" in note for note in told["notes"])


def test_a_vision_tower_that_is_not_counted_is_said(tmp_path: Path) -> None:
    text_only = checkpoint(tmp_path)
    asked = ("--gpu", "h100-sxm-80gb", "--max-model-len", "8K")
    assert not any("vision" in note for note in answer(text_only, *asked)["notes"])
    vision = {"hidden_size": 1024, "depth": 24, "patch_size": 14}
    with_tower = checkpoint(tmp_path, vision_config=vision)
    assert any("vision" in note for note in answer(with_tower, *asked)["notes"])
    printed = answer(with_tower, *asked, "--activation-gib", "3")
    assert not any("vision" in note for note in printed["notes"])
