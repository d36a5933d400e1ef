"""Bytes that the layers of an LLM keep and read of the tokens of a request, on one GPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.kvpages import (
    KvRules,
    PageGroups,
    Part,
    page_groups,
    plain_bytes,
    split_heads,
)
from capplan.schema.cache import BF16_BYTES, CacheKind, kv_bytes_per_token
from capplan.schema.llm import LlmSpec

Floats = NDArray[np.float64]


def kv_known(llm: LlmSpec) -> bool:
    """Whether what the LLM keeps of a request is known."""
    return bool(llm.cache) or llm.kv_bytes_per_token is not None


def uneven_heads(llm: LlmSpec, gpus: int) -> str:
    """Return the heads that an engine cannot split over that many GPUs; empty where it can.

    Query heads must divide; KV heads must divide, or be so few that each is copied equally often.
    What is not known counts as even.
    """
    if llm.heads is not None and llm.heads % gpus:
        return f"{llm.heads} query heads"
    kinds = (CacheKind.FULL, CacheKind.WINDOW)
    kept = sorted({group.heads for group in llm.cache if group.kind in kinds})
    odd = [heads for heads in kept if heads % gpus and gpus % heads]
    return f"{odd[0]} KV heads" if odd else ""


def without_windows(llm: LlmSpec) -> LlmSpec:
    """Return an LLM whose windowed layers keep every token, as some engines hold them."""
    if all(group.window is None for group in llm.cache):
        return llm
    kept = tuple(
        group.model_copy(update={"kind": CacheKind.FULL, "window": None})
        if group.kind is CacheKind.WINDOW
        else group
        for group in llm.cache
    )
    return llm.model_copy(update={"cache": kept, "kv_bytes_per_token": kv_bytes_per_token(kept)})


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
        total = total + group.bytes_per_token(element_bytes) / split_heads(group, tp)
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
        total = total + group.bytes_per_token(element_bytes) / split_heads(group, tp) * read
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
    parts = [cache_part(llm, tensor_parallel, rules.element_bytes)]
    if not rules.pads_groups:
        return plain_bytes(parts, tokens, rules, speculative_tokens)
    groups = page_groups(parts, rules)
    return pooled_bytes(groups, tokens, speculative_tokens)


def pooled_bytes(
    groups: PageGroups, tokens: ArrayLike, speculative_tokens: ArrayLike = 0.0
) -> Floats:
    """Return bytes that one request takes of a pool so grouped."""
    total: Floats = groups.block_bytes * groups.blocks(tokens, speculative_tokens)
    return total


def cache_part(
    llm: LlmSpec, tensor_parallel: ArrayLike, element_bytes: float = BF16_BYTES
) -> Part:
    """Return what an LLM caches on one GPU of a group.

    Raises
    ------
    ValueError
        If nothing is known.
    """
    tp = np.asarray(tensor_parallel, dtype=float)
    flat = None if llm.cache else _flat_bytes(llm, tp, element_bytes)
    return Part(llm.cache, tp, flat)


def _flat_bytes(llm: LlmSpec, tp: Floats, element_bytes: float) -> Floats:
    """Return bytes a token of an LLM of which only the sum over all layers is known."""
    if llm.kv_bytes_per_token is None:
        msg = f"{llm.id}: no constant KV bytes a token are known for this architecture"
        raise ValueError(msg)
    split = tp if llm.kv_heads is None else np.minimum(tp, llm.kv_heads)
    return np.asarray(llm.kv_bytes_per_token * element_bytes / BF16_BYTES / split, dtype=float)
