"""The three LLMs of ``three_tiers.py``: the demo target, one between and the smallest draft."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from profiler.backends.checkpoints import find_checkpoint
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.embedded_draft import WEIGHTS, assemble, demo_draft
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_loading import load_llm, quiet_transformers
from profiler.prompts import embedded_prompts


def without_layers(target: Path, left_out: Sequence[int], into: Path) -> Path:
    """Write the target's layers but some, renumbered, as one file of layers."""
    kept: dict[str, torch.Tensor] = {}
    with safe_open(target / WEIGHTS, framework="pt") as weights:
        every = weights.keys()  # a safetensors handle is no mapping: it has no __iter__
        names = [name for name in every if name.startswith("model.layers.")]
        numbers = sorted({int(name.split(".")[2]) for name in names} - set(left_out))
        for place, number in enumerate(numbers):
            prefix = f"model.layers.{number}."
            for name in names:
                if name.startswith(prefix):
                    kept[f"model.layers.{place}.{name.removeprefix(prefix)}"] = weights.get_tensor(
                        name
                    )
    save_file(kept, into, metadata={"format": "pt"})
    return into


@torch.inference_mode()
def idlest_layers(llm: TorchLlm, prompt: Sequence[int], count: int) -> list[int]:
    """Return the layers that turn the state least: ShortGPT's block influence, arXiv:2403.03853.

    The first and the last two stay: what they do is not seen in the angle.
    """
    passed = llm.model(input_ids=llm.tensor([prompt]), output_hidden_states=True, use_cache=False)
    states = passed.hidden_states
    turned = [
        float(1.0 - torch.cosine_similarity(before, after, dim=-1).mean())
        for before, after in pairwise(states)
    ]
    return sorted(sorted(range(1, len(turned) - 2), key=turned.__getitem__)[:count])


def load_three(layers: Path | None, left_out: int, aside: Path) -> tuple[list[TorchLlm], str]:
    """Load target, middle and small LLM, and say what the middle one is."""
    device, dtype = torch.device("cpu"), torch.float32
    folder = demo_checkpoint()
    with quiet_transformers():
        target = load_llm(find_checkpoint(str(folder)), device, dtype)
        words = "trained"
        if layers is None:
            idle = idlest_layers(target, prompts_of(target, 1)[0], left_out)
            layers = without_layers(folder, idle, aside / "layers.safetensors")
            words = f"the target without layers {', '.join(map(str, idle))}"
        assemble(folder, layers, aside / "middle")
        drafts = [
            load_llm(find_checkpoint(str(one)), device, dtype)
            for one in (aside / "middle", demo_draft())
        ]
    return [target, *drafts], words


def prompts_of(llm: TorchLlm, count: int) -> list[tuple[int, ...]]:
    """Return prompts of all tasks in turn."""
    by_task = embedded_prompts().by_task.values()
    texts = [prompt.text for prompts in zip(*by_task, strict=True) for prompt in prompts]
    return [_encode(llm, text) for text in texts[:count]]


def _encode(llm: TorchLlm, text: str) -> tuple[int, ...]:
    assert llm.tokenizer is not None, "the demo checkpoint has one"
    chat = [{"role": "user", "content": text}]
    ids = llm.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    return tuple(ids)
