"""State-space decoders and their hybrids: Mamba, Jamba, Bamba, Granite 4, Falcon-H1."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from capplan.facts.hf_config.architectures.blocks import norms
from capplan.facts.hf_config.architectures.families.hybrid import (
    Hybrid,
    Mixer,
    routed_layers,
    softmax,
    stateful_layers,
)
from capplan.facts.hf_config.architectures.network import Layer, Network, Piece, size
from capplan.facts.hf_config.architectures.recipe import Moe, Recipe, finish
from capplan.facts.hf_config.architectures.shape import EXPERTS, HIDDEN, LAYERS, Shape
from capplan.facts.hf_config.architectures.stateful import Mamba1, Mamba2, state_precision
from capplan.facts.hf_config.fields import Fields

_BIASED = Recipe(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")


def _pure_shape(fields: Fields) -> Shape:
    """Read the sizes of a decoder without attention."""
    return Shape(
        hidden=fields.integer(*HIDDEN),
        layers=fields.integer(*LAYERS),
        heads=1,
        kv_heads=1,
        head_dim=0,
        vocab=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
    )


def _pure(fields: Fields, block: Mamba1 | Mamba2) -> Network:
    shape = _pure_shape(fields)
    *bytes_, note = state_precision(fields, "mamba_ssm_cache_dtype")
    pieces = (*block.pieces(), norms(shape.hidden, 1))
    layer = Layer(pieces, (block.cache((bytes_[0], bytes_[1])),))
    network = finish(fields, Recipe(), shape, (layer,) * shape.layers)
    return replace(network, heads=None).noting(note)


def mamba(fields: Fields) -> Network:
    """Mamba and Falcon Mamba."""
    hidden = fields.integer(*HIDDEN)
    rank = fields.value("time_step_rank")
    block = Mamba1(
        hidden=hidden,
        inner=fields.optional("intermediate_size", "d_inner") or fields.integer("expand") * hidden,
        state=fields.integer("state_size"),
        kernel=fields.integer("conv_kernel"),
        rank=math.ceil(hidden / 16) if rank == "auto" else fields.integer("time_step_rank"),
        bias=fields.flag("use_bias"),
        conv_bias=fields.flag("use_conv_bias", default=True),
    )
    return _pure(fields, block)


def mamba2(fields: Fields) -> Network:
    """Mamba 2."""
    block = Mamba2(
        hidden=fields.integer(*HIDDEN),
        heads=fields.integer("num_heads"),
        head_dim=fields.integer("head_dim"),
        groups=fields.integer("n_groups"),
        state=fields.integer("state_size"),
        kernel=fields.integer("conv_kernel"),
        bias=fields.flag("use_bias"),
        conv_bias=fields.flag("use_conv_bias", default=True),
    )
    return _pure(fields, block)


def _read_mamba2(fields: Fields, hidden: int) -> Mamba2:
    """Read the Mamba 2 blocks of Bamba, Granite 4 and Falcon-H1."""
    heads = fields.integer("mamba_n_heads")
    inner = fields.optional("mamba_d_ssm") or fields.integer("mamba_expand") * hidden
    stated = fields.value("mamba_d_head")
    return Mamba2(
        hidden=hidden,
        heads=heads,
        head_dim=inner // heads if stated == "auto" else fields.integer("mamba_d_head"),
        groups=fields.integer("mamba_n_groups"),
        state=fields.integer("mamba_d_state"),
        kernel=fields.integer("mamba_d_conv"),
        bias=fields.flag("mamba_proj_bias"),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
    )


def _hybrid(
    fields: Fields,
    recipe: Recipe,
    block: Mamba1 | Mamba2,
    stateful: tuple[bool, ...],
    sparse: tuple[bool, ...],
) -> Network:
    shape = Shape.read(fields)
    *bytes_, note = state_precision(fields, "mamba_ssm_cache_dtype")
    mixer: Mixer = (block.pieces(), (block.cache((bytes_[0], bytes_[1])),))
    full = softmax(fields, recipe, shape)
    return Hybrid(recipe, shape, full, mixer, stateful, sparse).network(fields, note)


def bamba(fields: Fields) -> Network:
    """Bamba: Mamba 2 with attention on the layers named."""
    hidden, layers = fields.integer(*HIDDEN), fields.integer(*LAYERS)
    attending = set(fields.integers("attn_layer_indices"))
    stateful = tuple(index not in attending for index in range(layers))
    return _hybrid(fields, _BIASED, _read_mamba2(fields, hidden), stateful, (False,) * layers)


def granite_hybrid(fields: Fields) -> Network:
    """Granite 4: Mamba 2 and attention, always a shared MLP, experts or not."""
    hidden, layers = fields.integer(*HIDDEN), fields.integer(*LAYERS)
    moe = Moe(width=("intermediate_size",), shared_width=("shared_intermediate_size",))
    recipe = replace(_BIASED, moe=moe, mlp_bias=False, width=("shared_intermediate_size",))
    name = "layer_types" if fields.has("layer_types") else "layers_block_type"
    stateful = stateful_layers(fields, layers, lambda _i: True, name)
    sparse = routed_layers(fields, lambda _f, count: (True,) * count, layers)
    return _hybrid(fields, recipe, _read_mamba2(fields, hidden), stateful, sparse)


def jamba(fields: Fields) -> Network:
    """Jamba: Mamba with attention and experts on layers of fixed periods."""
    hidden, layers = fields.integer(*HIDDEN), fields.integer(*LAYERS)
    period, offset = fields.integer("attn_layer_period"), fields.optional("attn_layer_offset") or 0
    every, first = fields.integer("expert_layer_period"), fields.optional("expert_layer_offset")
    rank = fields.value("mamba_dt_rank")
    block = Mamba1(
        hidden=hidden,
        inner=fields.integer("mamba_expand") * hidden,
        state=fields.integer("mamba_d_state"),
        kernel=fields.integer("mamba_d_conv"),
        rank=math.ceil(hidden / 16) if rank == "auto" else fields.integer("mamba_dt_rank"),
        bias=fields.flag("mamba_proj_bias"),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        inner_norms=True,
    )
    recipe = Recipe(moe=Moe(width=("intermediate_size",)))
    stateful = tuple(index % period != offset for index in range(layers))
    several = (fields.optional(*EXPERTS) or 1) > 1
    sparse = tuple(several and index % every == (first or 0) for index in range(layers))
    return _hybrid(fields, recipe, block, stateful, sparse)


def falcon_h1(fields: Fields) -> Network:
    """Falcon-H1: attention and Mamba 2 side by side in every layer."""
    shape = Shape.read(fields)
    block = replace(
        _read_mamba2(fields, shape.hidden), gated_norm=fields.flag("mamba_rms_norm"), bias=False
    )
    *bytes_, note = state_precision(fields, "mamba_ssm_cache_dtype")
    pieces, cache = softmax(fields, _BIASED, shape)
    inputs = block.inner + block.conv_width + block.heads
    biases = size(inputs).when(fields.flag("mamba_proj_bias"))
    biases = biases + size(shape.hidden).when(fields.flag("projectors_bias"))
    both: Mixer = (
        (*pieces, *block.pieces(), Piece("biases", biases)),
        (*cache, block.cache((bytes_[0], bytes_[1]))),
    )
    none = (False,) * shape.layers
    return Hybrid(_BIASED, shape, both, both, none, none).network(fields, note)


STATE_SPACE: dict[str, Callable[[Fields], Network]] = {
    "mamba": mamba,
    "falcon_mamba": mamba,
    "mamba2": mamba2,
    "bamba": bamba,
    "granitemoehybrid": granite_hybrid,
    "jamba": jamba,
    "falcon_h1": falcon_h1,
}
