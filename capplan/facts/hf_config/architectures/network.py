"""A network as layers of pieces, and its pieces added up to parts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

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
class Sum:
    """A number of parameters and the sum behind it, written in numbers."""

    value: int = 0
    text: str = ""

    def __add__(self, other: Sum) -> Sum:
        """Add two; nothing is not written."""
        if not self.value or not other.value:
            return other if not self.value else self
        return Sum(self.value + other.value, f"{self.text} + {other.text}")

    def times(self, count: int) -> Sum:
        """Return so many of it."""
        if count == 1 or not self.value:
            return self
        if not count:
            return Sum()
        inner = f"({self.text})" if " " in self.text else self.text
        return Sum(self.value * count, f"{count} x {inner}")

    def when(self, present: bool) -> Sum:
        """Return itself, or nothing."""
        return self if present else Sum()


def size(*dims: int) -> Sum:
    """Return a matrix or vector of this shape: ``4096 x 1024``."""
    return Sum(math.prod(dims), " x ".join(map(str, dims)))


def add(sums: Iterable[Sum]) -> Sum:
    """Add up, with equal terms written once and counted."""
    return _add_counted((one, 1) for one in sums)


def _add_counted(sums: Iterable[tuple[Sum, int]]) -> Sum:
    counts: Counter[Sum] = Counter()
    for one, count in sums:
        counts[one] += count
    total = Sum()
    for one, count in counts.items():
        total = total + one.times(count)
    return total


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


def each(make: Callable[..., Layer], *arguments: Iterable[object]) -> tuple[Layer, ...]:
    """Return a layer for each row of arguments; equal rows share one layer, which is quick.

    Raises
    ------
    ValueError
        If one list of arguments is longer than another.
    """
    rows = list(zip(*arguments, strict=True))
    made = {row: make(*row) for row in dict.fromkeys(rows)}
    return tuple(made[row] for row in rows)


def _counted(layers: Iterable[Layer]) -> list[tuple[Layer, int]]:
    """Return layers with how often the same object occurs, in order of appearance."""
    counts: dict[int, tuple[Layer, int]] = {}
    for layer in layers:
        counts[id(layer)] = (layer, counts.get(id(layer), (layer, 0))[1] + 1)
    return list(counts.values())


def add_up(
    layers: Iterable[Layer], outer: Iterable[Piece], modules: Mapping[str, tuple[str, ...]]
) -> tuple[Part, ...]:
    """Return parts, each the sum of its pieces over all layers."""
    groups = [*((layer.pieces, count) for layer, count in _counted(layers)), (tuple(outer), 1)]
    found = dict.fromkeys(piece.part for pieces, _ in groups for piece in pieces)
    names = sorted(found, key=lambda name: "embedding" not in name)  # they come first
    parts = (_part(name, groups, modules) for name in names)
    return tuple(part for part in parts if part.params)


def _part(
    name: str, groups: list[tuple[tuple[Piece, ...], int]], modules: Mapping[str, tuple[str, ...]]
) -> Part:
    own = [([p for p in pieces if p.part == name], count) for pieces, count in groups]
    total = _add_counted((add(p.total for p in pieces), count) for pieces, count in own)
    active = _add_counted((add(p.read for p in pieces), count) for pieces, count in own)
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
    return merge_caches(
        group.model_copy(update={"layers": group.layers * count})
        for layer, count in _counted(layers)
        for group in layer.cache
    )


def merge_caches(groups: Iterable[CacheLayers]) -> tuple[CacheLayers, ...]:
    """Return groups with those that differ in the number of layers alone made one, by kind."""
    counts: dict[CacheLayers, int] = {}
    for group in groups:
        alike = group.model_copy(update={"layers": 1})
        counts[alike] = counts.get(alike, 0) + group.layers
    kinds = list(CacheKind)
    alike_by_kind = sorted(counts, key=lambda group: kinds.index(group.kind))
    return tuple(group.model_copy(update={"layers": counts[group]}) for group in alike_by_kind)
