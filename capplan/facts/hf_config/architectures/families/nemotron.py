"""Nemotron-H and Nemotron 3: layers of one block each, named by letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from capplan.facts.hf_config.architectures.blocks import Experts, Mlp, norms
from capplan.facts.hf_config.architectures.families.hybrid import softmax
from capplan.facts.hf_config.architectures.layers import layer_kinds
from capplan.facts.hf_config.architectures.network import Layer, Network, Piece, size
from capplan.facts.hf_config.architectures.recipe import LLAMA, PLAIN, finish
from capplan.facts.hf_config.architectures.shape import EXPERTS, MTP, USED, Shape
from capplan.facts.hf_config.architectures.stateful import Mamba2, state_precision
from capplan.facts.hf_config.fields import Fields

_LETTERS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}


def nemotron_h(fields: Fields) -> Network:
    """Nemotron-H and Nemotron 3: each layer is Mamba 2, attention, an MLP or experts alone."""
    shape = replace(Shape.read(_with_layers(fields)), layers=len(_kinds(fields)))
    blocks, note = _nemotron_blocks(fields, shape)
    layers = tuple(blocks[kind] for kind in _kinds(fields))
    network = finish(fields, PLAIN, shape, layers)
    sparse = "moe" in _kinds(fields)
    return replace(
        network,
        experts=fields.integer(*EXPERTS) if sparse else None,
        experts_per_token=fields.integer(*USED) if sparse else None,
        mtp=_nemotron_mtp(fields, shape.hidden, blocks),
    ).noting(note)


def _with_layers(fields: Fields) -> Fields:
    """Return fields that state the number of layers and one name for the size of a head."""
    config = {**fields.config, "num_hidden_layers": len(_kinds(fields))}
    if not fields.has("head_dim") and fields.has("attention_head_dim"):
        config["head_dim"] = fields.config["attention_head_dim"]
    return replace(fields, config=config)


def _kinds(fields: Fields, pattern: str = "hybrid_override_pattern") -> tuple[str, ...]:
    letters = fields.text(pattern)
    if letters:
        if unknown := set(letters) - set(_LETTERS):
            raise fields.error(pattern, f"letters of {''.join(_LETTERS)}, not {unknown}")
        return tuple(_LETTERS[letter] for letter in letters)
    name = "layer_types" if fields.has("layer_types") else "layers_block_type"
    kinds = layer_kinds(fields, len(fields.texts(name)), name)
    if not kinds:
        raise fields.error("hybrid_override_pattern", "the kind of each layer")
    return _current(fields, name, kinds)


def _current(fields: Fields, name: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return kinds under their present names; files of before 2026 have others."""
    legacy = {"mamba": "linear_attention", "attention": "full_attention"}
    current = tuple(legacy.get(kind, kind) for kind in kinds)
    if not set(current) <= set(_LETTERS.values()):
        raise fields.error(name, f"kinds of {', '.join(_LETTERS.values())}")
    return current


def _nemotron_blocks(fields: Fields, shape: Shape) -> tuple[dict[str, Layer], str]:
    mixer = Mamba2(
        hidden=shape.hidden,
        heads=fields.integer("mamba_num_heads"),
        head_dim=fields.integer("mamba_head_dim"),
        groups=fields.integer("n_groups"),
        state=fields.integer("ssm_state_size"),
        kernel=fields.integer("conv_kernel"),
        bias=fields.flag("use_bias") or fields.flag("mamba_proj_bias"),
        conv_bias=fields.flag("use_conv_bias", default=True),
    )
    *bytes_, note = state_precision(fields, "mamba_ssm_cache_dtype", default="float32")
    one = norms(shape.hidden, 1)
    pieces, cache = softmax(fields, LLAMA, shape)
    bias, width = fields.flag("mlp_bias"), fields.optional("intermediate_size")
    dense = Mlp(shape.hidden, width or 0, gated=False, bias=bias)
    blocks = {
        "linear_attention": Layer((*mixer.pieces(), one), (mixer.cache((bytes_[0], bytes_[1])),)),
        "full_attention": Layer((*pieces, one), cache),
        "mlp": Layer((*dense.pieces(), one)),
    }
    if "moe" in _kinds(fields) or fields.optional(*EXPERTS):
        blocks["moe"] = Layer((*_nemotron_experts(fields, shape.hidden, bias), one))
    return blocks, note


def _nemotron_experts(fields: Fields, hidden: int, bias: bool) -> tuple[Piece, ...]:
    """Return experts that may work on a smaller latent vector than the hidden state."""
    latent = fields.optional("moe_latent_size") or 0
    count = fields.integer(*EXPERTS)
    shared = fields.optional("n_shared_experts") or 0
    shared_width = fields.optional("moe_shared_expert_intermediate_size") or 0
    routed = Experts(
        expert=Mlp(latent or hidden, fields.integer("moe_intermediate_size"), False, bias),
        count=count,
        used=fields.integer(*USED),
        shared=Mlp(hidden, shared_width, gated=False, bias=bias) if shared else None,
        router_width=hidden,
        extra=count,
    )
    projections = size(2, hidden, latent), (size(latent) + size(hidden)).when(bias and latent > 0)
    return (
        *routed.pieces(),
        Piece("projections", projections[0]),
        Piece("biases", projections[1]),
    )


def _nemotron_mtp(fields: Fields, hidden: int, blocks: dict[str, Layer]) -> tuple[Layer, ...]:
    count = fields.optional(*MTP) or 0
    if not count:
        return ()
    name = "mtp_hybrid_override_pattern"
    listed = "mtp_layers_block_type"
    if fields.has(name):
        kinds = _kinds(fields, name)
    else:
        kinds = _current(fields, listed, fields.texts(listed))
    if not kinds:
        raise fields.error(name, "the kinds of the MTP layers")
    if "moe" in kinds and "moe" not in blocks:
        raise fields.error(EXPERTS[2], "the number of experts of the MTP layer")
    projection = Piece("projections", size(2 * hidden, hidden))
    inner = [blocks[kind] for kind in kinds]
    pieces = tuple(piece for layer in inner for piece in layer.pieces)
    cache = tuple(group for layer in inner for group in layer.cache)
    return (Layer((*pieces, projection, norms(hidden, 3)), cache),) * count


NEMOTRONS: dict[str, Callable[[Fields], Network]] = {"nemotron_h": nemotron_h}
