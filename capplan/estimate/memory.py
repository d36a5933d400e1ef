"""Memory of one GPU as the engine allots it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.steptime import kv_bytes_per_gpu_token
from capplan.schema.engine import EngineConstants
from capplan.schema.llm import LlmSpec

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes on one GPU; arrays share one shape."""

    usable_bytes: Floats
    target_weight_bytes: Floats
    draft_weight_bytes: Floats
    overhead_bytes: Floats
    kv_bytes_per_token: Floats
    kv_tokens: Floats
    """Tokens that fit; negative by as much as it does not fit."""


def plan_memory(
    target: LlmSpec,
    draft: LlmSpec | None,
    gpu_memory_bytes: ArrayLike,
    tensor_parallel: ArrayLike,
    engine: EngineConstants,
) -> MemoryPlan:
    """Allot one GPU: utilisation times capacity, less weights and overhead, is KV pool.

    The draft's layers join the same pool, so its weights and its KV bytes a token both lower the
    largest batch. Weights of target and draft are split over the tensor-parallel group.

    Parameters
    ----------
    target, draft
        Draft is None for methods that load nothing; a head counts as an LLM of one layer.
    gpu_memory_bytes, tensor_parallel
        Broadcast together.

    Notes
    -----
    docs/method/memory.md. Checked: draft KV of Qwen3-8B + Qwen3-0.6B makes 1.778x, measured 1.77x
    (SpecDecode-Bench, arXiv:2601.11580).
    """
    memory = np.asarray(gpu_memory_bytes, dtype=float)
    tp = np.asarray(tensor_parallel, dtype=float)
    large = memory >= engine.large_gpu_bytes
    overhead = np.where(large, engine.overhead_bytes_large_gpu, engine.overhead_bytes_small_gpu)
    usable = memory * engine.memory_utilisation
    target_weights = target.weight_bytes / tp
    draft_weights = np.zeros_like(tp)
    draft_kv = np.zeros_like(tp)
    if draft is not None:
        draft_weights = draft.weight_bytes / tp
        draft_kv = kv_bytes_per_gpu_token(draft, tp)
    kv = kv_bytes_per_gpu_token(target, tp) + draft_kv
    left = usable - target_weights - draft_weights - overhead
    shape = np.broadcast_shapes(memory.shape, tp.shape)

    def full(values: Floats) -> Floats:
        return np.broadcast_to(values, shape).astype(float)

    return MemoryPlan(
        usable_bytes=full(usable),
        target_weight_bytes=full(target_weights),
        draft_weight_bytes=full(draft_weights),
        overhead_bytes=full(overhead),
        kv_bytes_per_token=full(kv),
        kv_tokens=full(left / kv),
    )
