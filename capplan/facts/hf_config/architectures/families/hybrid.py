"""Decoders where most layers keep a state of constant size instead of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from capplan.facts.hf_config.architectures.blocks import Mlp
from capplan.facts.hf_config.architectures.families.latent import mla_shape, read_mla
from capplan.facts.hf_config.architectures.layers import (
    Sparse,
    after_dense,
    by_step,
    known_kinds,
    layer_kinds,
)
from capplan.facts.hf_config.architectures.network import Layer, Network, Piece, each
from capplan.facts.hf_config.architectures.recipe import (
    Moe,
    Recipe,
    attention,
    experts,
    finish,
    layer_norms,
    mlp,
    on,
)
from capplan.facts.hf_config.architectures.shape import EXPERTS, MTP, Shape
from capplan.facts.hf_config.architectures.stateful import (
    DeltaAttention,
    DeltaNet,
    Lightning,
    ShortConvolution,
    state_precision,
)
from capplan.facts.hf_config.fields import Fields
from capplan.schema.cache import CacheLayers

Mixer = tuple[tuple[Piece, ...], tuple[CacheLayers, ...]]
"""What a mixer holds, and what it keeps of the tokens."""

_STATEFUL = ("linear_attention", "mamba", "conv", "kda", "linear")
_ATTENDING = ("full_attention", "attention")
_QWEN = Recipe(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head", gate="wide")
_QWEN_MOE = Moe(
    shared_width=("shared_expert_intermediate_size",), shared_gate=True, sparse=by_step
)


@dataclass(frozen=True)
class Hybrid:
    """One decoder's mixers and feed-forward blocks, layer by layer."""

    recipe: Recipe
    shape: Shape
    full: Mixer
    stateful: Mixer
    is_stateful: tuple[bool, ...]
    sparse: tuple[bool, ...]
    dense: Mlp | None = None

    def network(self, fields: Fields, note: str) -> Network:
        """Return the layers with everything around them."""
        layers = each(partial(self._layer, fields), self.is_stateful, self.sparse)
        last = self._layer(fields, False, self.sparse[-1])
        return finish(fields, self.recipe, self.shape, layers, last).noting(note)

    def _layer(self, fields: Fields, stateful: bool, routed: bool) -> Layer:
        pieces, cache = self.stateful if stateful else self.full
        norm = layer_norms(fields, self.recipe, self.shape.hidden)
        return Layer((*pieces, *self._ffn(fields, routed), norm), cache)

    def _ffn(self, fields: Fields, routed: bool) -> tuple[Piece, ...]:
        if routed and self.recipe.moe is not None:
            return experts(fields, self.recipe.moe, self.shape.hidden).pieces()
        return (self.dense or mlp(fields, self.recipe, self.shape.hidden)).pieces()


def stateful_layers(
    fields: Fields, layers: int, otherwise: Callable[[int], bool], name: str = "layer_types"
) -> tuple[bool, ...]:
    """Return which layers keep a state, as listed, else by a rule on their index."""
    kinds = layer_kinds(fields, layers, name)
    if kinds:
        known_kinds(fields, kinds, (*_STATEFUL, *_ATTENDING))
        return tuple(kind in _STATEFUL for kind in kinds)
    return tuple(otherwise(index) for index in range(layers))


def routed_layers(fields: Fields, rule: Sparse, layers: int) -> tuple[bool, ...]:
    """Return which layers route to experts; none if there are no experts."""
    return rule(fields, layers) if fields.optional(*EXPERTS) else (False,) * layers


def softmax(fields: Fields, recipe: Recipe, shape: Shape) -> Mixer:
    """Return ordinary attention as a mixer."""
    block = attention(fields, recipe, shape)
    return block.pieces(), block.cache()


def gated_delta(fields: Fields) -> Network:
    """Qwen3-Next and Qwen 3.5: Gated DeltaNet with gated attention on every fourth layer."""
    recipe, shape = replace(_QWEN, moe=_QWEN_MOE), Shape.read(fields)
    every = fields.optional("full_attention_interval") or 4
    *bytes_, note = state_precision(fields, "mamba_ssm_dtype")
    delta = DeltaNet.read(fields, shape.hidden)
    hybrid = Hybrid(
        recipe=recipe,
        shape=shape,
        full=softmax(fields, recipe, shape),
        stateful=(delta.pieces(), (delta.cache((bytes_[0], bytes_[1])),)),
        is_stateful=stateful_layers(fields, shape.layers, lambda i: (i + 1) % every != 0),
        sparse=routed_layers(fields, by_step, shape.layers),
    )
    return hybrid.network(fields, note)


def qwen3_next(fields: Fields) -> Network:
    """Qwen3-Next: ships one MTP layer that no field states."""
    if fields.has(*MTP):
        return gated_delta(fields)
    network = gated_delta(replace(fields, config={**fields.config, MTP[0]: 1}))
    return network.noting("One MTP layer, as the checkpoints ship; no field states it.")


def olmo_hybrid(fields: Fields) -> Network:
    """OLMo hybrid: Gated DeltaNet with full attention on every fourth layer."""
    recipe = Recipe(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="all")
    shape = Shape.read(fields)
    *bytes_, note = state_precision(fields, "mamba_ssm_dtype")
    delta = DeltaNet.read(fields, shape.hidden)
    hybrid = Hybrid(
        recipe=recipe,
        shape=shape,
        full=softmax(fields, recipe, shape),
        stateful=(delta.pieces(), (delta.cache((bytes_[0], bytes_[1])),)),
        is_stateful=stateful_layers(fields, shape.layers, lambda i: (i + 1) % 4 != 0),
        sparse=(False,) * shape.layers,
    )
    return hybrid.network(fields, note)


def kimi_linear(fields: Fields) -> Network:
    """Kimi Linear: Kimi Delta Attention with latent attention on some layers."""
    moe = Moe(
        shared_count=("num_shared_experts",),
        correction=True,
        sparse=after_dense("first_k_dense_replace"),
    )
    shape, latent = mla_shape(fields), read_mla(fields)
    inner = fields.inner("linear_attn_config")
    delta = DeltaAttention(
        shape.hidden,
        inner.optional("num_heads") or fields.integer("linear_num_heads"),
        inner.optional("head_dim") or fields.integer("linear_head_dim"),
        inner.optional("short_conv_kernel_size") or fields.integer("linear_conv_kernel_dim"),
    )
    full = set(inner.integers("full_attn_layers"))  # counted from 1
    *bytes_, note = state_precision(fields, default="float32")
    hybrid = Hybrid(
        recipe=Recipe(moe=moe),
        shape=shape,
        full=(latent.pieces(), (latent.cache(),)),
        stateful=(delta.pieces(), (delta.cache((bytes_[0], bytes_[1])),)),
        is_stateful=stateful_layers(
            fields,
            shape.layers,
            lambda i: (i + 1) not in full if full else not (i and i % 4 == 0),
        ),
        sparse=routed_layers(fields, moe.sparse, shape.layers),
    )
    return hybrid.network(fields, note)


def lightning(fields: Fields) -> Network:
    """MiniMax-Text-01 and M1: lightning attention, full attention on every eighth layer."""
    recipe, shape = Recipe(moe=Moe(width=("intermediate_size",))), Shape.read(fields)
    block = Lightning(shape.hidden, shape.heads, shape.head_dim)
    listed = fields.integers("attn_type_list")
    if listed and len(listed) < shape.layers:
        raise fields.error("attn_type_list", f"one entry for each of {shape.layers} layers")
    *bytes_, note = state_precision(fields)
    hybrid = Hybrid(
        recipe=recipe,
        shape=shape,
        full=softmax(fields, recipe, shape),
        stateful=(block.pieces(), (block.cache((bytes_[0], bytes_[1])),)),
        is_stateful=stateful_layers(
            fields, shape.layers, lambda i: listed[i] == 0 if listed else i % 2 == 1
        ),
        sparse=routed_layers(fields, lambda _f, count: (True,) * count, shape.layers),
    )
    return hybrid.network(fields, note)


def short_convolution(fields: Fields) -> Network:
    """LFM2: gated short convolutions, attention on the layers named."""
    moe = Moe(correction="use_expert_bias", sparse=after_dense("num_dense_layers"))
    recipe, shape = Recipe(qk_norm="head", moe=moe), Shape.read(fields)
    if fields.has("tie_embedding"):
        shape = replace(shape, tied=fields.flag("tie_embedding"))
    bias = fields.flag("conv_bias")
    block = ShortConvolution(shape.hidden, fields.integer("conv_L_cache"), bias)
    attending = set(fields.integers("full_attn_idxs")) or set(range(shape.layers))
    *bytes_, _ = state_precision(fields)
    hybrid = Hybrid(
        recipe=recipe,
        shape=shape,
        full=softmax(fields, recipe, shape),
        stateful=(block.pieces(), (block.cache((bytes_[0], bytes_[1])),)),
        is_stateful=stateful_layers(fields, shape.layers, lambda i: i not in attending),
        sparse=routed_layers(fields, moe.sparse, shape.layers),
        dense=Mlp(shape.hidden, _adjusted_width(fields)),
    )
    return hybrid.network(fields, "Convolution states are kept in the dtype of the LLM.")


def _adjusted_width(fields: Fields) -> int:
    """Return LFM2's real MLP width: two thirds of the field, scaled and rounded up."""
    width = fields.integer("block_ff_dim", "intermediate_size")
    if not on(fields, "block_auto_adjust_ff_dim"):
        return width
    factor = fields.number("block_ffn_dim_multiplier")
    width = int(2 * width / 3)
    if factor is None:
        return width
    multiple = fields.integer("block_multiple_of")
    return multiple * -(-int(factor * width) // multiple)


HYBRIDS: dict[str, Callable[[Fields], Network]] = {
    "qwen3_next": qwen3_next,
    "qwen3_5_text": gated_delta,
    "qwen3_5_moe_text": gated_delta,
    "qwen3_5": gated_delta,
    "qwen3_5_moe": gated_delta,
    "olmo_hybrid": olmo_hybrid,
    "kimi_linear": kimi_linear,
    "minimax": lightning,
    "minimax_text_01": lightning,
    "minimax_m1": lightning,
    "lfm2": short_convolution,
    "lfm2_moe": short_convolution,
}
