"""MiniMax M3: grouped attention over blocks of tokens that an indexer picks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from capplan.facts.hf_config.architectures.blocks import norms
from capplan.facts.hf_config.architectures.layers import after_dense, layer_kinds
from capplan.facts.hf_config.architectures.network import Layer, Network, Piece, each, size
from capplan.facts.hf_config.architectures.recipe import (
    Moe,
    Recipe,
    attention,
    experts,
    finish,
    mlp,
)
from capplan.facts.hf_config.architectures.shape import Shape
from capplan.facts.hf_config.fields import Fields
from capplan.schema.cache import CacheKind, CacheLayers

_RECIPE = Recipe(
    qk_norm="head",
    width=("dense_intermediate_size",),
    mtp=False,
    moe=Moe(
        width=("intermediate_size",),
        shared_width=("shared_intermediate_size",),
        correction=True,
        sparse=after_dense(),
    ),
)


def minimax_m3(fields: Fields) -> Network:
    """MiniMax M3."""
    shape = Shape.read(fields)
    moe = _RECIPE.moe or Moe()
    indexed, sparse = _indexed(fields, shape.layers), moe.sparse(fields, shape.layers)
    layers = each(partial(_layer, fields, shape, moe), indexed, sparse)
    note = (
        "Indexer keys are counted in the KV dtype; the layers for multi-token prediction are "
        "not counted: their shape is not published."
    )
    return finish(fields, _RECIPE, shape, layers).noting(note)


def _indexed(fields: Fields, layers: int) -> tuple[bool, ...]:
    kinds = layer_kinds(fields, layers)
    if kinds:
        return tuple(kind == "minimax_m3_sparse" for kind in kinds)
    listed = fields.inner("sparse_attention_config").integers("sparse_attention_freq")
    if listed and len(listed) < layers:
        raise fields.error("sparse_attention_config", f"one entry for each of {layers} layers")
    return tuple(bool(one) for one in listed[:layers]) or (False,) * layers


def _layer(fields: Fields, shape: Shape, moe: Moe, indexed: bool, routed: bool) -> Layer:
    mixer = attention(fields, _RECIPE, shape)
    if routed:
        ffn = experts(fields, moe, shape.hidden).pieces()
    else:
        ffn = mlp(fields, _RECIPE, shape.hidden).pieces()
    pieces = (*mixer.pieces(), *ffn, norms(shape.hidden, 2))
    if not indexed:
        return Layer(pieces, mixer.cache())
    own, keys = _indexer(fields, shape.hidden)
    return Layer((*pieces, *own), (*mixer.cache(), keys))


def _indexer(fields: Fields, hidden: int) -> tuple[tuple[Piece, ...], CacheLayers]:
    inner = fields.inner("sparse_attention_config")
    heads = inner.optional("sparse_num_index_heads") or fields.integer("index_n_heads")
    head_dim = inner.optional("sparse_index_dim") or fields.integer("index_head_dim")
    matrices = size(hidden, heads * head_dim) + size(hidden, head_dim)
    keys = CacheLayers(kind=CacheKind.LATENT, layers=1, elements=head_dim)
    return (Piece("indexer", matrices), Piece("norms", size(2, head_dim))), keys


MINIMAXES: dict[str, Callable[[Fields], Network]] = {
    "minimax_m3": minimax_m3,
    "minimax_m3_vl": minimax_m3,
    "minimax_m3_vl_text": minimax_m3,
}
