"""Decoders of the GPT generation: learned positions, fused matrices, fields of other names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from capplan.facts.hf_config.architectures.blocks import Attention, Experts, Mlp, norms
from capplan.facts.hf_config.architectures.network import Layer, Network, Piece, size
from capplan.facts.hf_config.architectures.recipe import Recipe, attention, finish, mlp
from capplan.facts.hf_config.architectures.shape import HEADS, HIDDEN, LAYERS, Shape
from capplan.facts.hf_config.fields import Fields

_BIASED = Recipe(
    qkv_bias=True, o_bias=True, norm_bias=True, gated=False, mlp_bias=True, width_factor=4
)
_MODULES: Mapping[str, tuple[str, ...]] = {
    "token embedding": ("wte",),
    "position embedding": ("wpe",),
    "attention": ("attn",),
}


def _layers(fields: Fields, recipe: Recipe, shape: Shape) -> tuple[Layer, ...]:
    mixer = attention(fields, recipe, shape)
    ffn = mlp(fields, recipe, shape.hidden)
    norm = norms(shape.hidden, recipe.norms, bool(recipe.norm_bias))
    layer = Layer((*mixer.pieces(), *ffn.pieces(), norm), mixer.cache())
    return (layer,) * shape.layers


def _positions(count: int, width: int) -> Piece:
    return Piece("position embedding", size(count, width))


def gpt2(fields: Fields) -> Network:
    """GPT-2."""
    recipe, shape = replace(_BIASED, modules=_MODULES), Shape.read(fields)
    learned = _positions(fields.integer("n_positions", "max_position_embeddings"), shape.hidden)
    layers = _layers(fields, recipe, shape)
    return finish(fields, recipe, shape, layers, extra=(learned,))


def gpt_bigcode(fields: Fields) -> Network:
    """GPT-BigCode (StarCoder): one key-value head unless ``multi_query`` is false."""
    shape = Shape.read(replace(fields, config={**fields.config, "num_key_value_heads": None}))
    recipe = replace(_BIASED, modules=_MODULES)
    if fields.flag("multi_query", default=True):
        shape = replace(shape, kv_heads=1)
    learned = _positions(fields.integer("n_positions", "max_position_embeddings"), shape.hidden)
    layers = _layers(fields, recipe, shape)
    return finish(fields, recipe, shape, layers, extra=(learned,))


def gpt_neo(fields: Fields) -> Network:
    """GPT-Neo: every other layer attends to a window."""
    recipe, shape = replace(_BIASED, qkv_bias=False, modules=_MODULES), Shape.read(fields)
    kinds = fields.value("attention_types")
    if not isinstance(kinds, list):
        raise fields.error("attention_types", "a list such as [[['global', 'local'], 12]]")
    listed = [name for names, count in kinds for _ in range(count) for name in names]
    if len(listed) < shape.layers:
        raise fields.error("attention_types", f"one entry for each of {shape.layers} layers")
    window = fields.integer("window_size")
    full = _layers(fields, recipe, shape)[0]
    local = attention(fields, recipe, shape, window).cache()
    layers = tuple(
        replace(full, cache=local) if name == "local" else full for name in listed[: shape.layers]
    )
    learned = _positions(fields.integer("max_position_embeddings"), shape.hidden)
    return finish(fields, recipe, shape, layers, extra=(learned,))


def gptj(fields: Fields) -> Network:
    """GPT-J and CodeGen: one norm a layer, a bias on the output layer."""
    recipe = replace(_BIASED, qkv_bias=False, o_bias=False, norms=1, head_bias=True)
    shape = Shape.read(fields)
    return finish(fields, recipe, shape, _layers(fields, recipe, shape))


def gpt_neox(fields: Fields) -> Network:
    """GPT-NeoX (Pythia)."""
    bias = fields.flag("attention_bias", default=True)
    recipe, shape = replace(_BIASED, qkv_bias=bias, o_bias=bias), Shape.read(fields)
    return finish(fields, recipe, shape, _layers(fields, recipe, shape))


def bloom(fields: Fields) -> Network:
    """BLOOM: a norm on the embedding."""
    shape = Shape.read(fields)
    extra = (norms(shape.hidden, 1, bias=True),)
    return finish(fields, _BIASED, shape, _layers(fields, _BIASED, shape), extra=extra)


def opt(fields: Fields) -> Network:
    """OPT: two positions more than stated, embeddings that may be narrower than the layers."""
    bias = fields.flag("enable_bias", default=True)
    affine = fields.flag("layer_norm_elementwise_affine", default=True)
    recipe = replace(
        _BIASED, qkv_bias=bias, o_bias=bias, mlp_bias=bias, norm_bias=affine, norm_params=affine
    )
    shape = Shape.read(fields)
    width = fields.optional("word_embed_proj_dim") or shape.hidden
    last = fields.flag("do_layer_norm_before", default=True)
    last = last and not fields.flag("_remove_final_layer_norm")
    mixer = attention(fields, recipe, shape)
    ffn = mlp(fields, recipe, shape.hidden)
    norm = norms(shape.hidden, 2 * affine, bias=affine)
    layer = Layer((*mixer.pieces(), *ffn.pieces(), norm), mixer.cache())
    narrow = width != shape.hidden
    outer = (
        Piece("token embedding", size(shape.vocab, width)),
        Piece("output layer", size(shape.vocab, width).when(not shape.tied)),
        _positions(fields.integer("max_position_embeddings") + 2, shape.hidden),
        Piece("embedding projections", size(2, width, shape.hidden).when(narrow)),
        norms(shape.hidden, 1 * (last and affine), bias=True),
    )
    network = finish(fields, recipe, shape, (layer,) * shape.layers)
    return replace(network, outer=outer)


def falcon(fields: Fields) -> Network:
    """Falcon 7B (one key-value head), 40B and 180B (groups), RW (all heads)."""
    hidden, heads = fields.integer(*HIDDEN), fields.integer(*HEADS)
    # the first 40B files have no switch: grouped heads and two norms are what their type means
    first_40b = fields.text("model_type") == "RefinedWeb"
    grouped = fields.flag("new_decoder_architecture", default=first_40b)
    kv_heads = heads
    if grouped:
        kv_heads = fields.optional("num_kv_heads", "n_head_kv") or heads
    elif fields.flag("multi_query", default=True):
        kv_heads = 1
    shape = Shape(
        hidden=hidden,
        layers=fields.integer(*LAYERS),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=hidden // heads,
        vocab=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
    )
    bias = fields.flag("bias")
    parallel = fields.flag("parallel_attn", default=True)
    two = fields.optional("num_ln_in_parallel_attn") != 1 if grouped else not parallel
    recipe = replace(_BIASED, qkv_bias=bias, o_bias=bias, mlp_bias=bias, norms=2 if two else 1)
    return finish(fields, recipe, shape, _layers(fields, recipe, shape))


def mpt(fields: Fields) -> Network:
    """MPT."""
    inner = fields.inner("attn_config")
    bias = not fields.flag("no_bias", default=True)
    shape = Shape.read(fields)
    if inner.optional("kv_n_heads"):
        shape = replace(shape, kv_heads=inner.integer("kv_n_heads"))
    width = fields.integer("expansion_ratio") * shape.hidden
    recipe = replace(_BIASED, qkv_bias=bias, o_bias=bias, norm_bias=bias)
    mixer = attention(fields, recipe, shape)
    ffn = Mlp(shape.hidden, width, gated=False, bias=bias)
    layer = Layer((*mixer.pieces(), *ffn.pieces(), norms(shape.hidden, 2, bias)), mixer.cache())
    return finish(fields, recipe, shape, (layer,) * shape.layers)


def qwen1(fields: Fields) -> Network:
    """Qwen of 2023: all heads, biases on queries, keys and values, an MLP half as wide as said."""
    shape = Shape.read(fields)
    channels = fields.optional("kv_channels")
    shape = replace(shape, kv_heads=shape.heads, head_dim=channels or shape.head_dim)
    stated = fields.integer("intermediate_size")
    bias = not fields.flag("no_bias", default=True)
    recipe = Recipe(qkv_bias=True, o_bias=bias)
    mixer = attention(fields, recipe, shape)
    ffn = Mlp(shape.hidden, stated // 2, bias=bias)
    layer = Layer((*mixer.pieces(), *ffn.pieces(), norms(shape.hidden, 2)), mixer.cache())
    network = finish(fields, recipe, shape, (layer,) * shape.layers)
    half = f"intermediate_size {stated} is the width of gate and up together: {stated // 2} each."
    return network.noting(half, "No field for KV heads in this family: every head has its own.")


def chatglm(fields: Fields) -> Network:
    """ChatGLM 2 and 3, GLM-4 of 2024: groups of key-value heads, biases on the fused matrix."""
    hidden, heads = fields.integer("hidden_size"), fields.integer(*HEADS)
    grouped = fields.flag("multi_query_attention")
    shape = Shape(
        hidden=hidden,
        layers=fields.integer("num_layers", "num_hidden_layers"),
        heads=heads,
        kv_heads=fields.integer("multi_query_group_num") if grouped else heads,
        head_dim=fields.optional("kv_channels") or hidden // heads,
        vocab=fields.integer("padded_vocab_size", "vocab_size"),
        tied=fields.flag("tie_word_embeddings"),
    )
    bias = fields.flag("add_bias_linear")
    recipe = Recipe(qkv_bias=bias or fields.flag("add_qkv_bias"), o_bias=bias)
    mixer = attention(fields, recipe, shape)
    ffn = Mlp(hidden, fields.integer("ffn_hidden_size"), bias=bias)
    layer = Layer((*mixer.pieces(), *ffn.pieces(), norms(hidden, 2)), mixer.cache())
    layers = (layer,) * shape.layers
    buffer = Piece("vectors", size(shape.head_dim // 4))  # rotary frequencies, stored
    return finish(fields, recipe, shape, layers, extra=(buffer,))


def dbrx(fields: Fields) -> Network:
    """DBRX: sizes of attention and experts in objects of their own."""
    shape = Shape.read(fields)
    mixing, ffn = fields.inner("attn_config"), fields.inner("ffn_config")
    kv_heads = mixing.optional("kv_n_heads") or shape.heads
    mixer = Attention(shape.hidden, shape.heads, kv_heads, shape.head_dim)
    expert = Mlp(shape.hidden, ffn.integer("ffn_hidden_size"))
    count, used = ffn.integer("moe_num_experts"), ffn.integer("moe_top_k")
    routed = Experts(expert, count, used)
    pieces = (*mixer.pieces(), *routed.pieces(), norms(shape.hidden, 2))
    layers = (Layer(pieces, mixer.cache()),) * shape.layers
    return replace(
        finish(fields, Recipe(mtp=False), replace(shape, kv_heads=kv_heads), ()),
        layers=layers,
        experts=count,
        experts_per_token=used,
        modules={"routed experts": ("ffn.experts",), "router": ("ffn.router",)},
    )


GPTS: dict[str, Callable[[Fields], Network]] = {
    "gpt2": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "gpt_neo": gpt_neo,
    "gpt_neox": gpt_neox,
    "gptj": gptj,
    "codegen": gptj,
    "bloom": bloom,
    "opt": opt,
    "falcon": falcon,
    "RefinedWeb": falcon,
    "RefinedWebModel": falcon,
    "mpt": mpt,
    "qwen": qwen1,
    "chatglm": chatglm,
    "dbrx": dbrx,
}
