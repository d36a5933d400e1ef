"""KV buffers of llama.cpp, and of what is built on it: cells, and none beyond them."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.errors import RequestError
from capplan.schema.cache import CacheKind, CacheLayers
from capplan.schema.llm import LlmSpec

_BLOCK = 32
"""Elements that share one scale in the quantised types (ggml/src/ggml-common.h)."""
ELEMENT_BYTES = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / _BLOCK,
    "q5_1": 24 / _BLOCK,
    "q5_0": 22 / _BLOCK,
    "q4_1": 20 / _BLOCK,
    "q4_0": 18 / _BLOCK,
}
_WINDOW_CELLS = 256
"""Cells of windowed layers are rounded up to a multiple of it (src/llama-kv-cache-iswa.cpp)."""


@dataclass(frozen=True)
class LlamaCache:
    """How a context is opened."""

    context_tokens: int
    """``-c``: of all sequences together."""
    sequences: int = 1
    unified: bool = True
    """Whether sequences share one buffer; else each has its part of the context."""
    batch_tokens: int = 512
    """``-ub``: windowed layers hold a batch beyond their windows."""
    key_type: str = "f16"
    value_type: str = "f16"
    whole_windows: bool = False
    """``--swa-full``: windowed layers hold the whole context."""

    def cells(self, window: int | None) -> int:
        """Return cells of one layer, all sequences together."""
        streams = 1 if self.unified else self.sequences
        base = self.context_tokens // streams
        if window is None or self.whole_windows:
            return base * streams
        held = window * (self.sequences if self.unified else 1) + self.batch_tokens
        padded = -(-min(base, held) // _WINDOW_CELLS) * _WINDOW_CELLS
        return padded * streams


@dataclass(frozen=True)
class LlamaBuffers:
    """Bytes of the KV buffers, as the start-up prints them."""

    full_bytes: float
    """Of layers that keep every token."""
    windowed_bytes: float

    @property
    def total_bytes(self) -> float:
        """Both together."""
        return self.full_bytes + self.windowed_bytes


def kv_buffers(llm: LlmSpec, cache: LlamaCache) -> LlamaBuffers:
    """Return the KV buffers of an LLM for one context.

    Notes
    -----
    docs/method/memory.md. Checked to the printed MiB on seven start-ups.

    Raises
    ------
    RequestError
        If a type is unknown, or the LLM has layers whose buffers are not covered: states and
        latent vectors are kept in formats of their own.
    """
    odd = [g for g in llm.cache if g.kind not in (CacheKind.FULL, CacheKind.WINDOW)]
    if odd or not llm.cache:
        what = odd[0].kind.value if odd else "unknown"
        raise RequestError(
            f"{llm.id}: KV buffers of llama.cpp are not known for layers of kind {what}.",
            "Read them off its start-up: KV buffer size, and size of the recurrent memory.",
        )
    sizes = dict.fromkeys((CacheKind.FULL, CacheKind.WINDOW), 0.0)
    for group in llm.cache:
        sizes[group.kind] += _cell_bytes(group, cache) * cache.cells(group.window)
    return LlamaBuffers(sizes[CacheKind.FULL], sizes[CacheKind.WINDOW])


def _cell_bytes(group: CacheLayers, cache: LlamaCache) -> float:
    """Return bytes of one cell in all layers of a group: keys and values are equally long."""
    each = group.layers * group.heads * group.elements / 2
    return each * (_element_bytes(cache.key_type) + _element_bytes(cache.value_type))


def _element_bytes(name: str) -> float:
    if name not in ELEMENT_BYTES:
        raise RequestError(
            f"KV type {name!r} is not known.", f"Choose one of {', '.join(ELEMENT_BYTES)}."
        )
    return ELEMENT_BYTES[name]
