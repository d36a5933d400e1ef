"""A transformer layer of a drafting head: plain attention on one input or two, a gated MLP."""

from __future__ import annotations

from capplan.errors import FactsError
from capplan.facts.hf_config.architectures.blocks import Attention, Mlp, norms
from capplan.facts.hf_config.architectures.network import Layer, Piece, Sum, size
from capplan.facts.hf_config.fields import Fields
from capplan.facts.hf_config.heads.kinds import HeadConfig

_NORMED_QUERIES = frozenset({"qwen3", "qwen3_vl_text", "gemma3"})
_REMEDY = "State its sizes in a row of models_db/models; CONTRIBUTING.md shows how."


def _attention(fields: Fields, hidden: int, inputs: int, normed: bool) -> Attention:
    heads = fields.integer("num_attention_heads")
    head_dim = fields.optional("head_dim") or hidden // heads
    if not head_dim:
        raise fields.error("head_dim", "a whole number above 0")
    bias = fields.flag("attention_bias")
    return Attention(
        hidden=inputs,
        heads=heads,
        kv_heads=fields.optional("num_key_value_heads") or heads,
        head_dim=head_dim,
        q_bias=bias,
        kv_bias=bias,
        norms=2 * head_dim if normed else 0,
        window=_window(fields),
    )


def _window(fields: Fields) -> int | None:
    kinds = fields.texts("layer_types")
    sliding = bool(kinds) and all(kind == "sliding_attention" for kind in kinds)
    return fields.optional("sliding_window") if sliding else None


def _mixer(
    head: HeadConfig, hidden: int, inputs: int, normed: bool
) -> tuple[tuple[Piece, ...], Attention]:
    """Return the attention's pieces: queries, keys and values may read a wider input."""
    attention = _attention(head.layer, hidden, inputs, normed)
    joined = attention.heads * attention.head_dim
    # the block takes its output to be as wide as its input: bring the last matrix to the truth
    pieces = [
        Piece(piece.part, _narrowed(piece.total, joined, inputs, hidden))
        if piece.part == "attention"
        else piece
        for piece in attention.pieces()
    ]
    return tuple(pieces), attention


def _narrowed(total: Sum, joined: int, inputs: int, hidden: int) -> Sum:
    if inputs == hidden:
        return total
    wrong, right = size(joined, inputs), size(joined, hidden)
    text = total.text.rpartition(" + ")[0]
    return Sum(total.value - wrong.value, text) + right


def decoder_layer(head: HeadConfig, hidden: int, inputs: int, extra_norms: int) -> Layer:
    """Return one layer.

    Parameters
    ----------
    hidden
        Width of the layer's output.
    inputs
        Width of what queries, keys and values read: twice the hidden size in EAGLE-3's first.
    extra_norms
        Norms of the hidden size besides two.

    Raises
    ------
    FactsError
        If it has latent attention or experts.
    """
    fields = head.layer
    if fields.optional("kv_lora_rank") or fields.optional("num_experts", "n_routed_experts"):
        raise FactsError(
            f"{fields.where}: a head with latent attention or experts is not counted.",
            _REMEDY,
        )
    normed = fields.text("model_type") in _NORMED_QUERIES
    pieces, attention = _mixer(head, hidden, inputs, normed)
    width = fields.integer("intermediate_size")
    mlp = Mlp(hidden, width, bias=fields.flag("mlp_bias")).pieces()
    return Layer((*pieces, *mlp, norms(hidden, 2 + extra_norms)), attention.cache())
