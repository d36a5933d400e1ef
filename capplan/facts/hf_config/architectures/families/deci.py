"""Decoders found by architecture search: each layer has sizes of its own (Nemotron Super)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from capplan.facts.hf_config.architectures.blocks import Attention, Mlp, norms
from capplan.facts.hf_config.architectures.network import Layer, Network, Piece, each, size
from capplan.facts.hf_config.architectures.recipe import LLAMA, Recipe, attention, finish, mlp
from capplan.facts.hf_config.architectures.shape import HEADS, HIDDEN, Shape
from capplan.facts.hf_config.fields import Fields
from capplan.schema.cache import CacheLayers

_MULTIPLE = 256
"""MLP widths are rounded up to it."""


def searched(fields: Fields) -> Network:
    """Llama-Nemotron: attention or MLP may be absent, linear, grouped or narrower in a layer."""
    hidden, heads = fields.integer(*HIDDEN), fields.integer(*HEADS)
    if hidden % heads:
        raise fields.error("num_attention_heads", f"a divisor of the hidden size {hidden}")
    if fields.has("num_key_value_heads_per_layer") and not fields.has("block_configs"):
        return grouped_by_layer(fields)
    blocks = fields.value("block_configs")
    if not isinstance(blocks, list) or not all(isinstance(one, Mapping) for one in blocks):
        raise fields.error("block_configs", "a list of one object a layer")
    layers = tuple(
        _layer(Fields(one, f"{fields.where}: block_configs[{index}]"), fields, hidden, heads)
        for index, one in enumerate(blocks)
    )
    shape = Shape(
        hidden=hidden,
        layers=len(layers),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        vocab=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings"),
    )
    return finish(fields, Recipe(), shape, layers)


def grouped_by_layer(fields: Fields) -> Network:
    """DeciLM 7B: Llama's layers, with a number of KV heads each."""
    shape = Shape.read(replace(fields, config={**fields.config, "num_key_value_heads": None}))
    heads = fields.integers("num_key_value_heads_per_layer")
    if len(heads) != shape.layers or min(heads) < 1 or any(shape.heads % one for one in heads):
        expected = f"one divisor of {shape.heads} heads for each of {shape.layers} layers"
        raise fields.error("num_key_value_heads_per_layer", expected)
    ffn, norm = mlp(fields, LLAMA, shape.hidden).pieces(), norms(shape.hidden, 2)

    def layer(kv_heads: int) -> Layer:
        mixer = attention(fields, LLAMA, replace(shape, kv_heads=kv_heads))
        return Layer((*mixer.pieces(), *ffn, norm), mixer.cache())

    return finish(fields, Recipe(), shape, each(layer, heads))


def _layer(block: Fields, fields: Fields, hidden: int, heads: int) -> Layer:
    mixing, ffn = block.inner("attention"), block.inner("ffn")
    pieces, cache = _attention(mixing, fields.flag("attention_bias"), hidden, heads)
    return Layer((*pieces, *_mlp(ffn, fields.flag("mlp_bias"), hidden)), cache)


def _attention(
    mixing: Fields, bias: bool, hidden: int, heads: int
) -> tuple[tuple[Piece, ...], tuple[CacheLayers, ...]]:
    if mixing.flag("no_op"):
        return (), ()
    if mixing.flag("replace_with_linear"):
        return (Piece("attention", size(hidden, hidden)), norms(hidden, 1)), ()
    group = mixing.integer("n_heads_in_group")
    if heads % group:
        raise mixing.error("n_heads_in_group", f"a divisor of {heads} attention heads")
    block = Attention(
        hidden=hidden,
        heads=heads,
        kv_heads=heads // group,
        head_dim=hidden // heads,
        q_bias=bias,
        kv_bias=bias,
        o_bias=bias,
        window=mixing.optional("window_length") or None,
    )
    return (*block.pieces(), norms(hidden, 1)), block.cache()


def _mlp(ffn: Fields, bias: bool, hidden: int) -> tuple[Piece, ...]:
    if ffn.flag("no_op"):
        return ()
    if ffn.flag("replace_with_linear"):
        return Piece("MLP", size(hidden, hidden)), norms(hidden, 1)
    width = ffn.optional("intermediate_size")
    if not width:
        factor = ffn.number("ffn_mult")
        if factor is None:
            raise ffn.error("ffn_mult", "the width of the MLP")
        width = _MULTIPLE * -(-int(2 * factor * hidden / 3) // _MULTIPLE)
    return (*Mlp(hidden, width, bias=bias).pieces(), norms(hidden, 1))


DECIS: dict[str, Callable[[Fields], Network]] = {"nemotron-nas": searched, "deci": searched}
