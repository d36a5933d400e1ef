"""Memory of one GPU as the engine allots it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.activation import (
    activation_peak_bytes,
    cuda_graph_bytes,
    sampler_state_bytes,
)
from capplan.estimate.kvcache import (
    cache_part,
    kv_bytes_per_gpu_token,
    pooled_bytes,
    without_windows,
)
from capplan.estimate.kvpages import KvRules, PageGroups, page_groups
from capplan.schema.cache import BF16_BYTES
from capplan.schema.engine import EngineConstants, EngineMemory
from capplan.schema.llm import LlmSpec

Floats = NDArray[np.float64]

_LOGIT_BYTES = 4.0
_CHUNKED = "llama4"
"""Family whose windowed layers attend within chunks."""


@dataclass(frozen=True)
class MemorySettings:
    """How the engine is started; what is None takes the engine's default. Arrays broadcast."""

    version: str | None = None
    utilisation: ArrayLike | None = None
    kv_element_bytes: float = BF16_BYTES
    max_num_seqs: ArrayLike | None = None
    max_num_batched_tokens: ArrayLike | None = None
    num_speculative_tokens: ArrayLike = 0.0
    """N; 0 without speculation."""
    probabilistic_drafts: bool = False
    """Whether the draft's logits are kept for rejection sampling."""
    draft_tensor_parallel: int | None = None
    """GPUs the draft is split over; None: as the target. With 1 it sits on the first GPU whole."""
    target_weight_scale: ArrayLike = 1.0
    """Weights held over weights shipped, where the engine pads them."""
    caches_prefixes: bool | None = None
    """Whether prefixes are cached, which costs LLMs with states a page more; None: the default."""
    weight_bytes: float | None = None
    activation_bytes: float | None = None
    non_torch_bytes: float | None = None
    cuda_graph_bytes: float | None = None
    """Measured values, taken as they are; weights are those of target and draft together."""


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes on the fullest GPU of a replica; arrays share one shape."""

    capacity_bytes: Floats
    usable_bytes: Floats
    target_weight_bytes: Floats
    draft_weight_bytes: Floats
    activation_bytes: Floats
    cuda_graph_bytes: Floats
    """Set aside before the pool is sized; 0 for versions that do not."""
    non_torch_bytes: Floats
    buffer_bytes: Floats
    """State of the sampler, and the draft's logits where they are kept."""
    kv_bytes_per_token: Floats
    """Target and draft; what every further token takes."""
    layout: RequestLayout
    max_num_seqs: Floats
    max_num_batched_tokens: Floats
    prints_capacity: bool = True
    """Whether the engine prints concurrency times longest length as the size of its pool."""

    @property
    def overhead_bytes(self) -> Floats:
        """What is neither weights nor KV."""
        return (
            self.activation_bytes
            + self.cuda_graph_bytes
            + self.non_torch_bytes
            + self.buffer_bytes
        )

    @property
    def kv_pool_bytes(self) -> Floats:
        """What is left for KV; negative by as much as the rest does not fit."""
        weights = self.target_weight_bytes + self.draft_weight_bytes
        return self.usable_bytes - weights - self.overhead_bytes

    @property
    def kv_tokens(self) -> Floats:
        """Tokens that fit where every layer keeps every token; negative by what is lacking."""
        return self.kv_pool_bytes / self.kv_bytes_per_token

    def request_bytes(self, tokens: ArrayLike, in_flight_tokens: float = 0.0) -> Floats:
        """Return bytes of one request of ``tokens`` tokens, target and draft together."""
        return self.layout.request_bytes(tokens, in_flight_tokens)

    def max_concurrency(self, tokens: ArrayLike, in_flight_tokens: float = 0.0) -> Floats:
        """Return how many requests of that length the pool holds; below 1 none fits."""
        return self.kv_pool_bytes / self.request_bytes(tokens, in_flight_tokens)

    def printed_tokens(
        self,
        max_model_len: int,
        in_flight_tokens: float = 0.0,
        pool_bytes: ArrayLike | None = None,
    ) -> Floats:
        """Return the engine's ``GPU KV cache size``: largest concurrency times longest length.

        Versions that do not print that share the blocks out evenly among the groups of layers.
        """
        groups = self.layout.groups(in_flight_tokens)
        pool = self.kv_pool_bytes if pool_bytes is None else np.asarray(pool_bytes, dtype=float)
        blocks = np.floor(np.maximum(pool, 0.0) / groups.block_bytes)
        if not self.prints_capacity:
            return np.asarray(blocks // groups.groups * groups.least_block_tokens, dtype=float)
        each = groups.blocks(max_model_len, self.layout.speculative_tokens)
        tokens: Floats = np.floor(blocks * max_model_len / each)
        return tokens


@dataclass(frozen=True)
class RequestLayout:
    """What a request holds on the fullest GPU."""

    target: LlmSpec
    draft: LlmSpec | None
    target_split: Floats
    draft_split: Floats
    speculative_tokens: Floats
    rules: KvRules

    def groups(self, in_flight_tokens: float = 0.0) -> PageGroups:
        """Return how the layers of both share the pool."""
        element = self.rules.element_bytes
        parts = [cache_part(self.target, self.target_split, element)]
        if self.draft is not None:
            parts.append(cache_part(self.draft, self.draft_split, element))
        return page_groups(parts, replace(self.rules, in_flight_tokens=in_flight_tokens))

    def request_bytes(self, tokens: ArrayLike, in_flight_tokens: float) -> Floats:
        """Return bytes of one request of ``tokens`` tokens."""
        return pooled_bytes(self.groups(in_flight_tokens), tokens, self.speculative_tokens)


def plan_memory(
    target: LlmSpec,
    draft: LlmSpec | None,
    gpu_memory_bytes: ArrayLike,
    tensor_parallel: ArrayLike,
    engine: EngineConstants,
    settings: MemorySettings | None = None,
) -> MemoryPlan:
    """Allot one GPU: utilisation times capacity, less weights and run time, is KV pool.

    The draft's layers join the same pool, so its weights and its KV bytes a token both lower the
    largest batch. The fullest GPU sets the limit: a draft that is not split lies there whole.

    Parameters
    ----------
    target, draft
        Draft is None for methods that load nothing; a head counts as an LLM of its layers.
    gpu_memory_bytes
        Bytes that CUDA hands out; broadcast with ``tensor_parallel``.
    settings
        How the engine is started, and measured values that replace estimates.

    Notes
    -----
    docs/method/memory.md. Checked: draft KV of Qwen3-8B + Qwen3-0.6B makes 1.778x, measured 1.77x
    (SpecDecode-Bench, arXiv:2601.11580).
    """
    settings = settings if settings is not None else MemorySettings()
    allots = engine.memory_for(settings.version or engine.version)
    memory = np.asarray(gpu_memory_bytes, dtype=float)
    tp = np.asarray(tensor_parallel, dtype=float)
    draft_tp = np.minimum(tp, settings.draft_tensor_parallel or tp)
    n = np.asarray(settings.num_speculative_tokens, dtype=float)
    seqs, batched = _limits(memory, engine, settings)
    share = allots.utilisation if settings.utilisation is None else settings.utilisation
    activation = activation_peak_bytes(target, tp, seqs, batched, n, engine, allots)
    layers = target.layers + (draft.layers if draft is not None else 0)
    graphs = cuda_graph_bytes(layers, seqs, n, engine)
    non_torch = engine.non_torch_bytes_single + engine.non_torch_bytes_per_doubling * np.log2(tp)
    element = settings.kv_element_bytes
    holds = allots.holds_windows and not keeps_chunks(target, draft, allots)
    kv = kv_bytes_per_gpu_token(target if holds else without_windows(target), tp, element)
    draft_weights = np.zeros_like(tp)
    if draft is not None:
        draft_weights = draft.weight_bytes / draft_tp
        held = draft if holds else without_windows(draft)
        kv = kv + kv_bytes_per_gpu_token(held, draft_tp, element)
    shape = np.broadcast_shapes(memory.shape, tp.shape, n.shape, seqs.shape, batched.shape)

    def full(values: ArrayLike) -> Floats:
        return np.broadcast_to(np.asarray(values, dtype=float), shape)

    def measured(value: float | None, estimate: ArrayLike) -> Floats:
        return full(estimate if value is None else value)

    weights = target.weight_bytes * np.asarray(settings.target_weight_scale, dtype=float) / tp
    if settings.weight_bytes is not None:
        draft_weights = np.zeros_like(tp)
    return MemoryPlan(
        capacity_bytes=full(memory),
        usable_bytes=full(memory * np.asarray(share, dtype=float)),
        target_weight_bytes=measured(settings.weight_bytes, weights),
        draft_weight_bytes=full(draft_weights),
        activation_bytes=measured(settings.activation_bytes, activation),
        cuda_graph_bytes=(
            measured(settings.cuda_graph_bytes, graphs) if allots.counts_cuda_graphs else full(0.0)
        ),
        non_torch_bytes=measured(settings.non_torch_bytes, non_torch),
        buffer_bytes=full(_buffer_bytes(target, seqs, n, allots, settings)),
        kv_bytes_per_token=full(kv),
        layout=RequestLayout(
            target, draft, tp, draft_tp, n, _kv_rules(element, engine, allots, settings, holds)
        ),
        max_num_seqs=full(seqs),
        max_num_batched_tokens=full(batched),
        prints_capacity=allots.prints_capacity,
    )


def _kv_rules(
    element_bytes: float,
    engine: EngineConstants,
    allots: EngineMemory,
    settings: MemorySettings,
    holds_windows: bool,
) -> KvRules:
    cached = settings.caches_prefixes
    if cached is None:
        cached = allots.caches_prefixes_of_states
    return KvRules(
        element_bytes,
        engine.kv_block_tokens,
        state_pages=2 if cached else 1,
        holds_windows=holds_windows,
    )


def keeps_chunks(target: LlmSpec, draft: LlmSpec | None, allots: EngineMemory) -> bool:
    """Whether layers that attend within chunks keep every token nevertheless.

    vLLM's manager of hybrid layers does not run with them where a head drafts from the target's
    hidden states (config/vllm.py, 0.32); some versions leave it off altogether.
    """
    if not target.family.lower().replace("-", "").startswith(_CHUNKED):
        return False
    if draft is None:
        return not allots.holds_chunks
    head = draft.head is not None or (draft.layers == 1 and draft.hidden == target.hidden)
    return head or not allots.holds_chunks


def _buffer_bytes(
    target: LlmSpec, seqs: Floats, n: Floats, allots: EngineMemory, settings: MemorySettings
) -> ArrayLike:
    """Return what sampling keeps; where the engine's own figures are given they contain it."""
    if settings.activation_bytes is not None:
        return 0.0
    buffers = sampler_state_bytes(target, seqs, allots)
    if settings.probabilistic_drafts:
        buffers = buffers + seqs * n * target.vocab_size * _LOGIT_BYTES
    return buffers


def _limits(
    memory: Floats, engine: EngineConstants, settings: MemorySettings
) -> tuple[Floats, Floats]:
    """Return sequences and tokens a step, the engine's defaults by size where none are set."""
    seqs, batched = settings.max_num_seqs, settings.max_num_batched_tokens
    if seqs is None or batched is None:
        found = [engine.limits_for(float(size)) for size in np.ravel(memory)]
        if seqs is None:
            seqs = np.reshape([limits.max_num_seqs for limits in found], memory.shape)
        if batched is None:
            batched = np.reshape([limits.max_num_batched_tokens for limits in found], memory.shape)
    return np.asarray(seqs, dtype=float), np.asarray(batched, dtype=float)
