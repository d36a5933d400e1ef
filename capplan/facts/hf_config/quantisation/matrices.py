"""The matrices behind a part, by the names that quantisation settings use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from capplan.facts.hf_config.fields import Fields
from capplan.facts.hf_config.parts import Architecture, Part

_MLP: Mapping[str, float] = {"gate_proj": 1.0, "up_proj": 1.0, "down_proj": 1.0}
_LEAVES: Mapping[str, Mapping[str, float]] = {
    "routed experts": {f"0.{name}": share for name, share in _MLP.items()},
    "shared experts": _MLP,
    "MLP": _MLP,
    # Gated DeltaNet: queries, keys, values and the gate are read by one matrix or by two
    "linear attention": {"in_proj_qkv": 2.0, "in_proj_z": 1.0, "out_proj": 1.0},
    "state space": {"in_proj": 2.0, "out_proj": 1.0},
}
"""Matrices of a part and their sizes relative to each other."""

_TYPE_MODULES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "gemma4": {"routed experts": ("experts",), "router": ("router",)},
    "nemotron_h": {
        **dict.fromkeys(("attention", "state space", "MLP"), ("mixer",)),
        "routed experts": ("mixer.experts",),
        "shared experts": ("mixer.shared_experts",),
        "router": ("mixer.gate",),
    },
}
"""Names of parts in families that call them otherwise, by the beginning of the type."""

_PATTERN_LETTERS: Mapping[str, str] = {
    "state space": "M",
    "attention": "*",
    "MLP": "-",
    **dict.fromkeys(("routed experts", "shared experts", "router"), "E"),
}
"""What a part is in Nemotron's ``hybrid_override_pattern``, one letter a layer."""

_ROUTED = frozenset({"routed experts", "shared experts", "router"})
_LINEAR = frozenset({"linear attention", "short convolution", "state space"})
_OUTSIDE = frozenset({"token embedding", "output layer", "projections", "per-layer embedding"})


@dataclass(frozen=True)
class Matrix:
    """A share of a part's parameters, with the names it may go by."""

    names: tuple[str, ...]
    share: float
    """Fraction of the part's parameters, 0 to 1."""


def matrices_of(part: Part, architecture: Architecture, fields: Fields) -> tuple[Matrix, ...]:
    """Return the matrices of a part, layer by layer.

    The layers that hold a part are taken from the configuration's own lists (dense first
    layers, layer types); without them every layer does.
    """
    modules = _modules(part, architecture)
    if part.name in _OUTSIDE:
        return (Matrix(modules, 1.0),)
    leaves = _leaves(part, fields)
    layers = _layers_with(part, architecture.layers, fields)
    whole = sum(leaves.values()) * len(layers)
    return tuple(
        Matrix(tuple(_names(modules, layer, leaf)), share / whole)
        for layer in layers
        for leaf, share in leaves.items()
    )


def mtp_matrices(part: Part, architecture: Architecture, fields: Fields) -> tuple[Matrix, ...]:
    """Return the matrices of an MTP layer's part: numbered after the layers, or under ``mtp``."""
    modules = _modules(part, architecture)
    leaves = _leaves(part, fields)
    layers = range(architecture.layers, architecture.layers + max(architecture.mtp_layers, 1))
    whole = sum(leaves.values()) * len(layers)
    found = []
    for number, layer in enumerate(layers):
        for leaf, share in leaves.items():
            names = (*_names(modules, layer, leaf), *_names(modules, number, leaf, "mtp."))
            found.append(Matrix(names, share / whole))
    return tuple(found)


def _modules(part: Part, architecture: Architecture) -> tuple[str, ...]:
    for beginning, names in _TYPE_MODULES.items():
        if architecture.model_type.startswith(beginning) and part.name in names:
            return names[part.name]
    return part.modules or (part.name,)


def _names(modules: tuple[str, ...], layer: int, leaf: str, before: str = "") -> Iterator[str]:
    for module in modules:
        yield f"{before}layers.{layer}.{module}" + (f".{leaf}" if leaf else "")


def _leaves(part: Part, fields: Fields) -> Mapping[str, float]:
    if part.name == "attention":
        return _attention_leaves(fields)
    return _LEAVES.get(part.name, {"": 1.0})


def _attention_leaves(fields: Fields) -> Mapping[str, float]:
    """Return the sizes of the attention's matrices relative to the hidden size."""
    heads = fields.optional("num_attention_heads", "n_head") or 1
    latent = fields.optional("kv_lora_rank")
    hidden = fields.optional("hidden_size", "n_embd", "d_model") or heads
    if latent:
        return _latent_leaves(fields, heads, latent, hidden)
    kv_heads = fields.optional("num_key_value_heads") or heads
    return {"q_proj": heads, "k_proj": kv_heads, "v_proj": kv_heads, "o_proj": heads}


def _latent_leaves(fields: Fields, heads: int, latent: int, hidden: int) -> Mapping[str, float]:
    turned = fields.optional("qk_rope_head_dim") or 0
    query = (fields.optional("qk_nope_head_dim") or 0) + turned
    value = fields.optional("v_head_dim") or query
    keys = heads * latent * ((fields.optional("qk_nope_head_dim") or 0) + value)
    rank = fields.optional("q_lora_rank")
    queries = (
        {"q_proj": hidden * heads * query}
        if not rank
        else {"q_a_proj": hidden * rank, "q_b_proj": rank * heads * query}
    )
    sizes = {
        **queries,
        "kv_a_proj_with_mqa": hidden * (latent + turned),
        "kv_b_proj": keys,
        "o_proj": heads * value * hidden,
    }
    return {name: float(size) for name, size in sizes.items() if size}


def _layers_with(part: Part, layers: int, fields: Fields) -> tuple[int, ...]:
    """Return the numbers of the layers that hold the part; all if the lists do not say."""
    dense = _dense_layers(layers, fields)
    pattern = fields.text("hybrid_override_pattern")
    if len(pattern) == layers and part.name in _PATTERN_LETTERS:
        letter = _PATTERN_LETTERS[part.name]
        found = tuple(layer for layer in range(layers) if pattern[layer] == letter)
    elif part.name in _ROUTED:
        found = tuple(layer for layer in range(layers) if layer not in dense)
    elif part.name == "MLP" and dense:
        found = tuple(sorted(dense))
    else:
        found = _layers_of_kind(part, layers, fields)
    return found or tuple(range(layers))


def _dense_layers(layers: int, fields: Fields) -> frozenset[int]:
    leading = fields.optional("first_k_dense_replace") or 0
    named = fields.integers("mlp_only_layers")
    return frozenset(layer for layer in (*range(min(leading, layers)), *named) if layer < layers)


def _layers_of_kind(part: Part, layers: int, fields: Fields) -> tuple[int, ...]:
    kinds = fields.texts("layer_types")
    if len(kinds) != layers or "linear_attention" not in kinds:
        return tuple(range(layers))
    if part.name in _LINEAR:
        return tuple(i for i, kind in enumerate(kinds) if kind == "linear_attention")
    if part.name == "attention":
        return tuple(i for i, kind in enumerate(kinds) if kind != "linear_attention")
    return tuple(range(layers))
