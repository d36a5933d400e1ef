"""Real configurations against what their checkpoints say of themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import FactsError
from capplan.facts.hf_config.spec import FoundLlm, llm_from_config

TOTALS = Path(__file__).parents[3] / "data" / "totals"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"

# parameters, KV bytes a token (bf16), longest context, vocabulary
EXPECTED: dict[str, tuple[int, int, int | None, int]] = {
    "atom-7b": (7_008_751_616, 32 * 32 * 256 * 2, 4096, 65000),
    "bloom": (176_247_271_424, 70 * 112 * 256 * 2, None, 250880),
    "deepseek-ocr-2": (2_934_734_080, 12 * 10 * 256 * 2, 8192, 129280),
    "falcon-40b": (41_303_293_952, 60 * 8 * 128 * 2, 2048, 65024),
    "gemma-2b": (2_506_172_416, 18 * 1 * 512 * 2, 8192, 256000),
    "genz-70b-gptq3": (68_976_648_192, 80 * 8 * 256 * 2, 4096, 32000),
    "gpt-j-6b": (6_050_882_784, 28 * 16 * 512 * 2, 2048, 50400),
    "gpt2-xl": (1_557_611_200, 48 * 25 * 128 * 2, 1024, 50257),
    "internlm-20b": (20_088_714_240, 60 * 40 * 256 * 2, 4096, 103168),
    "internvideo-2.5-8b": (7_737_839_616, 32 * 8 * 256 * 2, 65536, 92560),
    "lighton-ocr-2": (596_049_920, 28 * 8 * 256 * 2, 16384, 151936),
    "lisa-7b": (6_738_448_384, 32 * 32 * 256 * 2, 2048, 32004),
    "medgemma-27b": (27_009_346_304, 10 * 16 * 256 * 2, 131072, 262208),
    "mimo-7b": (7_622_619_136, 36 * 8 * 256 * 2, 32768, 151680),
    "minimax-m1": (456_089_655_296, 10 * 8 * 256 * 2, 10_240_000, 200064),
    "nu-extract-0.5b-f32": (463_987_712, 24 * 16 * 128 * 2, 32768, 151936),
    "olmocr-7b": (7_615_616_512, 28 * 4 * 256 * 2, 32768, 152064),
    "openllama-3b-f32": (3_426_480_000, 26 * 32 * 200 * 2, 2048, 32001),
    "opt-13b-erebus": (12_853_437_440, 40 * 40 * 256 * 2, 2048, 50265),
    "orpheus-3b-nf4": (3_300_867_072, 28 * 8 * 256 * 2, 131072, 156940),
    "phi-1.5": (1_418_270_720, 24 * 32 * 128 * 2, 2048, 51200),
    "phi-2-mixformer": (2_779_683_840, 32 * 32 * 160 * 2, 2048, 51200),
    "phi3-mini": (3_821_079_552, 32 * 32 * 192 * 2, 4096, 32064),
    "pythia-410m-classifier": (353_825_792, 24 * 16 * 128 * 2, 2048, 50304),
    "qwen2.5-14b-mlx-3bit": (14_770_033_664, 48 * 8 * 256 * 2, 131072, 152064),
    "qwen3.5-18b-reap": (18_543_997_568, 10 * 2 * 512 * 2, 262144, 248320),
    "qwen3.5-9b-mlx-8bit": (8_953_803_264, 8 * 4 * 512 * 2, 262144, 248320),
    "qwen3.6-27b-int4": (26_895_998_464, 16 * 4 * 512 * 2, 262144, 248320),
    "redpajama-7b": (6_857_302_016, 32 * 32 * 256 * 2, 2048, 50432),
    "scicore-omics": (7_612_763_648, 28 * 4 * 256 * 2, 32768, 151666),
    "cogreasoner-7b": (7_615_616_512, 28 * 4 * 256 * 2, 32768, 152064),
}
QUANTISED = {
    *("genz-70b-gptq3", "orpheus-3b-nf4", "qwen2.5-14b-mlx-3bit"),
    *("qwen3.5-9b-mlx-8bit", "qwen3.6-27b-int4"),
}
FLOAT32 = {
    *("gpt2-xl", "nu-extract-0.5b-f32", "openllama-3b-f32", "phi-1.5", "phi-2-mixformer"),
    "pythia-410m-classifier",
}
"""The first states no dtype: the size of its file tells."""
TOWERS = {
    *("deepseek-ocr-2", "lighton-ocr-2", "lisa-7b", "medgemma-27b", "olmocr-7b"),
    *("qwen3.5-9b-mlx-8bit", "qwen3.6-27b-int4"),
}
WITHOUT_TOTAL = {"cogreasoner-7b", "internvideo-2.5-8b", "minimax-m1", "scicore-omics"}
REFUSED = {"molmo-7b-d-nf4": "'molmo'", "pythia-reward": "'gpt_neox_reward_model'"}


def case_of(stem: str) -> dict[str, Any]:
    return json.loads((TOTALS / f"{stem}.json").read_text("utf-8"))


def own_total(case: dict[str, Any]) -> int:
    return int(sum(case["files"].values()) or case["index_total_size"] or 0)


def found(stem: str, folder: Path) -> FoundLlm:
    """Lay out the checkpoint's folder as its repository has it, and read it."""
    case = case_of(stem)
    for name, size in case["files"].items():
        (folder / name).write_text(POINTER.format(oid="0" * 64, size=size))
    if case["tensors"]:
        suffix = "bin" if case["index_total_size"] == 13731385408.0 else "safetensors"
        shard = next(iter(case["files"]), f"model-00001-of-00002.{suffix}")
        total = case["index_total_size"]
        metadata = {} if total is None else {"metadata": {"total_size": total}}
        content = {**metadata, "weight_map": dict.fromkeys(case["tensors"], shard)}
        (folder / "model.safetensors.index.json").write_text(json.dumps(content))
    return llm_from_config(case["config"], name=stem, folder=folder)


def test_every_stored_case_is_expected() -> None:
    assert {path.stem for path in TOTALS.glob("*.json")} == {*EXPECTED, *REFUSED}


@pytest.mark.parametrize("stem", EXPECTED)
def test_parameters_cache_context_and_vocabulary(stem: str, tmp_path: Path) -> None:
    spec = found(stem, tmp_path).spec
    params, kv_bytes, context, vocab = EXPECTED[stem]
    assert spec.params_total == params
    assert spec.kv_bytes_per_token == kv_bytes
    assert spec.max_context == context
    assert spec.vocab_size == vocab


@pytest.mark.parametrize("stem", sorted({*EXPECTED} - QUANTISED - WITHOUT_TOTAL))
def test_a_total_is_the_parameters_and_what_is_said_to_be_beside_them(
    stem: str, tmp_path: Path
) -> None:
    case = case_of(stem)
    total = own_total(case)
    params = found(stem, tmp_path).spec.params_total
    rest = total - case["beside_bytes"] - params * (4 if stem in FLOAT32 else 2)
    if case["files"]:  # pointers count file headers and what pickles need
        assert 0 <= rest <= 2e-4 * total
    else:
        assert rest == 0


@pytest.mark.parametrize("stem", EXPECTED)
def test_weight_bytes_are_within_one_per_cent(stem: str, tmp_path: Path) -> None:
    case, llm = case_of(stem), found(stem, tmp_path)
    total = own_total(case)
    if not total:
        assert llm.checkpoint_bytes is None
        return
    assert llm.checkpoint_bytes == total
    loaded = total if stem in TOWERS else total - case["beside_bytes"]
    assert llm.spec.weight_bytes == pytest.approx(loaded, rel=0.01)


@pytest.mark.parametrize("stem", sorted(TOWERS))
def test_a_vision_tower_is_said_and_no_fault(stem: str, tmp_path: Path) -> None:
    warnings = [line.how for line in found(stem, tmp_path).lines if line.section == "warning"]
    assert any("other modalities" in warning for warning in warnings)
    assert not any("parts that the formula does not know" in warning for warning in warnings)


@pytest.mark.parametrize("stem", sorted({*EXPECTED} - TOWERS))
def test_nothing_is_left_unexplained(stem: str, tmp_path: Path) -> None:
    warnings = [line.how for line in found(stem, tmp_path).lines if line.section == "warning"]
    assert not any("parts that the formula does not know" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("stem", "words"),
    [
        ("falcon-40b", "tied embeddings stored twice"),
        ("gemma-2b", "tied embeddings stored twice"),
        ("gpt-j-6b", "28 causal masks of 2048 x 2048"),
        ("gpt2-xl", "48 causal masks of 1024 x 1024"),
        ("mimo-7b", "MTP layers"),
    ],
)
def test_what_is_taken_off_a_total_is_named(stem: str, words: str, tmp_path: Path) -> None:
    line = next(one for one in found(stem, tmp_path).lines if one.quantity == "of them loaded")
    assert words in line.how


@pytest.mark.parametrize("stem", REFUSED)
def test_what_no_reader_counts_is_refused_by_name(stem: str, tmp_path: Path) -> None:
    with pytest.raises(FactsError, match=REFUSED[stem]) as caught:
        found(stem, tmp_path)
    assert "capplan facts check" in caught.value.remedy
