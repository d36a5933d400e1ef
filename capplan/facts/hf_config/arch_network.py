"""A network as layers of pieces, and its pieces added up to parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from capplan.facts.hf_config.arch_sums import Sum, add
from capplan.facts.hf_config.parts import Part
from capplan.schema.cache import CacheKind, CacheLayers

MODULES: Mapping[str, tuple[str, ...]] = {
    "token embedding": ("embed_tokens",),
    "position embedding": ("embed_positions",),
    "per-layer embedding": ("embed_tokens_per_layer", "per_layer_model_projection"),
    "attention": ("self_attn",),
    "indexer": ("self_attn.indexer",),
    "linear attention": ("linear_attn",),
    "state space": ("mamba", "mixer"),
    "short convolution": ("conv",),
    "MLP": ("mlp",),
    "routed experts": ("mlp.experts", "block_sparse_moe.experts"),
    "shared experts": ("mlp.shared_experts", "mlp.shared_expert", "shared_mlp"),
    "router": ("mlp.gate", "block_sparse_moe.gate", "mlp.router"),
    "projections": ("eh_proj",),
    "output layer": ("lm_head",),
}
"""Names under which quantisation settings know a part, in the usual checkpoints."""

MATRICES = frozenset(
    {
        *("attention", "indexer", "linear attention", "state space", "short convolution"),
        *("MLP", "routed experts", "shared experts", "router", "projections", "output layer"),
    }
)
"""Parts made of linear layers, which a scheme may quantise. Embeddings are looked up, norms,
biases and a state-space layer's vectors stay in 16 bit."""


@dataclass(frozen=True)
class Piece:
    """Parameters of one kind in one layer, or outside all layers."""

    part: str
    total: Sum
    active: Sum | None = None
    """What of it is read for one token; None: all."""

    @property
    def read(self) -> Sum:
        """What of it is read for one token."""
        return self.total if self.active is None else self.active


@dataclass(frozen=True)
class Layer:
    """One layer: what it holds and what it keeps of the tokens seen."""

    pieces: tuple[Piece, ...]
    cache: tuple[CacheLayers, ...] = ()
    """Groups of one layer each; none where nothing is kept."""


@dataclass(frozen=True)
class Network:
    """All of an LLM, before anything is added up."""

    family: str
    hidden: int
    heads: int | None
    vocab_size: int
    tied: bool
    layers: tuple[Layer, ...]
    outer: tuple[Piece, ...]
    """Embeddings, last norm, output layer."""
    max_context: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    mtp: tuple[Layer, ...] = ()
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that differ from :data:`MODULES` in this family's checkpoints."""
    notes: tuple[str, ...] = ()

    def noting(self, *notes: str) -> Network:
        """Return the network with further notes."""
        return replace(self, notes=(*self.notes, *notes))


def add_up(
    layers: Iterable[Layer], outer: Iterable[Piece], modules: Mapping[str, tuple[str, ...]]
) -> tuple[Part, ...]:
    """Return parts, each the sum of its pieces over all layers."""
    groups = [*(layer.pieces for layer in layers), tuple(outer)]
    found = dict.fromkeys(piece.part for pieces in groups for piece in pieces)
    names = sorted(found, key=lambda name: "embedding" not in name)  # they come first
    parts = (_part(name, groups, modules) for name in names)
    return tuple(part for part in parts if part.params)


def _part(
    name: str, groups: list[tuple[Piece, ...]], modules: Mapping[str, tuple[str, ...]]
) -> Part:
    own = [[piece for piece in pieces if piece.part == name] for pieces in groups]
    total = add(add(piece.total for piece in pieces) for pieces in own)
    active = add(add(piece.read for piece in pieces) for pieces in own)
    return Part(
        name=name,
        params=total.value,
        active=active.value,
        how=total.text,
        modules=modules.get(name, MODULES.get(name, ())),
        quantisable=name in MATRICES,
    )


def group_caches(layers: Iterable[Layer]) -> tuple[CacheLayers, ...]:
    """Return what the layers keep, with layers alike counted together."""
    return merge_caches(group for layer in layers for group in layer.cache)


def merge_caches(groups: Iterable[CacheLayers]) -> tuple[CacheLayers, ...]:
    """Return groups with those that differ in the number of layers alone made one, by kind."""
    counts: dict[CacheLayers, int] = {}
    for group in groups:
        alike = group.model_copy(update={"layers": 1})
        counts[alike] = counts.get(alike, 0) + group.layers
    kinds = list(CacheKind)
    alike_by_kind = sorted(counts, key=lambda group: kinds.index(group.kind))
    return tuple(group.model_copy(update={"layers": counts[group]}) for group in alike_by_kind)
