"""The facts of a loaded LLM, counted rather than looked up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import ProfiledLlm
from capplan.schema.provenance import Kind, Source
from profiler.backends.checkpoints import Checkpoint
from profiler.backends.torch_llm import TorchLlm

EXPERT_COUNT_NAMES = ("num_local_experts", "num_experts", "n_routed_experts")
EXPERTS_PER_TOKEN_NAMES = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k")


def profiled_llm(llm: TorchLlm, found: Checkpoint, dummy_weights: bool) -> ProfiledLlm:
    """Describe a checkpoint as it was loaded."""
    return ProfiledLlm(
        spec=llm_spec(llm, dummy_weights),
        revision=found.revision,
        weight_sha256="" if dummy_weights else found.sha256(),
        weights="dummy" if dummy_weights else "real",
        dtype=dtype_name(llm),
        quantisation=f"gguf {_gguf_type(found.gguf)}" if found.gguf else "",
    )


def llm_spec(llm: TorchLlm, dummy_weights: bool) -> LlmSpec:
    """Count parameters and bytes; read the rest from the configuration."""
    config = llm.text_config
    experts = _first(config, EXPERT_COUNT_NAMES)
    per_token = _first(config, EXPERTS_PER_TOKEN_NAMES)
    total = _parameters(llm)
    share_idle = 1 - per_token / experts if experts and per_token else 0.0
    idle = share_idle * _parameters(llm, of_experts=True)
    item_bytes = llm.dtype.itemsize
    weights = "random weights of its configuration" if dummy_weights else "the loaded checkpoint"
    return LlmSpec(
        id=llm.name,
        family=config.model_type,
        params_total=total,
        params_active=total - idle,
        weight_bytes=weight_bytes(llm),
        weight_bytes_active=weight_bytes(llm) - idle * item_bytes,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        vocab_size=llm.vocab_size,
        kv_bytes_per_token=kv_bytes_per_token(llm),
        kv_heads=getattr(config, "num_key_value_heads", None),
        max_context=max_context(llm),
        experts=experts,
        experts_per_token=per_token,
        dtype=dtype_name(llm),
        source=Source(
            kind=Kind.MEASURED,
            reference=f"counted on {weights}",
            note=f"weights and KV cache in {dtype_name(llm)}",
        ),
    )


def weight_bytes(llm: TorchLlm) -> int:
    """Return the bytes of all parameters, tied ones once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in llm.model.parameters())


@torch.inference_mode()
def kv_bytes_per_token(llm: TorchLlm) -> int:
    """Return what the cache really holds for one token, from a pass of one token."""
    cache = llm.new_cache(1)
    llm.forward(llm.tensor([[0]]), cache, 1)
    return cache.bytes_per_token


def max_context(llm: TorchLlm) -> int:
    """Return the longest sequence the LLM was made for."""
    return int(llm.text_config.max_position_embeddings)


def dtype_name(llm: TorchLlm) -> str:
    """Return the number format without torch's prefix."""
    return str(llm.dtype).removeprefix("torch.")


def _parameters(llm: TorchLlm, of_experts: bool = False) -> int:
    return sum(
        tensor.numel()
        for name, tensor in llm.model.named_parameters()
        if not of_experts or (".experts." in name and ".shared" not in name)
    )


def _first(config: Any, names: tuple[str, ...]) -> int | None:
    values = (getattr(config, name, None) for name in names)
    return next((int(value) for value in values if value), None)


def _gguf_type(path: Path) -> str:
    """Name the type that holds most of the bytes, for example ``Q4_1``."""
    from gguf import GGUFReader

    bytes_by_type: dict[str, int] = {}
    for tensor in GGUFReader(path).tensors:
        name = tensor.tensor_type.name
        bytes_by_type[name] = bytes_by_type.get(name, 0) + int(tensor.n_bytes)
    return max(bytes_by_type, key=lambda name: bytes_by_type[name])
