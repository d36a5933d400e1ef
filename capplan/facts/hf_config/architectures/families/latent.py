"""Multi-head latent attention, and the families built on it (DeepSeek, Kimi, GLM 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from capplan.facts.hf_config.architectures.blocks import norms
from capplan.facts.hf_config.architectures.layers import after_dense
from capplan.facts.hf_config.architectures.network import Layer, Network, Piece, Sum, each, size
from capplan.facts.hf_config.architectures.recipe import (
    BIASED,
    Moe,
    Recipe,
    decoder,
    experts,
    finish,
    mlp,
)
from capplan.facts.hf_config.architectures.shape import EXPERTS, HEADS, HIDDEN, LAYERS, Shape
from capplan.facts.hf_config.fields import Fields
from capplan.schema.cache import CacheKind, CacheLayers


@dataclass(frozen=True)
class Indexer:
    """DeepSeek sparse attention: picks the tokens that attention reads."""

    heads: int
    head_dim: int

    def pieces(self, hidden: int, q_rank: int) -> tuple[Piece, ...]:
        """Return its matrices and its norm."""
        width = self.heads * self.head_dim
        matrices = size(q_rank, width) + size(hidden, self.head_dim) + size(hidden, self.heads)
        return Piece("indexer", matrices), Piece("norms", size(2, self.head_dim))

    def cache(self) -> CacheLayers:
        """Return the keys it keeps: one byte an element and a 4-byte scale for each 128.

        So vLLM stores them whatever the KV dtype (its DeepSeek V3.2 support): 132 bytes at 128.
        """
        scales = 4 * -(-self.head_dim // 128)
        return CacheLayers(
            kind=CacheKind.LATENT, layers=1, elements=self.head_dim + scales, element_bytes=1.0
        )


@dataclass(frozen=True)
class Mla:
    """Latent attention: keys and values are rebuilt from one vector a token."""

    hidden: int
    heads: int
    q_rank: int
    """0: queries come straight from the hidden state."""
    kv_rank: int
    nope: int
    rope: int
    value_dim: int
    bias: bool = False
    gate: int = 0
    """Outputs of a gate on the result."""
    gate_low_rank: int = 0
    """Outputs of a gate that reads the queries' latent."""
    norm_q: bool = True

    def pieces(self) -> tuple[Piece, ...]:
        """Return matrices, biases and norms."""
        q_out = self.heads * (self.nope + self.rope)
        q = size(self.hidden, q_out)
        if self.q_rank:
            q = size(self.hidden, self.q_rank) + size(self.q_rank, q_out + self.gate_low_rank)
        kv_out = self.heads * (self.nope + self.value_dim)
        kv = size(self.hidden, self.kv_rank + self.rope) + size(self.kv_rank, kv_out)
        joined = self.heads * self.value_dim
        out = size(joined, self.hidden) + size(self.hidden, self.gate)
        biases = size(self.q_rank) + size(self.kv_rank + self.rope) + size(self.hidden)
        return (
            Piece("attention", q + kv + out),
            Piece("biases", biases.when(self.bias)),
            Piece("norms", size(self.q_rank).when(self.norm_q) + size(self.kv_rank)),
        )

    def cache(self) -> CacheLayers:
        """Return the latent and the rotary key, one of each for all heads."""
        return CacheLayers(kind=CacheKind.LATENT, layers=1, elements=self.kv_rank + self.rope)


def read_mla(fields: Fields) -> Mla:
    """Read latent attention."""
    return Mla(
        hidden=fields.integer(*HIDDEN),
        heads=fields.integer(*HEADS),
        q_rank=fields.optional("q_lora_rank") or 0,
        kv_rank=fields.integer("kv_lora_rank"),
        nope=fields.integer("qk_nope_head_dim"),
        rope=fields.integer("qk_rope_head_dim"),
        value_dim=fields.integer("v_head_dim"),
        bias=fields.flag("attention_bias"),
    )


def mla_shape(fields: Fields) -> Shape:
    """Read the sizes of a decoder whose heads have no single size."""
    heads = fields.integer(*HEADS)
    return Shape(
        hidden=fields.integer(*HIDDEN),
        layers=fields.integer(*LAYERS),
        heads=heads,
        kv_heads=heads,
        head_dim=0,
        vocab=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
    )


_MOE = Moe(
    shared_count=("n_shared_experts", "num_shared_experts"),
    sparse=after_dense("first_k_dense_replace"),
)


@dataclass(frozen=True)
class Latent:
    """What distinguishes one family on latent attention from another."""

    correction: bool = True
    """The router stores a balancing bias an expert (DeepSeek V3; V2 has none)."""
    indexer: bool = False
    norms: int = 2
    sparse_norms: int = 0
    """Further norms of sparse layers."""


def _indexers(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Return which layers have an indexer of their own; others reuse the last one's choice."""
    kinds = fields.texts("indexer_types")
    if kinds:
        if len(kinds) < layers:
            raise fields.error("indexer_types", f"one entry for each of {layers} layers")
        return tuple(kind == "full" for kind in kinds[:layers])
    pattern = fields.text("index_topk_pattern")
    if pattern:
        return tuple(pattern[index] == "F" for index in range(layers))
    every = fields.optional("index_topk_freq") or 1
    first = fields.optional("index_skip_topk_offset")
    start = 2 if first is None else first
    return tuple(max(index - start + 1, 0) % every == 0 for index in range(layers))


def latent_decoder(family: Latent) -> Callable[[Fields], Network]:
    """Return the reader of a family on latent attention."""

    def read(fields: Fields) -> Network:
        if not fields.flag("use_mla", default=True):  # DeepSeek-OCR: V2's experts, plain heads
            moe = replace(_MOE, correction=family.correction)
            return decoder(fields, replace(BIASED, moe=moe))
        shape, mixer = mla_shape(fields), read_mla(fields)
        sparse = _MOE.sparse(fields, shape.layers) if fields.optional(*EXPERTS) else ()
        routed = sparse or (False,) * shape.layers
        own = _indexers(fields, shape.layers) if family.indexer else (False,) * shape.layers
        layers = each(partial(_layer, fields, family, mixer), routed, own)
        last = _layer(fields, family, mixer, routed[-1], family.indexer)
        return finish(fields, Recipe(), shape, layers, last)

    return read


def _layer(fields: Fields, family: Latent, mixer: Mla, sparse: bool, indexer: bool) -> Layer:
    recipe = Recipe(mlp_bias="mlp_bias")
    if sparse:
        moe = replace(_MOE, correction=family.correction)
        ffn = experts(fields, moe, mixer.hidden).pieces()
    else:
        ffn = mlp(fields, recipe, mixer.hidden).pieces()
    count = family.norms + family.sparse_norms * sparse
    pieces = (*mixer.pieces(), *ffn, norms(mixer.hidden, count))
    if not indexer:
        return Layer(pieces, (mixer.cache(),))
    own = Indexer(fields.integer("index_n_heads"), fields.integer("index_head_dim"))
    return Layer((*pieces, *own.pieces(mixer.hidden, mixer.q_rank)), (mixer.cache(), own.cache()))


def longcat(fields: Fields) -> Network:
    """LongCat Flash: two attentions and two MLPs a layer, experts of which some do nothing."""
    shape, mixer = mla_shape(fields), read_mla(fields)
    width, idle = fields.integer("expert_ffn_hidden_size"), fields.optional("zero_expert_num") or 0
    count, used = fields.integer("n_routed_experts"), fields.integer("moe_topk")
    expert = size(3, shape.hidden, width)
    dense = size(3, shape.hidden, fields.integer("ffn_hidden_size", "intermediate_size"))
    once = (*mixer.pieces(), Piece("MLP", dense), norms(shape.hidden, 2))
    router_bias = Sum().when(False) + size(count + idle).when(fields.flag("router_bias"))
    layer = Layer(
        (
            *once,
            *once,
            Piece("routed experts", expert.times(count), expert.times(min(used, count))),
            Piece("router", size(shape.hidden, count + idle)),
            Piece("biases", size(count + idle) + router_bias),
        ),
        (mixer.cache(), mixer.cache()),
    )
    network = finish(fields, Recipe(), shape, (layer,) * shape.layers)
    note = f"{idle} further experts have no parameters: a token that picks them reads less."
    return replace(network, experts=count, experts_per_token=used).noting(note)


LATENT: dict[str, Callable[[Fields], Network]] = {
    "deepseek_v2": latent_decoder(Latent(correction=False)),
    "deepseek_v3": latent_decoder(Latent()),
    "deepseek_v32": latent_decoder(Latent(indexer=True)),
    "kimi_k2": latent_decoder(Latent()),
    "glm_moe_dsa": latent_decoder(Latent(indexer=True)),
    "glm4_moe_lite": latent_decoder(Latent()),
    "axk1": latent_decoder(Latent(sparse_norms=1)),
    "sarvam_mla": latent_decoder(Latent()),
    "minicpm3": latent_decoder(Latent()),
    "youtu": latent_decoder(Latent()),
    "youtu_llm": latent_decoder(Latent()),
    "longcat_flash": longcat,
}
