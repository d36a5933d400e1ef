"""Bytes that the layers of an LLM keep and read of the tokens of a request, on one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.schema.cache import BF16_BYTES, CacheKind, CacheLayers
from capplan.schema.llm import LlmSpec

Floats = NDArray[np.float64]

_PADDING_RATIO = 1.5
"""vLLM makes groups of the larger count of layers while it is below this multiple of the smaller
(v1/core/kv_cache_planning.py, 0.33)."""


@dataclass(frozen=True)
class KvRules:
    """How an engine lays out what a request keeps. The defaults are vLLM's while decoding."""

    element_bytes: float = BF16_BYTES
    block_tokens: int = 16
    in_flight_tokens: float = 0.0
    """Tokens scheduled and not yet settled, which windowed layers keep beyond their window."""
    spare_blocks: int = 1
    """Blocks more in windowed layers, since a window need not start with a block."""
    pads_groups: bool = True
    """Whether layers of several kinds are grouped and the groups filled up to one size."""


def kv_known(llm: LlmSpec) -> bool:
    """Whether what the LLM keeps of a request is known."""
    return bool(llm.cache) or llm.kv_bytes_per_token is not None


def kv_bytes_per_gpu_token(
    llm: LlmSpec, tensor_parallel: ArrayLike, element_bytes: float = BF16_BYTES
) -> Floats:
    """Return bytes that one more token takes for ever on one GPU.

    Heads are split over the tensor-parallel group until each GPU holds one; latent layers are
    whole on every GPU; windowed layers count only where no layer keeps every token.

    Raises
    ------
    ValueError
        If what the LLM keeps is unknown.
    """
    tp = np.asarray(tensor_parallel, dtype=float)
    if not llm.cache:
        return _flat_bytes(llm, tp, element_bytes)
    kept = [group for group in llm.cache if group.grows]
    counted = kept or [group for group in llm.cache if group.kind is CacheKind.WINDOW]
    total = np.zeros_like(tp)
    for group in counted:
        total = total + group.bytes_per_token(element_bytes) / _split(group, tp)
    return total


def kv_bytes_read(
    llm: LlmSpec,
    context: ArrayLike,
    tensor_parallel: ArrayLike,
    element_bytes: float = BF16_BYTES,
) -> Floats:
    """Return bytes that one pass moves on one GPU for one request of ``context`` tokens.

    Windowed layers read their window at most; states are read and written back.

    Raises
    ------
    ValueError
        If what the LLM keeps is unknown.
    """
    tp = np.asarray(tensor_parallel, dtype=float)
    tokens = np.asarray(context, dtype=float)
    if not llm.cache:
        return np.asarray(_flat_bytes(llm, tp, element_bytes) * tokens, dtype=float)
    total = np.zeros(np.broadcast_shapes(tp.shape, tokens.shape))
    for group in llm.cache:
        if group.kind is CacheKind.STATE:
            total = total + 2.0 * group.layers * group.state_bytes / tp
            continue
        read = tokens if group.window is None else np.minimum(tokens, group.window)
        total = total + group.bytes_per_token(element_bytes) / _split(group, tp) * read
    return total


def kv_bytes_per_request(
    llm: LlmSpec,
    tokens: ArrayLike,
    tensor_parallel: ArrayLike,
    rules: KvRules | None = None,
    speculative_tokens: ArrayLike = 0.0,
) -> Floats:
    """Return bytes that one request of ``tokens`` tokens holds on one GPU.

    Parameters
    ----------
    llm
        Target or draft.
    tokens
        Longest length of the request, lookahead slots included.
    tensor_parallel
        GPUs that the heads are split over.
    rules
        Layout of the engine; vLLM's by default.
    speculative_tokens
        N: layers with a state keep N more copies of it, one for every token that may be refused.

    Raises
    ------
    ValueError
        If what the LLM keeps is unknown.
    """
    rules = rules if rules is not None else KvRules()
    tp = np.asarray(tensor_parallel, dtype=float)
    length = np.asarray(tokens, dtype=float)
    extra = np.asarray(speculative_tokens, dtype=float)
    if not llm.cache:
        return _flat_bytes(llm, tp, rules.element_bytes) * _whole_blocks(length, rules)
    layers = padded_layers(llm.cache, rules)
    total = np.zeros(np.broadcast_shapes(tp.shape, length.shape, extra.shape))
    for group, held in zip(llm.cache, layers, strict=True):
        if group.kind is CacheKind.STATE:
            total = total + held * group.state_bytes / tp * (1.0 + extra)
            continue
        per_token = group.bytes_per_token(rules.element_bytes) * held / group.layers
        total = total + per_token / _split(group, tp) * _held_tokens(group, length, rules)
    return total


def padded_layers(cache: Sequence[CacheLayers], rules: KvRules) -> tuple[int, ...]:
    """Return the layers that every group occupies once an engine has filled them up.

    vLLM serves full and windowed layers of one page size from one pool, in groups with equally
    many layers; missing ones are padding. Other layouts are taken as they are.
    """
    counts = tuple(group.layers for group in cache)
    kinds = {group.kind for group in cache}
    pages = {(group.heads, group.elements, group.element_bytes) for group in cache}
    if not rules.pads_groups or kinds != {CacheKind.FULL, CacheKind.WINDOW} or len(pages) > 1:
        return counts
    least, most = min(counts), max(counts)
    size = most if most < least * _PADDING_RATIO else least
    return tuple(-(-count // size) * size for count in counts)


def _flat_bytes(llm: LlmSpec, tp: Floats, element_bytes: float) -> Floats:
    """Return bytes a token of an LLM of which only the sum over all layers is known."""
    if llm.kv_bytes_per_token is None:
        msg = f"{llm.id}: no constant KV bytes a token are known for this architecture"
        raise ValueError(msg)
    split = tp if llm.kv_heads is None else np.minimum(tp, llm.kv_heads)
    return np.asarray(llm.kv_bytes_per_token * element_bytes / BF16_BYTES / split, dtype=float)


def _split(group: CacheLayers, tp: Floats) -> Floats:
    """Return how many ways a token's bytes are divided: whole heads, a latent vector never."""
    if group.kind is CacheKind.LATENT:
        return np.ones_like(tp)
    # three of eight heads on one GPU: the fullest one counts
    return group.heads / np.ceil(group.heads / tp)


def _held_tokens(group: CacheLayers, length: Floats, rules: KvRules) -> Floats:
    if group.window is None:
        return _whole_blocks(length, rules)
    kept = np.minimum(length, group.window - 1.0 + rules.in_flight_tokens)
    return _whole_blocks(kept, rules) + rules.spare_blocks * rules.block_tokens


def _whole_blocks(tokens: Floats, rules: KvRules) -> Floats:
    blocks: Floats = np.ceil(tokens / rules.block_tokens)
    return blocks * rules.block_tokens
