"""Turn a GGUF file into a folder that loads in a second instead of half a minute."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from profiler.backends.checkpoints import find_checkpoint
from profiler.backends.torch_loading import load_llm, quiet_transformers


def gguf_to_folder(gguf: Path, folder: Path) -> None:
    """Write the dequantised weights, configuration and tokenizer of a GGUF file.

    The weights are float32, the type in which the quantised values are exact.
    """
    llm = load_llm(find_checkpoint(str(gguf)), torch.device("cpu"), torch.float32)
    folder.mkdir(parents=True, exist_ok=True)
    model = llm.model
    # ``save_pretrained`` refuses an LLM that came from GGUF, although nothing is quantised any
    # more. Tied tensors share memory and are written once; loading ties them again.
    tied = set(model._tied_weights_keys or ()) if model.config.tie_word_embeddings else set()
    weights = {
        name: tensor.contiguous()
        for name, tensor in model.state_dict().items()
        if name not in tied
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    config["architectures"] = [type(model).__name__]
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    with quiet_transformers():
        model.generation_config.save_pretrained(folder)
        if llm.tokenizer is not None:
            llm.tokenizer.save_pretrained(folder)
