"""What distinguishes one decoder from another, as data, and the reader that follows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from capplan.facts.hf_config.architectures.blocks import Attention, Experts, Mlp, embeddings, norms
from capplan.facts.hf_config.architectures.layers import (
    Sparse,
    Windows,
    all_sparse,
    no_windows,
)
from capplan.facts.hf_config.architectures.network import Layer, Network, Piece, each, size
from capplan.facts.hf_config.architectures.shape import EXPERTS, MTP, USED, WIDTH, Shape
from capplan.facts.hf_config.fields import Fields

Switch = bool | str
"""True, False, or the name of the field that decides; ``not x`` for its opposite."""


def no_vectors(_fields: Fields, _shape: Shape) -> int:
    """Return 0: nothing but matrices, biases and norms."""
    return 0


@dataclass(frozen=True)
class Moe:
    """How a family routes tokens to experts."""

    width: tuple[str, ...] = ("moe_intermediate_size",)
    shared_count: tuple[str, ...] = ()
    """Field with the number of shared experts, each as wide as a routed one."""
    shared_width: tuple[str, ...] = ()
    """Field with the width of all shared experts together."""
    shared_gate: bool = False
    router_bias: Switch = False
    correction: Switch = False
    """One stored bias an expert that balances the load, outside the router's matrix."""
    bias: Switch = False
    sparse: Sparse = all_sparse


@dataclass(frozen=True)
class Recipe:
    """A decoder of attention and feed-forward blocks."""

    family: str = ""
    """Empty: the model type."""
    qkv_bias: Switch = False
    o_bias: Switch = False
    qk_norm: str = ""
    """``head``: one vector of a head's size each for queries and keys; ``all``: of all heads."""
    qk_norm_on: Switch = True
    qk_norm_bias: bool = False
    norms: int = 2
    parallel: Switch = False
    """On: attention and MLP share one norm."""
    norm_bias: Switch = False
    norm_params: bool = True
    """False where norms have no parameters."""
    gated: Switch = True
    mlp_bias: Switch = False
    width: tuple[str, ...] = WIDTH
    width_factor: int = 0
    """Width in hidden sizes where no field states it; 0: it must be stated."""
    sinks: bool = False
    gate: str = ""
    """``wide``: a gate as wide as the queries; ``head``: one value a head."""
    head_bias: Switch = False
    vectors: Callable[[Fields, Shape], int] = no_vectors
    """Further parameters of a layer that are no matrices."""
    windows: Windows = no_windows
    moe: Moe | None = None
    mtp: bool = True
    """Whether MTP layers that the configuration announces are in the checkpoints."""
    mtp_dense: bool = False
    """MTP layers have a dense MLP where the last layer has experts."""
    mtp_norms: int = 3
    """Norms of an MTP layer besides a decoder layer's: of both inputs and of the output."""
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


PLAIN = Recipe()
"""Grouped attention and a gated MLP without biases, two norms a layer."""
BIASED = Recipe(qkv_bias="attention_bias", o_bias="attention_bias")
LLAMA = Recipe(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")


def on(fields: Fields, switch: Switch) -> bool:
    """Return whether a switch is on."""
    if isinstance(switch, bool):
        return switch
    if switch.startswith("not "):
        return not fields.flag(switch.removeprefix("not "))
    return fields.flag(switch)


def attention(
    fields: Fields, recipe: Recipe, shape: Shape, window: int | None = None
) -> Attention:
    """Return a layer's attention."""
    qkv_bias = on(fields, recipe.qkv_bias)
    q_width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    elements = {"": 0, "head": 2 * shape.head_dim, "all": q_width + kv_width}[recipe.qk_norm]
    elements *= 1 + recipe.qk_norm_bias
    return Attention(
        hidden=shape.hidden,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        q_bias=qkv_bias,
        kv_bias=qkv_bias,
        o_bias=on(fields, recipe.o_bias),
        norms=elements if on(fields, recipe.qk_norm_on) else 0,
        gate={"": 0, "head": shape.heads, "wide": q_width}[recipe.gate],
        sinks=recipe.sinks,
        window=window,
    )


def mlp(fields: Fields, recipe: Recipe, hidden: int) -> Mlp:
    """Return the dense feed-forward block."""
    width = fields.optional(*recipe.width) or recipe.width_factor * hidden
    if not width:
        raise fields.error(recipe.width[0], "the width of the MLP")
    gated, bias = on(fields, recipe.gated), on(fields, recipe.mlp_bias)
    return Mlp(hidden, width, gated, bias)


def experts(fields: Fields, moe: Moe, hidden: int, gated: bool = True) -> Experts:
    """Return the experts of a sparse layer."""
    width = fields.integer(*moe.width)
    count, used = fields.integer(*EXPERTS), fields.integer(*USED)
    if used > count:
        raise fields.error(USED[0], f"at most the {count} experts")
    shared = (fields.optional(*moe.shared_width) or 0) if moe.shared_width else 0
    if moe.shared_count:
        shared = width * (fields.optional(*moe.shared_count) or 0)
    bias = on(fields, moe.bias)
    return Experts(
        expert=Mlp(hidden, width, gated, bias),
        count=count,
        used=used,
        shared=Mlp(hidden, shared, gated, bias) if shared else None,
        shared_gate=moe.shared_gate,
        router_bias=on(fields, moe.router_bias),
        extra=count if on(fields, moe.correction) else 0,
    )


def decoder(fields: Fields, recipe: Recipe) -> Network:
    """Read a decoder as its recipe describes it."""
    shape = Shape.read(fields)
    windows = recipe.windows(fields, shape.layers)
    sparse = _sparse(fields, recipe, shape.layers)
    layers = each(partial(_layer, fields, recipe, shape), windows, sparse)
    last = _layer(fields, recipe, shape, windows[-1], sparse[-1] and not recipe.mtp_dense)
    return finish(fields, recipe, shape, layers, last)


def _sparse(fields: Fields, recipe: Recipe, layers: int) -> tuple[bool, ...]:
    if recipe.moe is None or not fields.optional(*EXPERTS):
        return (False,) * layers
    return recipe.moe.sparse(fields, layers)


def _layer(
    fields: Fields, recipe: Recipe, shape: Shape, window: int | None, sparse: bool
) -> Layer:
    mixer = attention(fields, recipe, shape, window)
    if sparse and recipe.moe is not None:
        gated = on(fields, recipe.gated)
        ffn = experts(fields, recipe.moe, shape.hidden, gated).pieces()
    else:
        ffn = mlp(fields, recipe, shape.hidden).pieces()
    norm = layer_norms(fields, recipe, shape.hidden)
    vectors = Piece("vectors", size(recipe.vectors(fields, shape)))
    return Layer((*mixer.pieces(), *ffn, norm, vectors), mixer.cache())


def layer_norms(fields: Fields, recipe: Recipe, hidden: int, count: int | None = None) -> Piece:
    """Return the norms of the hidden size in one layer."""
    number = recipe.norms - on(fields, recipe.parallel) if count is None else count
    return norms(hidden, number * recipe.norm_params, on(fields, recipe.norm_bias))


def finish(
    fields: Fields,
    recipe: Recipe,
    shape: Shape,
    layers: tuple[Layer, ...],
    mtp_layer: Layer | None = None,
    extra: tuple[Piece, ...] = (),
) -> Network:
    """Return the network of these layers: embeddings, last norm and MTP layers added.

    Parameters
    ----------
    mtp_layer
        What one MTP layer holds besides its projection and norms; None: this family has none.
    extra
        Pieces outside the layers that not every decoder has.
    """
    sparse = any(piece.part == "routed experts" for layer in layers for piece in layer.pieces)
    count = fields.optional(*MTP) or 0 if recipe.mtp and mtp_layer is not None else 0
    mtp = () if mtp_layer is None else (mtp_of(mtp_layer, shape.hidden, recipe.mtp_norms),) * count
    return Network(
        family=recipe.family,
        hidden=shape.hidden,
        heads=shape.heads,
        vocab_size=shape.vocab,
        tied=shape.tied,
        layers=layers,
        outer=(
            layer_norms(fields, recipe, shape.hidden, 1),
            *embeddings(shape.vocab, shape.hidden, shape.tied, on(fields, recipe.head_bias)),
            *extra,
        ),
        experts=fields.integer(*EXPERTS) if sparse else None,
        experts_per_token=fields.integer(*USED) if sparse else None,
        mtp=mtp,
        modules=recipe.modules,
    )


def mtp_of(layer: Layer, hidden: int, count: int = 3) -> Layer:
    """Return an MTP layer: a decoder layer, the projection of two inputs, so many norms."""
    projection = Piece("projections", size(2 * hidden, hidden))
    return Layer((*layer.pieces, projection, norms(hidden, count)), layer.cache)
