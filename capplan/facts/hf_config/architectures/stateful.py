"""Mixers with a state of constant size: Gated DeltaNet, Kimi Delta Attention, Mamba."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.facts.hf_config.architectures.network import Piece, Sum, size
from capplan.facts.hf_config.fields import Fields
from capplan.schema.cache import CacheKind, CacheLayers

_BYTES = {"float32": 4.0, "float": 4.0, "float16": 2.0, "bfloat16": 2.0}


def dtype_bytes(name: str) -> float:
    """Return bytes of an element; 2 where no dtype is stated."""
    return _BYTES.get(name.removeprefix("torch."), 2.0)


def state_precision(fields: Fields, *names: str, default: str = "") -> tuple[float, float, str]:
    """Return bytes of an element of the convolution's and the recurrent state, and a note.

    Parameters
    ----------
    names
        Fields that state the dtype of the recurrent state.
    default
        Its dtype where they do not; empty: the LLM's.
    """
    llm = fields.text("dtype") or fields.text("torch_dtype") or "bfloat16"
    stated = next((fields.text(name) for name in names if fields.has(name)), "")
    recurrent = stated or default or llm
    why = "as the configuration states" if stated else "as vLLM keeps it where no field states it"
    note = f"Recurrent state kept in {recurrent}, {why}; convolution state in {llm}."
    return dtype_bytes(llm), dtype_bytes(recurrent), note


def _state(
    conv_elements: int, recurrent_elements: int, bytes_: tuple[float, float]
) -> CacheLayers:
    total = conv_elements * bytes_[0] + recurrent_elements * bytes_[1]
    return CacheLayers(kind=CacheKind.STATE, layers=1, state_bytes=total)


@dataclass(frozen=True)
class DeltaNet:
    """Gated DeltaNet (Qwen3-Next, Qwen 3.5, OLMo hybrid)."""

    hidden: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int

    @classmethod
    def read(cls, fields: Fields, hidden: int) -> DeltaNet:
        """Read its sizes."""
        return cls(
            hidden,
            fields.integer("linear_num_key_heads"),
            fields.integer("linear_num_value_heads"),
            fields.integer("linear_key_head_dim"),
            fields.integer("linear_value_head_dim"),
            fields.integer("linear_conv_kernel_dim"),
        )

    @property
    def conv_width(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def pieces(self) -> tuple[Piece, ...]:
        """Return matrices and vectors."""
        values = self.value_heads * self.value_dim
        matrices = size(self.hidden, self.conv_width + values) + size(values, self.hidden)
        small = size(self.hidden, 2 * self.value_heads)  # step size and decay, too narrow to pack
        vectors = size(self.conv_width, self.kernel) + size(2, self.value_heads)
        return (
            Piece("linear attention", matrices),
            Piece("linear attention gates", small),
            Piece("vectors", vectors),
            Piece("norms", size(self.value_dim)),
        )

    def cache(self, bytes_: tuple[float, float]) -> CacheLayers:
        """Return the last inputs of the convolution and one matrix a value head."""
        recurrent = self.value_heads * self.key_dim * self.value_dim
        return _state(self.conv_width * (self.kernel - 1), recurrent, bytes_)


@dataclass(frozen=True)
class DeltaAttention:
    """Kimi Delta Attention: a decay a channel, gates of low rank."""

    hidden: int
    heads: int
    head_dim: int
    kernel: int

    def pieces(self) -> tuple[Piece, ...]:
        """Return matrices and vectors."""
        width = self.heads * self.head_dim
        low_rank = size(self.hidden, self.head_dim) + size(self.head_dim, width)
        matrices = size(4, self.hidden, width) + low_rank.times(2) + size(self.hidden, self.heads)
        vectors = size(3, width, self.kernel) + size(width) + size(self.heads)
        return (
            Piece("linear attention", matrices),
            Piece("vectors", vectors),
            Piece("norms", size(self.head_dim)),
        )

    def cache(self, bytes_: tuple[float, float]) -> CacheLayers:
        """Return the last inputs of three convolutions and one matrix a head."""
        width = self.heads * self.head_dim
        return _state(3 * width * (self.kernel - 1), width * self.head_dim, bytes_)


@dataclass(frozen=True)
class Mamba1:
    """A selective state space with a state for each channel."""

    hidden: int
    inner: int
    state: int
    kernel: int
    rank: int
    bias: bool = False
    conv_bias: bool = True
    inner_norms: bool = False
    """Norms on step size, input and output vectors (Jamba)."""

    def pieces(self) -> tuple[Piece, ...]:
        """Return matrices and vectors."""
        matrices = (
            size(self.hidden, 2 * self.inner)
            + size(self.inner, self.rank + 2 * self.state)
            + size(self.rank, self.inner)
            + size(self.inner, self.hidden)
        )
        vectors = size(self.inner, self.kernel + self.state + 2)  # convolution, A, D, step bias
        biases = size(self.inner).when(self.conv_bias)
        biases = biases + (size(2 * self.inner) + size(self.hidden)).when(self.bias)
        return (
            Piece("state space", matrices),
            Piece("vectors", vectors),
            Piece("biases", biases),
            Piece("norms", size(self.rank + 2 * self.state).when(self.inner_norms)),
        )

    def cache(self, bytes_: tuple[float, float]) -> CacheLayers:
        """Return the last inputs of the convolution and a state for each channel."""
        return _state(self.inner * (self.kernel - 1), self.inner * self.state, bytes_)


@dataclass(frozen=True)
class Mamba2:
    """A state space with heads and groups."""

    hidden: int
    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    bias: bool = False
    conv_bias: bool = True
    gated_norm: bool = True

    @property
    def inner(self) -> int:
        """Width inside."""
        return self.heads * self.head_dim

    @property
    def conv_width(self) -> int:
        """Channels of the convolution."""
        return self.inner + 2 * self.groups * self.state

    def pieces(self) -> tuple[Piece, ...]:
        """Return matrices and vectors."""
        inputs = self.inner + self.conv_width + self.heads
        biases = size(self.conv_width).when(self.conv_bias)
        biases = biases + (size(inputs) + size(self.hidden)).when(self.bias)
        return (
            Piece("state space", size(self.hidden, inputs) + size(self.inner, self.hidden)),
            Piece("vectors", size(self.conv_width, self.kernel) + size(3, self.heads)),
            Piece("biases", biases),
            Piece("norms", size(self.inner).when(self.gated_norm)),
        )

    def cache(self, bytes_: tuple[float, float]) -> CacheLayers:
        """Return the last inputs of the convolution and one matrix a head."""
        return _state(self.conv_width * (self.kernel - 1), self.inner * self.state, bytes_)


@dataclass(frozen=True)
class ShortConvolution:
    """A gated convolution over a few tokens (LFM2)."""

    hidden: int
    kernel: int
    bias: bool = False

    def pieces(self) -> tuple[Piece, ...]:
        """Return matrices, kernel and biases."""
        matrices = size(self.hidden, 3 * self.hidden) + size(self.hidden, self.hidden)
        biases = size(5, self.hidden).when(self.bias)
        return (
            Piece("short convolution", matrices),
            Piece("vectors", size(self.hidden, self.kernel)),
            Piece("biases", biases),
        )

    def cache(self, bytes_: tuple[float, float]) -> CacheLayers:
        """Return the last inputs of the convolution."""
        return _state(self.hidden * (self.kernel - 1), 0, bytes_)


@dataclass(frozen=True)
class Lightning:
    """Lightning attention (MiniMax-Text-01): linear attention with a fixed decay."""

    hidden: int
    heads: int
    head_dim: int

    def pieces(self) -> tuple[Piece, ...]:
        """Return matrices and the norm."""
        width = self.heads * self.head_dim
        matrices: Sum = size(5, self.hidden, width)  # queries, keys, values, gate, output
        return Piece("linear attention", matrices), Piece("norms", size(width))

    def cache(self, bytes_: tuple[float, float]) -> CacheLayers:
        """Return one matrix a head."""
        return _state(0, self.heads * self.head_dim**2, bytes_)
