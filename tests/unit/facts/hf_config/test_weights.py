"""Weight bytes of a folder: real files first, then the index, then the formula."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import FactsError
from capplan.facts.hf_config.architectures.read import read_architecture
from capplan.facts.hf_config.quantisation.weigh import weigh
from capplan.facts.hf_config.spec import llm_from_config
from capplan.facts.hf_config.weights.files import files_elsewhere, find_weights, pointer_size
from capplan.facts.hf_config.weights.read import Weights, read_weights

CHECKPOINTS = Path(__file__).parents[3] / "data" / "checkpoints"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"
BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4, "I64": 8}

SMALL: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "head_dim": 16,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def tensors_of_small() -> dict[str, tuple[str, list[int]]]:
    found: dict[str, tuple[str, list[int]]] = {
        "model.embed_tokens.weight": ("BF16", [500, 64]),
        "lm_head.weight": ("BF16", [500, 64]),
        "model.norm.weight": ("BF16", [64]),
    }
    shapes = {
        "self_attn.q_proj.weight": [64, 64],
        "self_attn.k_proj.weight": [32, 64],
        "self_attn.v_proj.weight": [32, 64],
        "self_attn.o_proj.weight": [64, 64],
        "self_attn.q_norm.weight": [16],
        "self_attn.k_norm.weight": [16],
        "mlp.gate_proj.weight": [128, 64],
        "mlp.up_proj.weight": [128, 64],
        "mlp.down_proj.weight": [64, 128],
        "input_layernorm.weight": [64],
        "post_attention_layernorm.weight": [64],
    }
    for layer in range(2):
        for name, shape in shapes.items():
            found[f"model.layers.{layer}.{name}"] = ("BF16", shape)
    return found


def write_safetensors(
    path: Path, tensors: dict[str, tuple[str, list[int]]], keep: float = 1.0
) -> int:
    """Write a file of zeros; ``keep`` below 1 cuts it off. Return the bytes of its tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        size = BYTES[dtype]
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    whole = len(text).to_bytes(8, "little") + text + bytes(offset)
    path.write_bytes(whole[: int(len(whole) * keep)])
    return offset


def read(folder: Path | None, config: dict[str, Any] | None = None) -> Weights:
    content = config or SMALL
    architecture = read_architecture(content, "test")
    return read_weights(folder, weigh(architecture, content, "test"), architecture)


@pytest.fixture
def formula_bytes() -> int:
    return 2 * read_architecture(SMALL, "test").params_total


def test_headers_give_exact_bytes_and_parameters(tmp_path: Path, formula_bytes: int) -> None:
    written = write_safetensors(tmp_path / "model.safetensors", tensors_of_small())
    weights = read(tmp_path)
    assert weights.source == "files"
    assert weights.size_bytes == written == formula_bytes
    assert weights.params == formula_bytes // 2
    assert not weights.warnings


def test_copies_of_the_same_weights_count_once(tmp_path: Path, formula_bytes: int) -> None:
    half = dict(list(tensors_of_small().items())[:12])
    rest = dict(list(tensors_of_small().items())[12:])
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", half)
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", rest)
    write_safetensors(tmp_path / "consolidated.safetensors", tensors_of_small())
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(formula_bytes))
    (tmp_path / "optimizer.bin").write_bytes(bytes(100))
    (tmp_path / "original").mkdir()
    write_safetensors(tmp_path / "original" / "model.safetensors", tensors_of_small())
    weights = read(tmp_path)
    assert weights.size_bytes == formula_bytes
    assert any("consolidated.safetensors" in warning for warning in weights.warnings)


def test_a_pickle_is_weighed_by_its_size_and_never_opened(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n" + bytes(200_000))
    weights = read(tmp_path)
    assert weights.size_bytes == 200_011
    assert weights.params is None


def test_a_git_lfs_pointer_counts_as_the_file_it_stands_for() -> None:
    folder = CHECKPOINTS / "granite-3.1-1b-a400m"
    assert (folder / "model.safetensors").stat().st_size < 200
    assert pointer_size(folder / "model.safetensors") == 2_669_283_096
    config = json.loads((folder / "config.json").read_text())
    weights = read(folder, config)
    assert weights.size_bytes == 2_669_283_096
    assert weights.source == "Git LFS pointers"
    assert "headers included" in weights.how
    assert not weights.warnings


def test_pointers_and_real_files_may_be_mixed(tmp_path: Path, formula_bytes: int) -> None:
    half = dict(list(tensors_of_small().items())[:12])
    real = write_safetensors(tmp_path / "model-00001-of-00002.safetensors", half)
    text = POINTER.format(oid="0" * 64, size=formula_bytes - real)
    (tmp_path / "model-00002-of-00002.safetensors").write_text(text)
    assert read(tmp_path).size_bytes == formula_bytes


@pytest.mark.parametrize(
    "text",
    ["", "size 12\n", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "\x00" * 130],
)
def test_what_is_no_pointer_is_not_read_as_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors").write_text(text)
    assert pointer_size(tmp_path / "model.safetensors") is None
    weights = read(tmp_path)
    assert weights.source == "formula"
    assert any("model.safetensors" in warning for warning in weights.warnings)


def test_a_pointer_without_a_last_newline_is_one(tmp_path: Path) -> None:
    text = POINTER.format(oid="ab", size=77).rstrip()
    (tmp_path / "model.safetensors").write_text(text)
    assert pointer_size(tmp_path / "model.safetensors") == 77


def test_a_cut_download_is_weighed_by_its_header_and_said(
    tmp_path: Path, formula_bytes: int
) -> None:
    write_safetensors(tmp_path / "model.safetensors", tensors_of_small(), keep=0.7)
    weights = read(tmp_path)
    assert weights.size_bytes == formula_bytes
    assert any("incomplete download" in warning for warning in weights.warnings)


def test_a_header_cut_off_falls_back_to_the_formula(tmp_path: Path, formula_bytes: int) -> None:
    write_safetensors(tmp_path / "model.safetensors", tensors_of_small(), keep=0.002)
    weights = read(tmp_path)
    assert (weights.source, weights.size_bytes) == ("formula", formula_bytes)
    assert any("header is cut off" in warning for warning in weights.warnings)


def index(folder: Path, total: object, files: list[str] | None = None) -> None:
    content: dict[str, Any] = {"metadata": {"total_size": total}}
    if files is not None:
        content["weight_map"] = {f"tensor{i}": name for i, name in enumerate(files)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))


def test_an_index_alone_gives_the_bytes(tmp_path: Path, formula_bytes: int) -> None:
    index(tmp_path, formula_bytes)
    weights = read(tmp_path)
    assert (weights.source, weights.size_bytes) == ("index", formula_bytes)


@pytest.mark.parametrize("total", [0, None, -5, "many", [], True, 135, 10**15])
def test_a_total_that_cannot_be_is_not_used_and_said(
    tmp_path: Path, formula_bytes: int, total: object
) -> None:
    index(tmp_path, total)
    weights = read(tmp_path)
    assert (weights.source, weights.size_bytes) == ("formula", formula_bytes)
    assert any("total_size" in warning for warning in weights.warnings)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"metadata": 3}', '{"weight_map": [1]}'])
def test_a_broken_index_is_not_used_and_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text)
    weights = read(tmp_path)
    assert weights.source == "formula"
    assert weights.warnings


def test_missing_shards_are_named_and_the_index_is_used(
    tmp_path: Path, formula_bytes: int
) -> None:
    half = dict(list(tensors_of_small().items())[:12])
    names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    write_safetensors(tmp_path / names[0], half)
    index(tmp_path, formula_bytes, names)
    weights = read(tmp_path)
    assert (weights.source, weights.size_bytes) == ("index", formula_bytes)
    assert any(names[1] in text and names[2] in text for text in weights.warnings)


def test_missing_shards_are_noticed_without_an_index(tmp_path: Path, formula_bytes: int) -> None:
    half = dict(list(tensors_of_small().items())[:12])
    write_safetensors(tmp_path / "model-00002-of-00003.safetensors", half)
    weights = read(tmp_path)
    assert (weights.source, weights.size_bytes) == ("formula", formula_bytes)
    assert any("2 of 3 weight files are not there" in text for text in weights.warnings)


def test_alternatives_in_one_folder_are_not_added_up(tmp_path: Path, formula_bytes: int) -> None:
    for name in ("gptq-4bit.safetensors", "gptq-8bit.safetensors"):
        write_safetensors(tmp_path / name, tensors_of_small())
    weights = read(tmp_path)
    assert (weights.source, weights.size_bytes) == ("formula", formula_bytes)
    assert any("alternatives" in warning for warning in weights.warnings)


def test_a_gguf_file_is_weighed_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "small-q8_0.gguf").write_bytes(b"GGUF" + bytes(99_996))
    weights = read(tmp_path)
    assert weights.size_bytes == 100_000


def test_mtp_layers_are_told_apart(tmp_path: Path, formula_bytes: int) -> None:
    extra = {
        "mtp.fc.weight": ("BF16", [64, 128]),
        "model.layers.2.x.weight": ("BF16", [10]),
        "model.layers.2.shared_head.head.weight": ("BF16", [500, 64]),
    }
    write_safetensors(tmp_path / "model.safetensors", {**tensors_of_small(), **extra})
    weights = read(tmp_path)
    assert weights.size_bytes == formula_bytes
    assert weights.mtp_params == 64 * 128 + 10
    assert not weights.warnings


def test_a_vision_tower_counts_as_weights_and_is_said(tmp_path: Path, formula_bytes: int) -> None:
    tower = {"model.visual.blocks.0.attn.qkv.weight": ("BF16", [64, 64])}
    written = write_safetensors(tmp_path / "model.safetensors", {**tensors_of_small(), **tower})
    weights = read(tmp_path)
    assert weights.size_bytes == written
    assert weights.params == formula_bytes // 2
    assert any("other modalities" in warning for warning in weights.warnings)


def test_tied_embeddings_stored_twice_are_loaded_once(tmp_path: Path) -> None:
    tied = {**SMALL, "tie_word_embeddings": True}
    write_safetensors(tmp_path / "model.safetensors", tensors_of_small())
    weights = read(tmp_path, tied)
    assert weights.size_bytes == 2 * read_architecture(tied, "test").params_total
    assert "tied embeddings stored twice" in weights.how
    assert weights.checkpoint_bytes == weights.size_bytes + 2 * 500 * 64


def test_files_that_disagree_with_the_formula_are_believed_and_said(tmp_path: Path) -> None:
    extra = {"model.adapter.weight": ("BF16", [500, 64])}
    written = write_safetensors(tmp_path / "model.safetensors", {**tensors_of_small(), **extra})
    weights = read(tmp_path)
    assert weights.size_bytes == written
    assert any("the formula gives" in warning for warning in weights.warnings)


def test_packed_integers_are_not_counted_as_parameters(tmp_path: Path) -> None:
    packed = {"model.layers.0.mlp.up_proj.qweight": ("I32", [8, 64])}
    write_safetensors(tmp_path / "model.safetensors", {**tensors_of_small(), **packed})
    assert read(tmp_path).params is None


def test_scales_of_fp8_weights_are_no_parameters(tmp_path: Path, formula_bytes: int) -> None:
    scale = {"model.layers.0.mlp.up_proj.weight_scale_inv": ("F32", [1, 1])}
    write_safetensors(tmp_path / "model.safetensors", {**tensors_of_small(), **scale})
    assert read(tmp_path).params == formula_bytes // 2


@pytest.mark.parametrize("copies", [0, 2])
def test_an_index_that_counts_mtp_layers_is_brought_to_the_llm_alone(
    tmp_path: Path, copies: int
) -> None:
    config = json.loads((CHECKPOINTS / "deepseek-v3" / "config.json").read_text())
    architecture = read_architecture(config, "test")
    weighed = weigh(architecture, config, "test")
    embedding = 2 * 129280 * 7168
    index(tmp_path, int(weighed.total_bytes + weighed.mtp_bytes + copies * embedding))
    weights = read_weights(tmp_path, weighed, architecture)
    assert weights.size_bytes == pytest.approx(weighed.total_bytes, rel=1e-6)
    assert "MTP" in weights.how


def test_an_adapter_is_no_checkpoint(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "adapter_model.safetensors", tensors_of_small())
    assert find_weights(tmp_path) is None


def test_a_dangling_link_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "blobs" / "gone")
    assert find_weights(tmp_path) is None
    assert read(tmp_path).source == "formula"


def test_files_known_by_name_and_size_alone_are_chosen_alike() -> None:
    sizes = {
        "model-00001-of-00002.safetensors": 10,
        "model-00002-of-00002.safetensors": 20,
        "consolidated.safetensors": 30,
        "original/consolidated.00.pth": 30,
        "README.md": 5,
    }
    found = files_elsewhere(sizes)
    assert found is not None
    assert found.size_bytes == 30


def test_a_file_of_random_bytes_is_no_crash(tmp_path: Path) -> None:
    for seed in range(40):
        content = bytes((seed * 37 + i * i * 11) % 256 for i in range(seed * 7))
        (tmp_path / "model.safetensors").write_bytes(content)
        assert read(tmp_path).source == "formula"


def test_a_header_of_odd_json_is_no_crash(tmp_path: Path) -> None:
    for text in (
        "[]",
        "3",
        '{"a": 1}',
        '{"a": {"dtype": 1}}',
        '{"a": {"dtype": "BF16", "shape": [-1]}}',
    ):
        raw = text.encode()
        (tmp_path / "model.safetensors").write_bytes(len(raw).to_bytes(8, "little") + raw)
        assert read(tmp_path).source == "formula"


def test_copies_of_real_folders_agree_with_their_formula(tmp_path: Path) -> None:
    for name in ("devstral-small-2507", "mixtral-8x22b"):
        folder = tmp_path / name
        shutil.copytree(CHECKPOINTS / name, folder)
        config = json.loads((folder / "config.json").read_text())
        weights = read(folder, config)
        assert weights.source == "index"
        assert not weights.warnings


def test_causal_masks_in_a_file_are_no_weights(tmp_path: Path, formula_bytes: int) -> None:
    mask = {"model.layers.0.attn.bias": ("F32", [1, 1, 32, 32])}
    write_safetensors(tmp_path / "model.safetensors", {**tensors_of_small(), **mask})
    weights = read(tmp_path)
    assert weights.size_bytes == formula_bytes
    assert weights.params == formula_bytes // 2
    assert "buffers, not weights" in weights.how


def test_an_encoders_layers_are_not_taken_for_mtp_layers(
    tmp_path: Path, formula_bytes: int
) -> None:
    encoder = {"model.qwen2_model.model.layers.23.mlp.weight": ("BF16", [64, 64])}
    written = write_safetensors(tmp_path / "model.safetensors", {**tensors_of_small(), **encoder})
    weights = read(tmp_path)
    assert (weights.size_bytes, weights.params) == (written, formula_bytes // 2)
    assert weights.mtp_params is None


def test_a_tower_of_the_size_of_mtp_layers_is_not_taken_for_them(tmp_path: Path) -> None:
    config = json.loads((CHECKPOINTS / "deepseek-v3" / "config.json").read_text())
    architecture = read_architecture(config, "test")
    weighed = weigh(architecture, config, "test")
    names = ["model.layers.0.mlp.up_proj.weight", "vision_tower.blocks.0.attn.qkv.weight"]
    content = {
        "metadata": {"total_size": int(weighed.total_bytes + weighed.mtp_bytes)},
        "weight_map": dict.fromkeys(names, "model-00001-of-00002.safetensors"),
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(content))
    weights = read_weights(tmp_path, weighed, architecture)
    assert weights.size_bytes == weighed.total_bytes + weighed.mtp_bytes
    assert any("other modalities" in warning for warning in weights.warnings)


def test_shards_may_be_numbered_behind_an_underscore(tmp_path: Path, formula_bytes: int) -> None:
    half = dict(list(tensors_of_small().items())[:12])
    rest = dict(list(tensors_of_small().items())[12:])
    write_safetensors(tmp_path / "model_00001-of-00002.safetensors", half)
    assert "1 of 2 weight files" in read(tmp_path).warnings[0]
    write_safetensors(tmp_path / "model_00002-of-00002.safetensors", rest)
    weights = read(tmp_path)
    assert (weights.source, weights.size_bytes) == ("files", formula_bytes)


def test_an_absent_dtype_is_told_by_the_files(tmp_path: Path) -> None:
    config = {key: value for key, value in SMALL.items() if key != "torch_dtype"}
    wide = {name: ("F32", shape) for name, (_, shape) in tensors_of_small().items()}
    written = write_safetensors(tmp_path / "model.safetensors", wide)
    spec = llm_from_config(config, name="test", folder=tmp_path).spec
    assert (spec.dtype, spec.weight_bytes) == ("float32", written)
    assert llm_from_config(config, name="test").spec.dtype == "bfloat16"


def test_an_unknown_type_is_refused_with_what_its_files_tell(
    tmp_path: Path, formula_bytes: int
) -> None:
    write_safetensors(tmp_path / "model.safetensors", tensors_of_small())
    config = {**SMALL, "model_type": "neverheard", "architectures": ["NeverHeardForCausalLM"]}
    with pytest.raises(FactsError, match="'neverheard'") as caught:
        llm_from_config(config, name="test", folder=tmp_path)
    assert f"{formula_bytes // 2:,} parameters in {formula_bytes:,} bytes" in caught.value.message
    assert "models_db" in caught.value.remedy


def test_files_that_an_index_lists_belong_together(tmp_path: Path, formula_bytes: int) -> None:
    # fantasylord/Qwen36: model.safetensors and model-mtp.safetensors
    mtp = {"mtp.fc.weight": ("BF16", [64, 128])}
    write_safetensors(tmp_path / "model.safetensors", tensors_of_small())
    extra = write_safetensors(tmp_path / "model-mtp.safetensors", mtp)
    index(tmp_path, 0, ["model.safetensors", "model-mtp.safetensors"])
    weights = read(tmp_path)
    assert (weights.source, weights.size_bytes) == ("files", formula_bytes)
    assert weights.checkpoint_bytes == formula_bytes + extra


def test_of_two_indexes_the_one_with_a_total_counts(tmp_path: Path, formula_bytes: int) -> None:
    index(tmp_path, 0)
    content = {"metadata": {"total_size": formula_bytes}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(content))
    assert read(tmp_path).source == "index"


@pytest.mark.parametrize("tower", [True, False])
def test_a_tower_may_be_larger_than_a_small_llm(
    tmp_path: Path, formula_bytes: int, tower: bool
) -> None:
    config = {**SMALL, **({"vision_config": {"hidden_size": 64}} if tower else {})}
    index(tmp_path, 3 * formula_bytes)
    assert read(tmp_path, config).source == ("index" if tower else "formula")
