"""Blocks that most LLMs are made of: attention, MLP, experts, norms."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.facts.hf_config.architectures.network import Piece, Sum, size
from capplan.schema.cache import CacheKind, CacheLayers


@dataclass(frozen=True)
class Attention:
    """Softmax attention with any grouping of its heads."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int = 0
    """0: as ``head_dim``."""
    q_bias: bool = False
    kv_bias: bool = False
    o_bias: bool = False
    norms: int = 0
    """Elements of norms on queries, keys and values."""
    gate: int = 0
    """Outputs of a gate on the attention's result."""
    sinks: bool = False
    """One learned value a head that joins the softmax."""
    window: int | None = None
    own_kv: bool = True
    """False where keys and values are taken from an earlier layer."""
    own_v: bool = True
    """False where the keys serve as values."""

    @property
    def value_dim(self) -> int:
        """Elements of a value."""
        return self.v_head_dim or self.head_dim

    def pieces(self) -> tuple[Piece, ...]:
        """Return matrices, biases and norms."""
        q_out, k_out = self.heads * self.head_dim, self.kv_heads * self.head_dim
        v_out, joined = self.kv_heads * self.value_dim, self.heads * self.value_dim
        matrices = [size(self.hidden, q_out), size(self.hidden, self.gate)]
        biases = [size(q_out).when(self.q_bias), size(self.heads).when(self.sinks)]
        if self.own_kv:
            matrices += [size(self.hidden, k_out), size(self.hidden, v_out).when(self.own_v)]
            biases += [size(k_out), size(v_out).when(self.own_v)] if self.kv_bias else []
        matrices.append(size(joined, self.hidden))
        biases.append(size(self.hidden).when(self.o_bias))
        return (
            Piece("attention", sum(matrices, Sum())),
            Piece("biases", sum(biases, Sum())),
            Piece("norms", size(self.norms)),
        )

    def cache(self) -> tuple[CacheLayers, ...]:
        """Return keys and values of every token, or of the last ones."""
        if not self.own_kv:
            return ()
        kind = CacheKind.FULL if self.window is None else CacheKind.WINDOW
        elements = self.head_dim + self.value_dim
        group = CacheLayers(
            kind=kind, layers=1, heads=self.kv_heads, elements=elements, window=self.window
        )
        return (group,)


@dataclass(frozen=True)
class Mlp:
    """A feed-forward block."""

    hidden: int
    width: int
    gated: bool = True
    bias: bool = False
    out_bias: bool | None = None
    """Bias of the last matrix; None: as the others."""

    def matrices(self) -> Sum:
        """Return its matrices."""
        return size(3 if self.gated else 2, self.hidden, self.width)

    def biases(self) -> Sum:
        """Return its biases."""
        inner = size(self.width).times(2 if self.gated else 1).when(self.bias)
        return inner + size(self.hidden).when(self._out_bias)

    @property
    def _out_bias(self) -> bool:
        return self.bias if self.out_bias is None else self.out_bias

    def pieces(self, part: str = "MLP") -> tuple[Piece, ...]:
        """Return matrices and biases."""
        return Piece(part, self.matrices()), Piece("biases", self.biases())


@dataclass(frozen=True)
class Experts:
    """Experts of which a router picks some for each token."""

    expert: Mlp
    count: int
    used: int
    shared: Mlp | None = None
    shared_gate: bool = False
    """A gate with one output on the shared experts."""
    router_bias: bool = False
    router_width: int = 0
    """Inputs of the router; 0: as the experts."""
    extra: int = 0
    """Other parameters of the router: correction biases, scales."""

    def pieces(self) -> tuple[Piece, ...]:
        """Return experts, shared experts and router."""
        one, bias = self.expert.matrices(), self.expert.biases()
        inputs = self.router_width or self.expert.hidden
        router = size(inputs, self.count) + size(inputs).when(self.shared_gate)
        other = size(self.count).when(self.router_bias) + size(self.extra)
        shared = () if self.shared is None else self.shared.pieces("shared experts")
        return (
            Piece("routed experts", one.times(self.count), one.times(self.used)),
            Piece("expert biases", bias.times(self.count), bias.times(self.used)),
            *shared,
            Piece("router", router),
            Piece("biases", other),
        )


def norms(hidden: int, count: int, bias: bool = False) -> Piece:
    """Return so many norms of the hidden size."""
    return Piece("norms", size(hidden).times(count) + size(hidden).times(count).when(bias))


def embeddings(vocab: int, hidden: int, tied: bool, bias: bool = False) -> tuple[Piece, ...]:
    """Return the token embedding and, unless it is the same matrix, the output layer."""
    return (
        Piece("token embedding", size(vocab, hidden)),
        Piece("output layer", size(vocab, hidden).when(not tied)),
        Piece("biases", size(vocab).when(bias)),
    )
