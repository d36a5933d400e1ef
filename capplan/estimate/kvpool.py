"""KV pools read backwards: what start-up figures of an engine say about its layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.errors import RequestError
from capplan.schema.cache import CacheKind
from capplan.schema.llm import LlmSpec


@dataclass(frozen=True)
class PoolPoint:
    """What one request of the longest length takes, as one start of the engine shows it."""

    max_model_len: int
    request_bytes: float
    """Bytes a GPU of one request of that length."""

    @classmethod
    def from_log(cls, max_model_len: int, pool_bytes: float, tokens: float) -> PoolPoint:
        """Read a start-up log: its tokens are the largest concurrency times the longest length.

        ``tokens`` is what the line ``GPU KV cache size`` prints. It is derived: for an LLM with
        windowed layers or states it grows with ``max_model_len`` though the pool does not.
        """
        return cls(max_model_len, pool_bytes * max_model_len / tokens)


@dataclass(frozen=True)
class RequestBytes:
    """Bytes of one request on one GPU: a part whatever its length, and a part for every token."""

    fixed_bytes: float
    bytes_per_token: float

    def at(self, tokens: float) -> float:
        """Return the bytes of a request of that length."""
        return self.fixed_bytes + self.bytes_per_token * tokens

    def pool_tokens(self, pool_bytes: float, max_model_len: int) -> float:
        """Return what the engine prints as size of its pool for that longest length."""
        return pool_bytes / self.at(max_model_len) * max_model_len


def fit_request_bytes(points: Sequence[PoolPoint], llm: LlmSpec | None = None) -> RequestBytes:
    """Fit the fixed part and the slope to starts of the engine that differ in the longest length.

    Parameters
    ----------
    points
        At least two lengths; one is enough for an LLM whose layers all keep every token.
    llm
        Whose figures they are, if known.

    Raises
    ------
    RequestError
        If one length is all there is and the layout is hybrid or unknown: bytes over tokens is
        then no property of the LLM.
    """
    if not points:
        raise RequestError("No start of the engine was given.", "Give at least one PoolPoint.")
    lengths = np.array([point.max_model_len for point in points], dtype=float)
    sizes = np.array([point.request_bytes for point in points])
    if len(np.unique(lengths)) > 1:
        slope, fixed = np.polyfit(lengths, sizes, 1)
        return RequestBytes(float(fixed), float(slope))
    if llm is None or not keeps_every_token(llm):
        name = "an LLM of unknown layout" if llm is None else llm.id
        raise RequestError(
            f"KV bytes a token cannot be read off one longest length ({lengths[0]:.0f} tokens) "
            f"for {name}: the printed size of the pool depends on it.",
            "Start the engine with a second --max-model-len and give both points.",
        )
    return RequestBytes(0.0, float(np.mean(sizes / lengths)))


def keeps_every_token(llm: LlmSpec) -> bool:
    """Whether every layer keeps every token, so that KV bytes are proportional to length."""
    return bool(llm.cache) and all(
        group.kind in (CacheKind.FULL, CacheKind.LATENT) for group in llm.cache
    )


@dataclass(frozen=True)
class Breakdown:
    """Parts of one GPU's memory as somebody reports them, in bytes."""

    capacity_bytes: float
    weight_bytes: float
    activation_bytes: float
    non_torch_bytes: float
    kv_pool_bytes: float
    cuda_graph_bytes: float = 0.0
    """Only where the engine sets them aside before it sizes the pool."""

    @property
    def implied_utilisation(self) -> float:
        """Share of the GPU that the parts add up to."""
        parts = self.weight_bytes + self.activation_bytes + self.non_torch_bytes
        return (parts + self.cuda_graph_bytes + self.kv_pool_bytes) / self.capacity_bytes

    def pool_at(self, utilisation: float) -> float:
        """Return the KV pool that a utilisation would leave; negative by what is lacking."""
        share = utilisation - self.implied_utilisation
        return self.kv_pool_bytes + share * self.capacity_bytes

    def agrees_with(self, utilisation: float, tolerance: float = 0.005) -> bool:
        """Whether a stated utilisation is the one that the parts imply."""
        return abs(self.implied_utilisation - utilisation) <= tolerance
