"""Gemma 3n and 4: heads of two sizes, shared caches, embeddings for every layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from capplan.facts.hf_config.architectures.blocks import Attention, Experts, Mlp, norms
from capplan.facts.hf_config.architectures.layers import all_but_every, by_kind
from capplan.facts.hf_config.architectures.network import Layer, Network, Piece, Sum, each, size
from capplan.facts.hf_config.architectures.recipe import Recipe, finish
from capplan.facts.hf_config.architectures.shape import EXPERTS, USED, Shape
from capplan.facts.hf_config.fields import Fields

_GLOBAL_HEAD_DIM = 512
"""Size of a full layer's heads where no field states it, as in transformers."""


def _windows(fields: Fields, layers: int, period: int) -> list[int | None]:
    return list(by_kind(all_but_every(period))(fields, layers))


def _own_kv(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Return which layers compute keys and values; the last ones reuse earlier layers'."""
    shared = fields.optional("num_kv_shared_layers") or 0
    return tuple(index < layers - shared for index in range(layers))


def _per_layer(fields: Fields, hidden: int) -> tuple[Piece, ...]:
    """Return one layer's share of the per-layer embeddings."""
    width = fields.optional("hidden_size_per_layer_input") or 0
    return (
        Piece("per-layer gates", size(hidden, width) + size(width, hidden)),
        norms(hidden, 1 if width else 0),
    )


def _per_layer_outer(fields: Fields, shape: Shape) -> tuple[Piece, ...]:
    width = fields.optional("hidden_size_per_layer_input") or 0
    if not width:
        return ()
    rows = fields.integer("vocab_size_per_layer_input")
    return (
        Piece("per-layer embedding", size(rows, shape.layers * width)),
        Piece("projections", size(shape.hidden, shape.layers * width)),
        Piece("norms", size(width)),
    )


def gemma4(fields: Fields) -> Network:
    """Gemma 4: full attention on every sixth layer, with larger and fewer heads."""
    shape = Shape.read(fields)
    windows = _windows(fields, shape.layers, 6)
    windows[-1] = None  # the last layer is always full
    own = _own_kv(fields, shape.layers)
    heads = tuple(_heads(fields, shape, index, windows[index]) for index in range(shape.layers))
    layers = each(partial(_gemma4_layer, fields, shape), windows, own, heads)
    extra = _per_layer_outer(fields, shape)
    network = finish(fields, Recipe(mtp=False), shape, layers, extra=extra)
    sparse = fields.flag("enable_moe_block")
    return replace(
        network,
        experts=fields.integer(*EXPERTS) if sparse else None,
        experts_per_token=fields.integer(*USED) if sparse else None,
    )


def _heads(fields: Fields, shape: Shape, index: int, window: int | None) -> tuple[int, int]:
    """Return the size and the number of a layer's KV heads.

    Newer files list layers that differ in ``per_layer_config``, older ones state the heads of
    all full layers in ``global_head_dim`` and ``num_global_key_value_heads``.
    """
    listed = fields.value("per_layer_config")
    if isinstance(listed, Mapping):
        key = next((key for key in listed if str(key).isdigit() and int(key) == index), "")
        one = fields.inner("per_layer_config").inner(key)
        return (
            one.optional("head_dim") or shape.head_dim,
            one.optional("num_key_value_heads") or shape.kv_heads,
        )
    if window is not None:
        return shape.head_dim, shape.kv_heads
    kv_heads = shape.kv_heads
    if fields.flag("attention_k_eq_v", default=True):
        kv_heads = fields.optional("num_global_key_value_heads") or kv_heads
    return fields.optional("global_head_dim") or _GLOBAL_HEAD_DIM, kv_heads


def _gemma4_layer(
    fields: Fields, shape: Shape, window: int | None, owns: bool, heads: tuple[int, int]
) -> Layer:
    mixer = _gemma4_attention(fields, shape, window, owns, heads)
    wide = 2 if fields.flag("use_double_wide_mlp") and not owns else 1
    dense = Mlp(shape.hidden, wide * fields.integer("intermediate_size"))
    pieces = (
        *mixer.pieces(),
        *dense.pieces(),
        norms(shape.hidden, 4),
        Piece("vectors", size(1)),  # the layer's scale
        *_per_layer(fields, shape.hidden),
        *(_gemma4_experts(fields, shape.hidden) if fields.flag("enable_moe_block") else ()),
    )
    return Layer(pieces, mixer.cache())


def _gemma4_attention(
    fields: Fields, shape: Shape, window: int | None, owns: bool, heads: tuple[int, int]
) -> Attention:
    head_dim, kv_heads = heads
    own_v = window is not None or not fields.flag("attention_k_eq_v")
    bias = fields.flag("attention_bias")
    return Attention(
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        q_bias=bias,
        kv_bias=bias,
        o_bias=bias,
        norms=head_dim * (2 if owns else 1),
        window=window,
        own_kv=owns,
        own_v=own_v,
    )


def _gemma4_experts(fields: Fields, hidden: int) -> tuple[Piece, ...]:
    """Return experts beside the dense MLP, with a router that scales inputs and outputs."""
    count = fields.integer(*EXPERTS)
    routed = Experts(
        expert=Mlp(hidden, fields.integer("moe_intermediate_size", "expert_intermediate_size")),
        count=count,
        used=fields.integer(*USED),
        extra=hidden + count,
    )
    return (*routed.pieces(), norms(hidden, 3))


def gemma3n(fields: Fields) -> Network:
    """Gemma 3n: several streams, low-rank bypasses and per-layer embeddings."""
    shape = Shape.read(fields)
    windows, own = _windows(fields, shape.layers, 5), _own_kv(fields, shape.layers)
    widths = _widths(fields, shape.layers)
    layers = each(partial(_gemma3n_layer, fields, shape), windows, own, widths)
    streams = fields.integer("altup_num_inputs")
    extra = (
        *_per_layer_outer(fields, shape),
        Piece("stream projections", size(2 * (streams - 1), shape.hidden, shape.hidden)),
    )
    return finish(fields, Recipe(mtp=False), shape, layers, extra=extra)


def _widths(fields: Fields, layers: int) -> tuple[int, ...]:
    if isinstance(fields.value("intermediate_size"), (list, tuple)):
        widths = fields.integers("intermediate_size")
        if len(widths) < layers:
            raise fields.error("intermediate_size", f"one width for each of {layers} layers")
        return widths[:layers]
    return (fields.integer("intermediate_size"),) * layers


def _gemma3n_layer(
    fields: Fields, shape: Shape, window: int | None, owns: bool, width: int
) -> Layer:
    bias = fields.flag("attention_bias")
    mixer = Attention(
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        q_bias=bias,
        kv_bias=bias,
        o_bias=bias,
        norms=shape.head_dim * (2 if owns else 1),
        window=window,
        own_kv=owns,
    )
    streams, rank = fields.integer("altup_num_inputs"), fields.integer("laurel_rank")
    coefficients: Sum = size(streams, streams) + size(streams**2, streams)
    return Layer(
        (
            *mixer.pieces(),
            *Mlp(shape.hidden, width).pieces(),
            norms(shape.hidden, 4 + 2),  # the layer's, the stream router's and the bypass's
            Piece("bypass", size(2, shape.hidden, rank)),
            Piece("stream router", size(shape.hidden, streams) + coefficients),
            Piece("vectors", size(shape.hidden).when(fields.flag("altup_correct_scale"))),
            *_per_layer(fields, shape.hidden),
        ),
        mixer.cache(),
    )


GEMMAS: dict[str, Callable[[Fields], Network]] = {
    "gemma4": gemma4,
    "gemma4_text": gemma4,
    "gemma4_unified_text": gemma4,
    "gemma3n": gemma3n,
    "gemma3n_text": gemma3n,
}
