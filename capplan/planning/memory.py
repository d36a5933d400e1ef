"""Memory of every hardware choice, as the engine would allot it there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capplan.estimate.activation import weight_scale
from capplan.estimate.memory import MemoryPlan, MemorySettings, plan_memory
from capplan.planning.choices import HardwareChoice
from capplan.planning.inputs import column
from capplan.schema.engine import EngineConstants
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec


def handed_out_bytes(gpu: GpuSpec, engine: EngineConstants) -> float:
    """Return what CUDA hands out of a GPU: the driver keeps a part of what it reports.

    A nominal size is a lower bound already and is taken as it is.
    """
    reserved = engine.reserved_for(gpu.name) if gpu.memory_is_reported else 0.0
    return gpu.memory_bytes - reserved


def batch_limit(choice: HardwareChoice, engine: EngineConstants) -> float:
    """Return the engine's default limit of concurrent sequences on such a GPU."""
    return float(engine.limits_for(choice.memory_bytes, choice.gpu_name).max_num_seqs)


def allot(
    target: LlmSpec,
    draft: LlmSpec | None,
    choices: Sequence[HardwareChoice],
    lengths: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    engine: EngineConstants,
) -> MemoryPlan:
    """Return the memory of every (hardware, N); the batch axis has length one.

    The launch text asks for ``engine.least_batched_tokens`` tokens a step, whatever the engine's
    default on that GPU.
    """
    limits = [engine.limits_for(choice.memory_bytes, choice.gpu_name) for choice in choices]
    scales = [
        weight_scale(target, engine, _arch(choice), choice.tensor_parallel) for choice in choices
    ]
    settings = MemorySettings(
        max_num_seqs=column([limit.max_num_seqs for limit in limits]),
        max_num_batched_tokens=engine.least_batched_tokens,
        num_speculative_tokens=lengths.astype(float)[None, :, None],
        target_weight_scale=column(scales),
    )
    return plan_memory(
        target,
        draft,
        column([choice.memory_bytes for choice in choices]),
        column([choice.tensor_parallel for choice in choices]),
        engine,
        settings,
    )


def _arch(choice: HardwareChoice) -> str:
    return choice.gpu.arch if choice.gpu is not None else "default"
