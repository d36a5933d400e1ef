"""One engine on one GPU: what fits, what lacks, and what would help."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capplan.errors import RequestError
from capplan.estimate.activation import weight_scale
from capplan.estimate.kvcache import kv_known, uneven_heads
from capplan.estimate.memory import MemoryPlan, MemorySettings, plan_memory
from capplan.planning.memory import handed_out_bytes
from capplan.planning.memory_notes import memory_notes
from capplan.planning.memory_remedies import remedies
from capplan.schema.cache import BF16_BYTES, FP8_BYTES
from capplan.schema.engine import BatchLimits, EngineConstants, version_key
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.memory import MemoryRequest, MemoryUse
from capplan.units import BYTES_PER_GIB


@dataclass(frozen=True)
class Subject:
    """Facts of what is to run: found by the caller."""

    target: LlmSpec
    draft: LlmSpec | None
    gpu: GpuSpec
    engine: EngineConstants


def memory_use(request: MemoryRequest, subject: Subject) -> MemoryUse:
    """Return how the engine allots the GPU, and what would help where it does not fit.

    Raises
    ------
    RequestError
        If the heads cannot be split, the longest length or the KV layout is unknown, or how the
        version allots memory.
    """
    _check(request, subject)
    found = _use(request, subject)
    if found.fits:
        return found

    def again(asked: MemoryRequest) -> MemoryUse:
        return _use(asked, _without(asked, subject))

    tried = remedies(request, found, subject.target, again)
    return found.model_copy(update={"remedies": tried})


def _without(request: MemoryRequest, subject: Subject) -> Subject:
    """Drop the draft where a variant of the request asks for none."""
    draft = subject.draft if request.num_speculative_tokens else None
    return Subject(subject.target, draft, subject.gpu, subject.engine)


def _check(request: MemoryRequest, subject: Subject) -> None:
    _check_version(request, subject.engine)
    tp, draft_tp = request.tensor_parallel, request.draft_tensor_parallel
    for llm, size in ((subject.target, tp), (subject.draft, draft_tp or tp)):
        if llm is None:
            continue
        if odd := uneven_heads(llm, size):
            raise RequestError(
                f"{llm.id} has {odd}, which {size} GPUs cannot share evenly.",
                "Choose a tensor-parallel size that divides the heads.",
            )
        if not kv_known(llm):
            raise RequestError(
                f"{llm.id}: what its layers keep of a request is not known.",
                "Give the directory with its config.json.",
            )
    if request.max_model_len is None and subject.target.max_context is None:
        raise RequestError(
            f"The longest context of {subject.target.id} is not known.",
            "State it: --max-model-len TOKENS.",
        )


def _check_version(request: MemoryRequest, engine: EngineConstants) -> None:
    """Refuse a version newer than the latest one whose allotment was read."""
    asked = request.engine_version
    known = version_key(engine.version)
    if asked is None or version_key(asked)[: len(known)] <= known:
        return
    changes = ", ".join(rules.since for rules in engine.memory_versions[1:])
    raise RequestError(
        f"How {engine.id} {asked} allots memory is not known: {engine.version} is the latest "
        "version whose rules are.",
        f"Take a version up to {engine.version}; the rules changed with {changes}.",
    )


def _use(request: MemoryRequest, subject: Subject) -> MemoryUse:
    engine, target, draft = subject.engine, subject.target, subject.draft
    capacity = request.gpu_memory_bytes or handed_out_bytes(subject.gpu, engine)
    version = request.engine_version or engine.version
    allots = engine.memory_for(version)
    limits = _limits(request, engine.limits_for(capacity, subject.gpu.name))
    memory = plan_memory(
        target,
        draft,
        capacity,
        request.tensor_parallel,
        engine,
        _settings(request, subject, limits, version),
    )
    longest = request.max_model_len or target.max_context or 0
    in_flight = float(allots.steps_in_flight * limits.max_num_batched_tokens)
    need = float(memory.request_bytes(longest, in_flight))
    pool, room = _pool(request, memory)
    groups = memory.layout.groups(in_flight)
    workload = _workload_tokens(request)
    held = float(np.floor(max(pool, 0.0) / groups.block_bytes) * groups.block_bytes) / need
    return MemoryUse(
        target=target.id,
        draft=draft.id if draft is not None else None,
        gpu=subject.gpu.id,
        gpu_name=subject.gpu.name,
        tensor_parallel=request.tensor_parallel,
        engine=engine.id,
        engine_version=version,
        num_speculative_tokens=request.num_speculative_tokens,
        utilisation=float(memory.usable_bytes / memory.capacity_bytes),
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        capacity_bytes=capacity,
        usable_bytes=float(memory.usable_bytes),
        target_weight_bytes=float(memory.target_weight_bytes),
        draft_weight_bytes=float(memory.draft_weight_bytes),
        activation_bytes=float(memory.activation_bytes),
        cuda_graph_bytes=float(memory.cuda_graph_bytes),
        non_torch_bytes=float(memory.non_torch_bytes),
        buffer_bytes=float(memory.buffer_bytes),
        kv_pool_bytes=pool,
        kv_bytes_per_token=float(memory.kv_bytes_per_token),
        max_model_len=longest,
        request_bytes=need,
        kv_tokens=int(memory.printed_tokens(longest, in_flight, pool)),
        max_concurrency=held,
        workload_tokens=workload,
        workload_concurrency=(
            None if workload is None else max(pool, 0.0) / float(memory.request_bytes(workload))
        ),
        fits=pool >= need and room >= 0,
        lacking_bytes=max(0.0, need - pool, -room),
        verdict=_verdict(memory, pool, need, longest, room),
        notes=memory_notes(request, memory, allots, target, draft, pool, longest),
    )


def _pool(request: MemoryRequest, memory: MemoryPlan) -> tuple[float, float]:
    """Return the pool, and what stays free of the GPU where the pool was asked for outright."""
    if request.kv_cache_memory_bytes is None:
        return request.kv_pool_bytes or float(memory.kv_pool_bytes), 0.0
    pool = request.kv_cache_memory_bytes
    used = memory.target_weight_bytes + memory.draft_weight_bytes + memory.overhead_bytes
    return pool, float(memory.capacity_bytes - used) - pool


def _settings(
    request: MemoryRequest, subject: Subject, limits: BatchLimits, version: str
) -> MemorySettings:
    tp = request.tensor_parallel
    return MemorySettings(
        version=version,
        utilisation=request.utilisation,
        kv_element_bytes=FP8_BYTES if request.kv_dtype.startswith("fp8") else BF16_BYTES,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        num_speculative_tokens=request.num_speculative_tokens,
        probabilistic_drafts=request.probabilistic_drafts,
        draft_tensor_parallel=request.draft_tensor_parallel,
        target_weight_scale=weight_scale(subject.target, subject.engine, subject.gpu.arch, tp),
        caches_prefixes=request.prefix_caching,
        weight_bytes=request.weight_bytes,
        activation_bytes=request.activation_bytes,
        non_torch_bytes=request.non_torch_bytes,
        cuda_graph_bytes=request.cuda_graph_bytes,
    )


def _limits(request: MemoryRequest, defaults: BatchLimits) -> BatchLimits:
    asked = {
        "max_num_seqs": request.max_num_seqs,
        "max_num_batched_tokens": request.max_num_batched_tokens,
    }
    return defaults.model_copy(update={name: n for name, n in asked.items() if n is not None})


def _workload_tokens(request: MemoryRequest) -> int | None:
    if request.prompt_tokens is None or request.output_tokens is None:
        return None
    lookahead = request.num_speculative_tokens + 1
    return request.prompt_tokens + request.output_tokens + lookahead


def _verdict(memory: MemoryPlan, pool: float, need_bytes: float, longest: int, room: float) -> str:
    """Say in one sentence whether it fits and by how much."""
    if room < 0:
        return (
            f"does not fit by {_gib(-room)} GiB a GPU: the pool of {_gib(pool)} GiB asked for "
            "leaves too little for weights and run time"
        )
    weights = float(memory.target_weight_bytes + memory.draft_weight_bytes)
    over = weights - float(memory.usable_bytes)
    if over > 0 and pool <= 0:
        return f"does not fit: weights alone are {_gib(over)} GiB a GPU too large"
    if pool <= 0:
        return (
            f"does not fit: weights and run time leave {_gib(pool)} GiB a GPU for KV, "
            f"one request of {longest:,} tokens needs {_gib(need_bytes)}"
        )
    if pool < need_bytes:
        return (
            f"does not fit by {_gib(need_bytes - pool)} GiB a GPU: one request of {longest:,} "
            f"tokens needs {_gib(need_bytes)} GiB of KV, {_gib(pool)} GiB are left"
        )
    return (
        f"fits, with {_gib(pool - need_bytes)} GiB a GPU beyond one request of {longest:,} tokens"
    )


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / BYTES_PER_GIB:.2f}"
