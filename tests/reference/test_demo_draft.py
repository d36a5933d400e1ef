"""The draft that is shipped for the demo checkpoint: real weights, put together and tried."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from capplan.errors import CheckpointError
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.embedded_draft import LAYERS, assemble, demo_draft
from profiler.backends.torch_local import TorchBackend
from profiler.prompts import embedded_prompts
from profiler.protocol import Generation, LoadRequest, SamplingPoint

COLD = SamplingPoint(temperature=0.0, max_tokens=32, seed=0)
LARGEST_FILE_BYTES = 30e6

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def target() -> Path:
    try:
        return demo_checkpoint()
    except CheckpointError as error:  # no network and nothing cached: nothing to test with
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def draft(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A cache of its own, so that the draft is put together here and now.
    cache = tmp_path_factory.mktemp("cache")
    (cache / target.name).symlink_to(target, target_is_directory=True)
    return demo_draft(cache)


@pytest.fixture(scope="module")
def shipped() -> Path:
    return Path(str(files("profiler").joinpath(LAYERS)))


def agreement(backend: TorchBackend, written: list[Generation]) -> float:
    return float(np.mean(backend.trace(written, COLD).arrays["accept_greedy"]))


def loaded(target: Path, draft: Path) -> TorchBackend:
    backend = TorchBackend()
    backend.load(LoadRequest(str(target), str(draft), device="cpu"))
    return backend


def test_the_shipped_layers_are_small_and_their_making_is_told(shipped: Path) -> None:
    assert shipped.stat().st_size <= LARGEST_FILE_BYTES
    with safe_open(shipped, framework="pt") as file:
        made_from = file.metadata()
    assert json.loads(made_from["recipe"])["layers"]
    assert int(made_from["tokens"]) > 100_000
    card = shipped.with_name("README.md").read_text(encoding="utf-8")
    assert "Apache-2.0" in card
    assert f"{int(made_from['tokens']):,} tokens" in card


def test_the_draft_is_the_shipped_layers_and_the_rest_of_the_target(
    target: Path, draft: Path, shipped: Path
) -> None:
    layers = load_file(shipped)
    weights = load_file(draft / "model.safetensors")
    theirs = load_file(target / "model.safetensors")
    assert {name for name in weights if name.startswith("model.layers.")} == set(layers)
    for name, tensor in weights.items():
        expected = layers[name].float() if name in layers else theirs[name]
        assert torch.equal(tensor, expected), name
    config = json.loads((draft / "config.json").read_text(encoding="utf-8"))
    of_target = json.loads((target / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["num_hidden_layers"] == len({name.split(".")[2] for name in layers})
    for name in ("vocab_size", "tie_word_embeddings", "rope_parameters", "hidden_size"):
        assert config[name] == of_target[name]
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (draft / name).read_bytes() == (target / name).read_bytes()


def test_the_draft_foretells_what_an_untrained_copy_cannot(
    target: Path, draft: Path, shipped: Path, tmp_path: Path
) -> None:
    backend = loaded(target, draft)
    prompts = [backend.encode(group[0].text) for group in embedded_prompts().by_task.values()]
    written = backend.generate(prompts, COLD)
    assert agreement(backend, written) >= 0.3
    untrained = untrained_layers(target, shipped, tmp_path / "layers.safetensors")
    assemble(target, untrained, tmp_path / "untrained")
    assert agreement(loaded(target, tmp_path / "untrained"), written) < 0.1


def untrained_layers(target: Path, shipped: Path, into: Path) -> Path:
    """The target's own layers that the training started from."""
    weights = load_file(target / "model.safetensors")
    with safe_open(shipped, framework="pt") as file:
        started_from = json.loads(file.metadata()["recipe"])["layers"]
    start: dict[str, Any] = {
        name.replace(f".{old}.", f".{new}."): tensor.to(torch.bfloat16)
        for new, old in enumerate(started_from)
        for name, tensor in weights.items()
        if name.startswith(f"model.layers.{old}.")
    }
    save_file(start, into)
    return into


def test_speculation_with_the_draft_writes_the_targets_text(target: Path, draft: Path) -> None:
    backend = loaded(target, draft)
    prompt = backend.encode("Name three fruits and say which of them is red.")
    outcome = backend.run_rounds([prompt], COLD, 3, None)
    assert outcome.identical_outputs == 1
    assert outcome.accepted > 0


def test_the_layers_and_their_card_are_in_the_wheel(tmp_path: Path) -> None:
    hatchling = pytest.importorskip("hatchling.builders.wheel")
    root = Path(__file__).parents[2]
    builder = hatchling.WheelBuilder(str(root))
    included = {file.distribution_path for file in builder.recurse_included_files()}
    assert f"profiler/{LAYERS}" in included
    assert "profiler/data/demo_draft/README.md" in included
    assert shutil.which("git") is None or "layers.safetensors" not in (
        (root / ".gitignore").read_text(encoding="utf-8")
    )
