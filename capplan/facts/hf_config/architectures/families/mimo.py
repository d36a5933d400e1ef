"""MiMo V2: windowed layers with heads, sinks and sizes of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from capplan.facts.hf_config.architectures.blocks import Attention, Mlp, norms
from capplan.facts.hf_config.architectures.layers import after_dense, layer_kinds
from capplan.facts.hf_config.architectures.network import Layer, Network, each
from capplan.facts.hf_config.architectures.recipe import Moe, Recipe, experts, finish, mtp_of
from capplan.facts.hf_config.architectures.shape import MTP, Shape
from capplan.facts.hf_config.fields import Fields

_MOE = Moe(shared_count=("n_shared_experts",), correction=True, sparse=after_dense())
_MTP_LAYERS = 3
"""MTP layers of the released checkpoints, which no field states (vLLM's config for them)."""


def mimo_v2(fields: Fields) -> Network:
    """MiMo V2 Flash."""
    shape = Shape.read(fields)
    windowed = _windowed(fields, shape.layers)
    sparse = _sparse(fields, shape.layers)
    layers = each(partial(_layer, fields, shape), windowed, sparse)
    network = finish(fields, Recipe(moe=_MOE, mtp=False), shape, layers)
    count = fields.optional(*MTP)
    extra = mtp_of(_layer(fields, shape, windowed=True, routed=False), shape.hidden)
    note = f"MTP layers: {_MTP_LAYERS}, as the checkpoints ship and vLLM loads them."
    number = _MTP_LAYERS if count is None else count
    return replace(network, mtp=(extra,) * number).noting(*(() if count is not None else (note,)))


def _windowed(fields: Fields, layers: int) -> tuple[bool, ...]:
    listed = fields.integers("hybrid_layer_pattern")
    if listed:
        if len(listed) < layers:
            raise fields.error("hybrid_layer_pattern", f"one entry for each of {layers} layers")
        return tuple(bool(one) for one in listed[:layers])
    kinds = layer_kinds(fields, layers)
    if kinds:
        return tuple(kind == "sliding_attention" for kind in kinds)
    return tuple(index != 0 and (index + 1) % 6 != 0 for index in range(layers))


def _sparse(fields: Fields, layers: int) -> tuple[bool, ...]:
    if fields.has("mlp_layer_types", "moe_layer_freq"):
        return _MOE.sparse(fields, layers)
    return tuple(index > 0 for index in range(layers))


def _layer(fields: Fields, shape: Shape, windowed: bool, routed: bool) -> Layer:
    mixer = _attention(fields, shape, windowed)
    if routed:
        ffn = experts(fields, _MOE, shape.hidden).pieces()
    else:
        ffn = Mlp(shape.hidden, fields.integer("intermediate_size")).pieces()
    return Layer((*mixer.pieces(), *ffn, norms(shape.hidden, 2)), mixer.cache())


def _attention(fields: Fields, shape: Shape, windowed: bool) -> Attention:
    bias = fields.flag("attention_bias")
    prefix, sink = ("swa_", "add_swa_attention_sink_bias") if windowed else ("", "")
    heads = fields.optional(f"{prefix}num_attention_heads") or shape.heads
    usual = (1 + windowed) * shape.kv_heads  # windowed layers have twice as many
    kv_heads = fields.optional(f"{prefix}num_key_value_heads") or usual
    return Attention(
        hidden=shape.hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=fields.optional(f"{prefix}head_dim") or shape.head_dim,
        v_head_dim=fields.optional(f"{prefix}v_head_dim", "v_head_dim") or shape.head_dim,
        q_bias=bias,
        kv_bias=bias,
        o_bias=False,
        sinks=fields.flag(sink or "add_full_attention_sink_bias", default=windowed),
        window=fields.integer("sliding_window", "sliding_window_size") if windowed else None,
    )


MIMOS: dict[str, Callable[[Fields], Network]] = {"mimo_v2_flash": mimo_v2}
