"""The facts of a checkpoint as an engine will serve it, read from its files. No torch here."""

from __future__ import annotations

import math
from typing import Any

from capplan.errors import CheckpointError, UnreadableFileError
from capplan.inputs.documents import read_json
from capplan.inputs.limits import CONFIG
from capplan.inputs.safetensors import read_tensors
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import ProfiledLlm
from capplan.schema.provenance import Kind, Source
from profiler.backends.checkpoints import Checkpoint

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
EXPERT_COUNT_NAMES = ("num_local_experts", "num_experts", "n_routed_experts")
EXPERTS_PER_TOKEN_NAMES = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k")
_LARGEST = 10**12
_FLOATS = {"F64", "F32", "F16", "BF16"}
_NO_PER_HEAD_CACHE = ("kv_lora_rank", "layer_types", "ssm_cfg", "mamba_d_state")
"""Fields of configurations whose cache is not so many bytes a token for every layer."""


def read_config(found: Checkpoint) -> dict[str, Any]:
    """Return the configuration of the language model of a checkpoint."""
    try:
        config = read_json(found.folder / "config.json", CONFIG, finite=False, bounded=False)
    except UnreadableFileError as error:
        raise _unusable(found, f"cannot be read: {error.reason}") from error
    if not isinstance(config, dict):
        raise _unusable(found, f"is a {type(config).__name__}, expected an object")
    text = config.get("text_config")
    return {**config, **text} if isinstance(text, dict) else config


def _unusable(found: Checkpoint, why: str) -> CheckpointError:
    return CheckpointError(
        f"The configuration of {found.name} {why}.",
        "Give the folder of a complete Hugging Face checkpoint.",
    )


def served_llm(found: Checkpoint, dtype: str, name: str) -> ProfiledLlm:
    """Describe a checkpoint as an engine serves it in a number format."""
    config = read_config(found)
    settings = config.get("quantization_config")
    quantisation = str(settings.get("quant_method", "")) if isinstance(settings, dict) else ""
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
    kinds = set(map(str, _listed(config.get("layer_types"))))
    others = [name for name in _NO_PER_HEAD_CACHE if name != "layer_types" and config.get(name)]
    if others or kinds - {"full_attention"}:
        return None
    heads, layers = size(config, "num_attention_heads"), size(config, "num_hidden_layers")
    kv_heads = size(config, "num_key_value_heads") or heads
    if not (heads and layers and kv_heads):
        return None
    head_dim = size(config, "head_dim") or needed(config, "hidden_size") // heads
    return float(2 * layers * kv_heads * head_dim * DTYPE_BYTES[dtype])


def max_context(found: Checkpoint) -> int | None:
    """Return the longest sequence that the LLM was made for, if it says so."""
    return size(read_config(found), "max_position_embeddings")


def size(config: dict[str, Any], name: str) -> int | None:
    """Return a size that a configuration states; None where it does not.

    Raises
    ------
    CheckpointError
        If something else than a size stands there.
    """
    value = config.get(name)
    if value is None or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < _LARGEST:
        raise CheckpointError(
            f"config.json says {name} {value!r:.40}, expected a whole number from 1 on.",
            "Take the configuration from the checkpoint's own repository.",
        )
    return int(value)


def needed(config: dict[str, Any], name: str) -> int:
    """Return a size without which nothing can be said of an LLM; errors as in :func:`size`."""
    value = size(config, name)
    if value is None:
        raise CheckpointError(
            f"config.json says nothing of {name}.",
            "Take the configuration from the checkpoint's own repository.",
        )
    return value


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


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
        layers=needed(config, "num_hidden_layers"),
        hidden=needed(config, "hidden_size"),
        vocab_size=needed(config, "vocab_size"),
        kv_bytes_per_token=kv_bytes_per_token(config, dtype),
        kv_heads=size(config, "num_key_value_heads"),
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
    return max(1 - per_token / experts, 0.0) if experts and per_token else 0.0


def _first(config: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := size(config, name))), None)


def _tensors(found: Checkpoint) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return name, stored number format and shape of every tensor, from the files' headers."""
    listed = []
    for path in found.weight_files:
        try:
            tensors = read_tensors(path).tensors
        except UnreadableFileError as error:
            raise CheckpointError(
                f"{path.name} cannot be read: {error.reason}.", error.remedy
            ) from error
        listed += [(name, one.dtype, one.shape) for name, one in tensors.items()]
    return listed


_STORED_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "U32": 4}


def _cast_bytes(kind: str, shape: tuple[int, ...], dtype: str) -> float:
    each = DTYPE_BYTES[dtype] if kind in _FLOATS else _STORED_BYTES.get(kind, 1)
    return float(each * math.prod(shape))
