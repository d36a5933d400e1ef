"""The sizes that every decoder has, and the names that their fields go by."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.facts.hf_config.fields import Fields

HIDDEN = ("hidden_size", "n_embd", "d_model", "n_embed")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
WIDTH = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
USED = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts")
MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")


@dataclass(frozen=True)
class Shape:
    """The sizes that every decoder has."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool

    @classmethod
    def read(cls, fields: Fields) -> Shape:
        """Read sizes; absent KV heads mean one a query head, an absent head size a division.

        Raises
        ------
        FactsError
            If a size is absent or heads do not divide as they must.
        """
        hidden, heads = fields.integer(*HIDDEN), fields.integer(*HEADS)
        kv_heads = fields.optional(*KV_HEADS) or heads
        if heads % kv_heads:
            raise fields.error(KV_HEADS[0], f"a divisor of {heads} attention heads")
        head_dim = fields.optional("head_dim")
        if not head_dim and hidden % heads:
            raise fields.error("head_dim", f"a number: {heads} heads do not divide {hidden}")
        return cls(
            hidden=hidden,
            layers=fields.integer(*LAYERS),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim or hidden // heads,
            vocab=fields.integer("vocab_size"),
            tied=fields.flag("tie_word_embeddings", default=True),
        )
