"""The draft for the demo checkpoint: a few trained layers, completed by the target's own parts.

Only the layers are shipped (``profiler/data/demo_draft``); embeddings, final norm and tokenizer
are the target's, so the draft is put together next to it, as an ordinary Hugging Face folder that
any engine loads. ``tools/train_demo_draft.py`` trains the layers.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from capplan.errors import CheckpointError, StorageError
from profiler.backends.embedded import FOLDER as TARGET_FOLDER, cache_dir, demo_checkpoint

DEMO_DRAFT_ID = "capplan-demo-draft-SmolLM2-135M"
LAYERS = "data/demo_draft/layers.safetensors"
LAYOUT = "v1"
"""Counts the layout of the assembled folder; raise it when that changes."""
WEIGHTS, CONFIG = "model.safetensors", "config.json"
LAYER_PREFIX = "model.layers."
_LAYER_NUMBER = re.compile(r"^model\.layers\.(\d+)\.")


def demo_draft(cache: Path | None = None) -> Path:
    """Return the folder of the demo draft; put it together the first time.

    The folder's name carries a hash of the layers and of what they are completed with: another
    draft is another folder.

    Parameters
    ----------
    cache
        Where to keep it and the target; capplan's folder in the user's cache by default.

    Raises
    ------
    CheckpointError
        The target cannot be fetched, or the shipped layers are missing or not of its shape.
    StorageError
        The folder cannot be written.
    """
    root = cache or cache_dir()
    resource = files("profiler").joinpath(LAYERS)
    if not resource.is_file():
        raise CheckpointError(
            f"The demo draft's layers ({LAYERS}) are not in this installation.",
            "Install capplan from its wheel again, or train them: "
            "python tools/train_demo_draft.py --out DIR.",
        )
    with as_file(resource) as layers:
        folder = root / f"{DEMO_DRAFT_ID}-{layers_hash(layers)}"
        if (folder / CONFIG).is_file():
            return folder
        target = demo_checkpoint(cache)
        try:
            # Aside and at once, so that a killed run leaves no half.
            with tempfile.TemporaryDirectory(dir=root, prefix="draft-") as aside:
                assemble(target, layers, Path(aside) / "whole")
                _publish(Path(aside) / "whole", folder)
        except OSError as error:
            raise StorageError(
                f"The demo draft could not be written to {root}: {error}.",
                "It takes about 180 MB; free space, or set XDG_CACHE_HOME.",
            ) from error
    return folder


def layers_hash(layers: Path) -> str:
    """Return what names a draft: its layers, the target that completes them, and the layout."""
    digest = hashlib.sha256(f"{LAYOUT} {TARGET_FOLDER} ".encode())
    digest.update(layers.read_bytes())
    return digest.hexdigest()[:16]


def assemble(target: Path, layers: Path, folder: Path) -> None:
    """Write a Hugging Face folder of these layers and everything else of the target.

    The number format is that of the target's folder; bfloat16 layers keep their values in it.
    """
    folder.mkdir(parents=True)
    count = _write_weights(target / WEIGHTS, layers, folder / WEIGHTS)
    config = json.loads((target / CONFIG).read_text(encoding="utf-8"))
    (folder / CONFIG).write_text(json.dumps(_shortened(config, count), indent=2), encoding="utf-8")
    for file in target.iterdir():
        if file.is_file() and file.name not in (WEIGHTS, CONFIG):
            shutil.copyfile(file, folder / file.name)


def _write_weights(target: Path, layers: Path, into: Path) -> int:
    """Write the weights and return the number of layers."""
    # Imported here: finding an assembled draft must not cost the import of torch.
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    own = load_file(layers)
    with safe_open(target, framework="pt") as theirs:
        names = list(theirs.keys())
        shapes = {name: tuple(theirs.get_slice(name).get_shape()) for name in names}
        count = _checked_count({name: tuple(t.shape) for name, t in own.items()}, shapes)
        weights = {n: theirs.get_tensor(n) for n in names if not n.startswith(LAYER_PREFIX)}
        dtype = next(iter(weights.values())).dtype
    weights.update({name: tensor.to(dtype) for name, tensor in own.items()})
    save_file(weights, into, metadata={"format": "pt"})
    return count


def _checked_count(own: dict[str, tuple[int, ...]], target: dict[str, tuple[int, ...]]) -> int:
    """Return the number of layers, each of which must look like the target's first."""
    layer = {n: shape for n, shape in target.items() if n.startswith(f"{LAYER_PREFIX}0.")}
    numbers = {int(found.group(1)) for found in map(_LAYER_NUMBER.match, own) if found}
    expected = {
        name.replace(f"{LAYER_PREFIX}0.", f"{LAYER_PREFIX}{number}."): shape
        for number in range(len(numbers))
        for name, shape in layer.items()
    }
    if not own or own != expected:
        differing = sorted(set(own.items()) ^ set(expected.items()))
        raise CheckpointError(
            f"The draft's layers do not fit the target: {len(own)} tensors, expected "
            f"{len(expected)}; the first that differs is {differing[0] if differing else 'none'}.",
            "Train the layers for this target: python tools/train_demo_draft.py --out DIR.",
        )
    return len(numbers)


def _shortened(config: dict[str, Any], layers: int) -> dict[str, Any]:
    short = {**config, "num_hidden_layers": layers}
    if isinstance(config.get("layer_types"), list):
        short["layer_types"] = config["layer_types"][:layers]
    # Where the target was converted says nothing about the draft.
    short.pop("_name_or_path", None)
    short["_model_name_or_path"] = DEMO_DRAFT_ID
    return short


def _publish(whole: Path, folder: Path) -> None:
    try:
        whole.rename(folder)
    except OSError:
        # Somebody else was faster; a folder that is complete is as good as ours.
        if not (folder / CONFIG).is_file():
            raise
