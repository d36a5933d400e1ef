"""Pages of a KV pool: how vLLM groups layers of several kinds and what a request takes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.schema.cache import BF16_BYTES, CacheKind, CacheLayers

Floats = NDArray[np.float64]

_PADDING_RATIO = 1.5
"""vLLM makes groups of the larger count of layers while it is below this multiple of the smaller
(v1/core/kv_cache_planning.py, 0.33)."""
_STATE_ALIGNMENT = 16
_LATENT_STATE_ALIGNMENT = 128
"""Tokens to whose multiples blocks are raised until one holds a state
(platforms/interface.py)."""
_ROUNDING = 1e-9


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
    """Whether layers of several kinds share pages of one size and the groups are filled up."""
    state_pages: int = 1
    """Pages that a state takes; a second one where prefixes are cached."""
    holds_windows: bool = True
    """Whether windowed layers drop what lies behind their window; else they keep every token."""


@dataclass(frozen=True)
class Part:
    """What one LLM caches, and the group of GPUs that shares it."""

    cache: tuple[CacheLayers, ...]
    split: Floats
    token_bytes: Floats | None = None
    """On one GPU, of an LLM of which only the sum over all layers is known; ``cache`` is empty."""


@dataclass(frozen=True)
class LayerBucket:
    """Layers whose pages are alike on one GPU."""

    kind: CacheKind
    layers: int
    token_bytes: Floats
    """Of one token in one layer; of ``STATE`` layers the bytes of a state."""
    window: int | None = None

    @property
    def is_state(self) -> bool:
        """Whether it takes the same however long the request."""
        return self.kind is CacheKind.STATE


@dataclass(frozen=True)
class PageGroups:
    """Groups of layers that draw blocks from one pool."""

    buckets: tuple[LayerBucket, ...]
    counts: tuple[int, ...]
    """Groups that every bucket fills."""
    block_tokens: tuple[Floats, ...]
    """Tokens that a block of every bucket holds; of states it is not used."""
    block_bytes: Floats
    """One block of the pool: a page of every layer of a group."""
    rules: KvRules

    @property
    def groups(self) -> int:
        """Groups together."""
        return sum(self.counts)

    @property
    def least_block_tokens(self) -> Floats:
        """Tokens of the smallest block that holds tokens."""
        pairs = zip(self.buckets, self.block_tokens, strict=True)
        sizes = [tokens for bucket, tokens in pairs if not bucket.is_state]
        if not sizes:
            return np.asarray(float(self.rules.block_tokens))
        return np.asarray(np.minimum.reduce(sizes), dtype=float)

    @property
    def keeps_states(self) -> bool:
        """Whether every sequence holds blocks for a state."""
        return any(bucket.is_state for bucket in self.buckets)

    def blocks(self, tokens: ArrayLike, state_copies: ArrayLike = 0.0) -> Floats:
        """Return blocks of the pool that one request of ``tokens`` tokens takes."""
        length = np.asarray(tokens, dtype=float)
        total: Floats = np.zeros(())
        for bucket, count, size in zip(self.buckets, self.counts, self.block_tokens, strict=True):
            if bucket.is_state:
                held = self.rules.state_pages + np.asarray(state_copies, dtype=float)
            else:
                held = _token_blocks(bucket.window, length, size, self.rules)
            total = total + count * held
        return np.asarray(total, dtype=float)


def page_groups(parts: Sequence[Part], rules: KvRules) -> PageGroups:
    """Lay out the layers of target and draft in one pool.

    Layers that all keep the same tokens form one group, whatever their sizes. Else every group has
    equally many layers with pages of one size: smaller pages hold more tokens, or are padded,
    states are padded, and the last group is filled up.

    Notes
    -----
    docs/method/memory.md; v1/core/kv_cache_planning.py of vLLM 0.33.
    """
    buckets = _buckets(parts, rules)
    block = np.asarray(float(rules.block_tokens))
    kept = {(bucket.is_state, bucket.window) for bucket in buckets}
    if len(kept) == 1 and not buckets[0].is_state:
        return _one_group(buckets, block, rules)
    block = _raised_block(buckets, rules)
    pages = [b.token_bytes if b.is_state else b.token_bytes * block for b in buckets]
    page: Floats = np.maximum.reduce(np.broadcast_arrays(*pages))
    layers = group_layers([bucket.layers for bucket in buckets])
    return PageGroups(
        buckets,
        tuple(-(-bucket.layers // layers) for bucket in buckets),
        tuple(_tokens_in(page, own, block) for own in pages),
        page * layers,
        rules,
    )


def group_layers(counts: Sequence[int]) -> int:
    """Return how many layers vLLM puts in a group where layers are of several kinds."""
    least, most = min(counts), max(counts)
    return most if most < least * _PADDING_RATIO else least


def plain_bytes(
    parts: Sequence[Part], tokens: ArrayLike, rules: KvRules, state_copies: ArrayLike = 0.0
) -> Floats:
    """Return bytes of one request where every layer has its own buffer and nothing is padded."""
    length = np.asarray(tokens, dtype=float)
    block = np.asarray(float(rules.block_tokens))
    total: Floats = np.zeros(())
    for bucket in _buckets(parts, rules):
        if bucket.is_state:
            held: Floats = rules.state_pages + np.asarray(state_copies, dtype=float)
        else:
            held = _token_blocks(bucket.window, length, block, rules) * block
        total = total + bucket.layers * bucket.token_bytes * held
    return np.asarray(total, dtype=float)


def split_heads(group: CacheLayers, tp: Floats) -> Floats:
    """Return how many ways a token's bytes are divided: whole heads, a latent vector never."""
    if group.kind is CacheKind.LATENT:
        return np.ones_like(tp)
    # three of eight heads on one GPU: the fullest one counts
    return group.heads / np.ceil(group.heads / tp)


def _one_group(buckets: tuple[LayerBucket, ...], block: Floats, rules: KvRules) -> PageGroups:
    """All layers in one group: a block holds a page of each."""
    size: Floats = np.zeros(())
    for bucket in buckets:
        size = size + bucket.layers * bucket.token_bytes
    first = replace(buckets[0], token_bytes=size, layers=1)
    return PageGroups((first,), (1,), (block,), np.asarray(size * block, dtype=float), rules)


def _buckets(parts: Sequence[Part], rules: KvRules) -> tuple[LayerBucket, ...]:
    """Sort layers by what they keep and how large it is; draft and target mix."""
    found: list[tuple[CacheLayers, Floats, int]] = []
    for part in parts:
        for group in part.cache:
            shape = _as_kept(group, rules).model_copy(update={"layers": 1})
            for index, (known, split, layers) in enumerate(found):
                if known == shape and np.array_equal(split, part.split):
                    found[index] = (known, split, layers + group.layers)
                    break
            else:
                found.append((shape, part.split, group.layers))
    sums = [
        LayerBucket(CacheKind.FULL, 1, part.token_bytes)
        for part in parts
        if part.token_bytes is not None
    ]
    return (*(_bucket(shape, split, layers, rules) for shape, split, layers in found), *sums)


def _as_kept(group: CacheLayers, rules: KvRules) -> CacheLayers:
    if rules.holds_windows or group.kind is not CacheKind.WINDOW:
        return group
    return group.model_copy(update={"kind": CacheKind.FULL, "window": None})


def _bucket(shape: CacheLayers, split: Floats, layers: int, rules: KvRules) -> LayerBucket:
    if shape.kind is CacheKind.STATE:
        return LayerBucket(shape.kind, layers, np.asarray(shape.state_bytes / split, dtype=float))
    size = shape.bytes_per_token(rules.element_bytes) / split_heads(shape, split)
    return LayerBucket(shape.kind, layers, np.asarray(size, dtype=float), shape.window)


def _raised_block(buckets: Sequence[LayerBucket], rules: KvRules) -> Floats:
    """Return tokens of a block, so many that a page of tokens holds a state."""
    block = np.asarray(float(rules.block_tokens))
    states = [bucket.token_bytes for bucket in buckets if bucket.is_state]
    tokens = [bucket for bucket in buckets if not bucket.is_state]
    if not states or not tokens:
        return block
    latent = tokens[0].kind is CacheKind.LATENT
    step = max(_LATENT_STATE_ALIGNMENT if latent else _STATE_ALIGNMENT, rules.block_tokens)
    state = np.maximum.reduce(np.broadcast_arrays(*states))
    raised = step * np.ceil(state / (step * tokens[0].token_bytes) - _ROUNDING)
    return np.asarray(np.maximum(raised, block), dtype=float)


def _tokens_in(page: Floats, own: Floats, block: Floats) -> Floats:
    """Return tokens in a page: more where the own page divides it, else the rest is padding."""
    ratio = page / own
    whole = np.round(ratio)
    divides = np.abs(ratio - whole) < _ROUNDING * whole
    return np.asarray(np.where(divides, block * whole, block), dtype=float)


def _token_blocks(window: int | None, length: Floats, block: Floats, rules: KvRules) -> Floats:
    if window is None:
        return np.asarray(np.ceil(length / block), dtype=float)
    kept = np.minimum(length, window - 1.0 + rules.in_flight_tokens)
    return np.asarray(np.ceil(kept / block) + rules.spare_blocks, dtype=float)
