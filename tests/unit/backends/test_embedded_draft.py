from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file, save_file

from capplan.errors import CheckpointError
from profiler.backends import embedded, embedded_draft
from profiler.backends.embedded_draft import assemble, demo_draft, layers_hash


@pytest.fixture
def target(tmp_path: Path, tiny_llms: Any) -> Path:
    return Path(tiny_llms.save_target(tmp_path / "target", layers=3, tie_word_embeddings=True))


def layers_of(target: Path, numbers: tuple[int, ...], into: Path) -> Path:
    """Some layers of the target in bfloat16, doubled, so that they are not the target's."""
    weights = load_file(target / "model.safetensors")
    chosen = {
        name.replace(f".{old}.", f".{new}."): (2 * tensor).to(torch.bfloat16)
        for new, old in enumerate(numbers)
        for name, tensor in weights.items()
        if name.startswith(f"model.layers.{old}.")
    }
    save_file(chosen, into)
    return into


def test_the_assembled_draft_has_the_trained_layers_and_the_rest_of_the_target(
    target: Path, tmp_path: Path, tiny_llms: Any
) -> None:
    layers = layers_of(target, (0, 2), tmp_path / "layers.safetensors")
    assemble(target, layers, tmp_path / "draft")
    draft = tiny_llms.load(tmp_path / "draft")
    whole = tiny_llms.load(target)
    assert draft.text_config.num_hidden_layers == 2
    assert draft.tokenizer.get_vocab() == whole.tokenizer.get_vocab()
    ours, theirs = draft.model.state_dict(), whole.model.state_dict()
    assert torch.equal(ours["model.embed_tokens.weight"], theirs["model.embed_tokens.weight"])
    assert torch.equal(ours["lm_head.weight"], theirs["model.embed_tokens.weight"])
    trained = load_file(layers)
    assert len(trained) == 18
    for name, tensor in trained.items():
        assert torch.equal(ours[name], tensor.float())
    stored = load_file(tmp_path / "draft" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float32}


def test_layers_of_another_shape_are_refused(target: Path, tmp_path: Path, tiny_llms: Any) -> None:
    other = tiny_llms.save_target(tmp_path / "other", layers=2, intermediate_size=40)
    layers = layers_of(Path(other), (0,), tmp_path / "layers.safetensors")
    with pytest.raises(CheckpointError, match="do not fit the target") as caught:
        assemble(target, layers, tmp_path / "draft")
    assert "train_demo_draft.py" in caught.value.remedy


def test_a_layer_that_lacks_a_tensor_is_refused(target: Path, tmp_path: Path) -> None:
    layers = layers_of(target, (0, 2), tmp_path / "layers.safetensors")
    weights = load_file(layers)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, layers)
    with pytest.raises(CheckpointError, match=r"17 tensors, expected 18.*layers\.1\.mlp\.up"):
        assemble(target, layers, tmp_path / "draft")


def test_another_draft_has_another_name(target: Path, tmp_path: Path) -> None:
    one = layers_of(target, (0,), tmp_path / "one.safetensors")
    other = layers_of(target, (1,), tmp_path / "other.safetensors")
    again = layers_of(target, (0,), tmp_path / "again.safetensors")
    assert layers_hash(one) == layers_hash(again) != layers_hash(other)


def test_an_assembled_draft_is_found_again_and_a_half_one_leaves_nothing(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    target.rename(cache / embedded.FOLDER)
    layers = layers_of(cache / embedded.FOLDER, (0, 2), tmp_path / "layers.safetensors")
    monkeypatch.setattr(embedded_draft, "LAYERS", str(layers))
    folder = demo_draft(cache)
    assert folder.name == f"{embedded_draft.DEMO_DRAFT_ID}-{layers_hash(layers)}"
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 2
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert demo_draft(cache) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    broken = layers_of(cache / embedded.FOLDER, (1,), tmp_path / "broken.safetensors")
    (cache / embedded.FOLDER / "model.safetensors").unlink()
    monkeypatch.setattr(embedded_draft, "LAYERS", str(broken))
    with pytest.raises(Exception, match=r"model\.safetensors"):
        demo_draft(cache)
    assert {child.name for child in cache.iterdir()} == {embedded.FOLDER, folder.name}


def test_an_installation_without_the_layers_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_draft, "LAYERS", "data/demo_draft/gone.safetensors")
    with pytest.raises(CheckpointError, match="not in this installation"):
        demo_draft(tmp_path)
