"""Small random LLMs with a real tokenizer: real code paths at a thousandth of the cost."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from profiler.backends.checkpoints import find_checkpoint
from profiler.backends.torch_loading import load_llm

# A matrix of 32 columns is no work for two threads, and waking them costs more than it.
torch.set_num_threads(1)

if TYPE_CHECKING:
    from pathlib import Path

    from profiler.backends.torch_llm import TorchLlm


def save_tokenizer(folder: Path, vocab: int, prefix: str = "w") -> None:
    """Write a word-level tokenizer whose words are ``w0`` ... and whose last word ends a text."""
    words = {f"{prefix}{number}": number for number in range(vocab)}
    core = Tokenizer(models.WordLevel(words, unk_token=f"{prefix}0"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token=f"{prefix}0", eos_token=f"{prefix}{vocab - 1}"
    ).save_pretrained(folder)


def save_target(
    folder: Path, vocab: int = 64, layers: int = 3, seed: int = 0, **config: Any
) -> Path:
    """Write a Llama whose weights are wide enough that its text does not repeat one token."""
    torch.manual_seed(seed)
    settings = {
        "vocab_size": vocab,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.25,
        "bos_token_id": None,
        "eos_token_id": vocab - 1,
        "tie_word_embeddings": False,
    }
    model = LlamaForCausalLM(LlamaConfig(**{**settings, **config}))
    model.save_pretrained(folder)
    save_tokenizer(folder, vocab)
    return folder


def save_draft(target: Path, folder: Path) -> Path:
    """Write the target without its last layer: a draft that honestly agrees with it at times."""
    model = AutoModelForCausalLM.from_pretrained(target)
    model.model.layers = model.model.layers[:-1]
    model.config.num_hidden_layers -= 1
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(target / name, folder / name)
    return folder


def load(folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> TorchLlm:
    """Load a saved LLM the way the backend does."""
    return load_llm(find_checkpoint(str(folder)), torch.device(device), dtype)


def pair(folder: Path, **config: Any) -> tuple[TorchLlm, TorchLlm]:
    """Return a loaded target and its truncated draft."""
    target = save_target(folder / "target", **config)
    return load(target), load(save_draft(target, folder / "draft"))


def prompts(count: int, vocab: int = 64, seed: int = 1) -> list[tuple[int, ...]]:
    """Return random prompts of 3 to 20 tokens without the end token."""
    source = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 21, (count,), generator=source).tolist()
    return [
        tuple(torch.randint(vocab - 1, (length,), generator=source).tolist()) for length in lengths
    ]


def save_gguf(folder: Path, target: Path) -> Path:
    """Write a saved Llama as a GGUF file, tensor names and rotary order as llama.cpp has them."""
    import gguf

    model = AutoModelForCausalLM.from_pretrained(target)
    config = model.config
    path = folder / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    words = json.loads((target / "tokenizer.json").read_text())["model"]["vocab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(list(words))
    writer.add_token_types([1] * len(words))
    writer.add_token_scores([0.0] * len(words))
    writer.add_eos_token_id(config.eos_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        values = tensor
        for part, count in heads.items():
            if part in name:
                rows = tensor.shape[0] // count // 2
                values = tensor.reshape(count, 2, rows, -1).swapaxes(1, 2).reshape(tensor.shape)
        writer.add_tensor(
            names.get_name(name, try_suffixes=(".weight",)), values.contiguous().numpy()
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
