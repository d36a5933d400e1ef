"""The facts of a checkpoint as an engine will serve it, read from its files. No torch here."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

from capplan.errors import CheckpointError
from capplan.schema.llm import LlmSpec
from capplan.schema.profile import ProfiledLlm
from capplan.schema.provenance import Kind, Source
from profiler.backends.checkpoints import Checkpoint

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
EXPERT_COUNT_NAMES = ("num_local_experts", "num_experts", "n_routed_experts")
EXPERTS_PER_TOKEN_NAMES = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k")
_FLOATS = {"F64", "F32", "F16", "BF16"}
_NO_PER_HEAD_CACHE = ("kv_lora_rank", "layer_types", "ssm_cfg", "mamba_d_state")
"""Fields of configurations whose cache is not so many bytes a token for every layer."""


def read_config(found: Checkpoint) -> dict[str, Any]:
    """Return the configuration of the language model of a checkpoint."""
    try:
        config = json.loads((found.folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"The configuration of {found.name} cannot be read: {error}.",
            "Give the folder of a complete Hugging Face checkpoint.",
        ) from error
    text: dict[str, Any] = {**config, **config.get("text_config", {})}
    return text


def served_llm(found: Checkpoint, dtype: str, name: str) -> ProfiledLlm:
    """Describe a checkpoint as an engine serves it in a number format."""
    config = read_config(found)
    quantisation = str((config.get("quantization_config") or {}).get("quant_method", ""))
    return ProfiledLlm(
        spec=_spec(found, config, dtype, quantisation, name),
        revision=found.revision,
        weight_sha256=found.sha256(),
        dtype=dtype,
        quantisation=quantisation,
    )


def weight_bytes(found: Checkpoint, dtype: str) -> float:
    """Return the bytes of all weights once floating-point ones are cast to a number format."""
    return sum(_cast_bytes(kind, shape, dtype) for _, kind, shape in _tensors(found))


def kv_bytes_per_token(config: dict[str, Any], dtype: str) -> float | None:
    """Return the KV bytes of one token; None where layers do not all cache keys and values."""
    kinds = set(config.get("layer_types") or ())
    others = [name for name in _NO_PER_HEAD_CACHE if name != "layer_types" and config.get(name)]
    if others or kinds - {"full_attention"}:
        return None
    heads = config.get("num_attention_heads")
    layers, kv_heads = config.get("num_hidden_layers"), config.get("num_key_value_heads") or heads
    if not (heads and layers and kv_heads):
        return None
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    return float(2 * layers * kv_heads * head_dim * DTYPE_BYTES[dtype])


def max_context(found: Checkpoint) -> int | None:
    """Return the longest sequence that the LLM was made for, if it says so."""
    value = read_config(found).get("max_position_embeddings")
    return int(value) if value else None


def _spec(
    found: Checkpoint, config: dict[str, Any], dtype: str, quantisation: str, name: str
) -> LlmSpec:
    tensors = list(_tensors(found))
    total = float(sum(math.prod(shape) for _, _, shape in tensors))
    in_bytes = weight_bytes(found, dtype)
    idle = _idle_share(config)
    of_experts = [t for t in tensors if ".experts." in t[0] and ".shared" not in t[0]]
    idle_params = idle * sum(math.prod(shape) for _, _, shape in of_experts)
    idle_bytes = idle * sum(_cast_bytes(kind, shape, dtype) for _, kind, shape in of_experts)
    return LlmSpec(
        id=name,
        family=str(config.get("model_type", "unknown")),
        params_total=total,
        params_active=total - idle_params,
        weight_bytes=in_bytes,
        weight_bytes_active=in_bytes - idle_bytes,
        layers=int(config["num_hidden_layers"]),
        hidden=int(config["hidden_size"]),
        vocab_size=int(config["vocab_size"]),
        kv_bytes_per_token=kv_bytes_per_token(config, dtype),
        kv_heads=config.get("num_key_value_heads"),
        max_context=max_context(found),
        experts=_first(config, EXPERT_COUNT_NAMES),
        experts_per_token=_first(config, EXPERTS_PER_TOKEN_NAMES),
        dtype=dtype,
        quantisation=quantisation,
        source=Source(
            kind=Kind.MEASURED,
            reference="counted in the checkpoint's files",
            note=f"floating-point weights and KV cache in {dtype}",
        ),
    )


def _idle_share(config: dict[str, Any]) -> float:
    experts = _first(config, EXPERT_COUNT_NAMES)
    per_token = _first(config, EXPERTS_PER_TOKEN_NAMES)
    return 1 - per_token / experts if experts and per_token else 0.0


def _first(config: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((int(config[name]) for name in names if config.get(name)), None)


def _tensors(found: Checkpoint) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return name, stored number format and shape of every tensor, from the files' headers."""
    listed = []
    for path in found.weight_files:
        for name, entry in _header(path).items():
            if name != "__metadata__":
                listed.append((name, str(entry["dtype"]), tuple(entry["shape"])))
    return listed


def _header(path: Path) -> dict[str, Any]:
    # 8 bytes little-endian header length, then the header as JSON; find_checkpoint checked it
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header: dict[str, Any] = json.loads(file.read(length))
    return header


_STORED_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "U32": 4}


def _cast_bytes(kind: str, shape: tuple[int, ...], dtype: str) -> float:
    each = DTYPE_BYTES[dtype] if kind in _FLOATS else _STORED_BYTES.get(kind, 1)
    return float(each * math.prod(shape))
