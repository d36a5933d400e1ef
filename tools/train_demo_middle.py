"""Grow the shipped demo draft into a middle LLM for three-tier drafting, and train it a little.

The shipped draft's four layers stay at both ends; layers of the target go between them with
their output projections set to zero, so that the grown LLM begins by saying exactly what the
draft says and can only learn from there. Text: that of ``tools/train_demo_draft.py``.

Usage: ``python tools/train_demo_middle.py --text DIR/text --out DIR``
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import torch  # noqa: E402 # the number of threads is read when torch is imported
from demo_draft.data import read_all  # noqa: E402
from demo_draft.train import Recipe, Trainer  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from train_demo_draft import (  # noqa: E402
    HELD_BACK_ROWS,
    LAYERS_FILE,
    REPORT_EVERY,
    load_target,
    save_layers,
)

SHIPPED = HERE.parent / "profiler" / "data" / "demo_draft" / LAYERS_FILE
BETWEEN = (4, 8, 12, 16, 20, 24)
"""The target's layers that are put between the draft's."""
SAVE_EVERY = 40


def grow(draft: Any, shipped: Path) -> None:
    """Give an LLM of ten target layers the shipped draft's ends and silent layers between."""
    layers = draft.model.layers
    weights = load_file(shipped)
    count = len({name.split(".")[2] for name in weights})
    first = count // 2
    places = [*range(first), *range(len(layers) - (count - first), len(layers))]
    for number, place in enumerate(places):
        prefix = f"model.layers.{number}."
        own = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        layers[place].load_state_dict({name: tensor.float() for name, tensor in own.items()})
    with torch.no_grad():
        for layer in layers[first : len(layers) - (count - first)]:
            # A residual block that adds nothing: the layers around it do not notice.
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="chunks that the target wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder of the layers")
    parser.add_argument("--minutes", type=float, default=15.0, help="of processor time")
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    return parser.parse_args()


def main() -> None:
    """Train, and write the layers as the shipped draft's are written."""
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    model, _ = load_target()
    rows = list(read_all(given.text))
    held_back, learnt = rows[: HELD_BACK_ROWS * 4 : 4], rows[HELD_BACK_ROWS * 4 :]
    recipe = Recipe(
        layers=(0, 1, *BETWEEN, 28, 29),
        epochs=1,
        minutes=given.minutes,
        learning_rate=given.learning_rate,
        warm_up_steps=20,
    )
    torch.manual_seed(recipe.seed)
    trainer = Trainer(model, learnt, recipe)
    grow(trainer.draft, SHIPPED)
    save_layers(trainer.draft, recipe, learnt, held_back, given.out)
    losses: list[float] = []

    def report(step: int, progress: float, loss: float) -> None:
        losses.append(loss)
        if step % REPORT_EVERY == REPORT_EVERY - 1:
            mean = sum(losses[-REPORT_EVERY:]) / REPORT_EVERY
            print(f"train: step {step + 1}, {progress:.0%}, loss {mean:.3f}", flush=True)
        if step % SAVE_EVERY == SAVE_EVERY - 1:
            save_layers(trainer.draft, recipe, learnt, held_back, given.out)

    # The schedule runs on processor time: on a shared machine the wall clock says little.
    time.monotonic = time.process_time
    trainer.run(report)
    save_layers(trainer.draft, recipe, learnt, held_back, given.out)


if __name__ == "__main__":
    main()
