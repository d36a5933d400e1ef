"""What to know beside the figures of one GPU's memory."""

from __future__ import annotations

import math
from dataclasses import replace

from capplan.estimate.kvcache import kv_bytes_per_gpu_token
from capplan.estimate.kvpool import Breakdown
from capplan.estimate.memory import MemoryPlan, keeps_chunks
from capplan.schema.engine import EngineMemory
from capplan.schema.llm import LlmSpec
from capplan.schema.memory import MemoryRequest
from capplan.units import BYTES_PER_GIB

_DRIVER_SHARE = 0.98
"""Share of a GPU that engine and draft together can take: the context of CUDA needs the rest."""


def memory_notes(
    request: MemoryRequest,
    memory: MemoryPlan,
    allots: EngineMemory,
    target: LlmSpec,
    draft: LlmSpec | None,
    pool_bytes: float,
    longest: int,
) -> tuple[str, ...]:
    """Return what the figures alone do not say, one sentence or two each."""
    in_flight = float(allots.steps_in_flight * int(memory.max_num_batched_tokens))
    found = [
        _contradiction(request, memory),
        _too_long(request, target),
        _graphs_on_top(request, allots),
        _printed(memory, target, longest, in_flight, pool_bytes),
        _too_many_sequences(memory, pool_bytes),
        _asked_pool(request),
        _kept_chunks(target, draft, allots),
    ]
    if draft is not None:
        found += [_uncounted_draft(memory, allots), _unsplit_draft(request, memory)]
    return tuple(note for note in found if note)


def _uncounted_draft(memory: MemoryPlan, allots: EngineMemory) -> str:
    if allots.counts_draft:
        return ""
    # rounded down: a hundredth above it is a share at which memory runs out
    most = math.floor(_utilisation_without_draft(memory) * 100) / 100
    return (
        "This version sizes the KV pool before the draft is counted: its weights "
        f"({_gib(float(memory.draft_weight_bytes))} GiB) and its KV come on top. Start it "
        f"with --utilisation {most:.2f} at most, or take 0.9 or newer."
    )


def _unsplit_draft(request: MemoryRequest, memory: MemoryPlan) -> str:
    size, group = request.draft_tensor_parallel, request.tensor_parallel
    if size is None or size >= group:
        return ""
    return (
        f"The draft lies on {size} of {group} GPUs: the first GPU holds "
        f"{_gib(float(memory.draft_weight_bytes))} GiB more and sets the limit for all. "
        "vLLM 0.33 refuses or ignores a draft size other than the target's."
    )


def _contradiction(request: MemoryRequest, memory: MemoryPlan) -> str:
    """Say where a measured KV pool does not follow from utilisation and parts."""
    if request.kv_pool_bytes is None:
        return ""
    parts = Breakdown(
        capacity_bytes=float(memory.capacity_bytes),
        weight_bytes=float(memory.target_weight_bytes + memory.draft_weight_bytes),
        activation_bytes=float(memory.activation_bytes + memory.buffer_bytes),
        non_torch_bytes=float(memory.non_torch_bytes),
        kv_pool_bytes=request.kv_pool_bytes,
        cuda_graph_bytes=float(memory.cuda_graph_bytes),
    )
    stated = float(memory.usable_bytes / memory.capacity_bytes)
    if parts.agrees_with(stated):
        return ""
    return (
        f"A KV pool of {_gib(request.kv_pool_bytes)} GiB does not follow from a utilisation of "
        f"{stated:.2f}: the parts imply {parts.implied_utilisation:.2f}, at {stated:.2f} "
        f"{_gib(parts.pool_at(stated))} GiB would be left."
    )


def _too_long(request: MemoryRequest, target: LlmSpec) -> str:
    asked, limit = request.max_model_len, target.max_context
    if asked is None or limit is None or asked <= limit:
        return ""
    return f"The checkpoint's own limit is {limit:,} tokens: the engine refuses longer requests."


def _graphs_on_top(request: MemoryRequest, allots: EngineMemory) -> str:
    if request.cuda_graph_bytes is None or allots.counts_cuda_graphs:
        return ""
    return (
        f"CUDA graphs ({_gib(request.cuda_graph_bytes)} GiB) come on top of the utilisation: "
        "this version does not set them aside before it sizes the pool."
    )


def _printed(
    memory: MemoryPlan, target: LlmSpec, longest: int, in_flight: float, pool_bytes: float
) -> str:
    """Say what other versions print as the size of the same pool, where that differs."""
    groups = memory.layout.groups().groups
    if groups == 1 or pool_bytes <= 0:
        return ""
    other = replace(memory, prints_capacity=not memory.prints_capacity)
    tokens = int(other.printed_tokens(longest, in_flight, pool_bytes))
    if memory.prints_capacity:
        return (
            f"{target.id} has layers of several kinds in {groups} groups: vLLM 0.10 to 0.20 print "
            f"{tokens:,} tokens as size of such a pool, the blocks shared out among the groups."
        )
    return (
        f"{target.id} has layers of several kinds in {groups} groups, among which this version "
        f"shares out the blocks that it prints: trust the requests at once, {tokens:,} tokens."
    )


def _too_many_sequences(memory: MemoryPlan, pool_bytes: float) -> str:
    """Say where the pool has fewer blocks for states than sequences may run."""
    groups = memory.layout.groups()
    blocks = int(max(pool_bytes, 0.0) // float(groups.block_bytes))
    asked = int(memory.max_num_seqs)
    if not groups.keeps_states or asked <= blocks:
        return ""
    return (
        f"Every sequence holds a block for its state, and the pool has {blocks:,}: vLLM refuses "
        f"to start with {asked:,} sequences. Add --max-num-seqs {max(blocks, 1)} or fewer."
    )


def _asked_pool(request: MemoryRequest) -> str:
    if request.kv_cache_memory_bytes is None:
        return ""
    return "The pool was asked for outright: the utilisation plays no part."


def _kept_chunks(target: LlmSpec, draft: LlmSpec | None, allots: EngineMemory) -> str:
    if not allots.holds_windows or not keeps_chunks(target, draft, allots):
        return ""
    why = "where a head drafts" if allots.holds_chunks else "in this version by default"
    return (
        f"The layers of {target.id} that attend within chunks keep every token {why}: "
        "vLLM switches its manager of hybrid layers off."
    )


def _utilisation_without_draft(memory: MemoryPlan) -> float:
    """Return the share at which pool, draft and the draft's KV for the pool's tokens fit."""
    alone = float(kv_bytes_per_gpu_token(memory.layout.target, memory.layout.target_split))
    ratio = float(memory.kv_bytes_per_token) / alone - 1.0 if alone else 0.0
    rest = float(memory.target_weight_bytes + memory.overhead_bytes)
    room = _DRIVER_SHARE * float(memory.capacity_bytes) - float(memory.draft_weight_bytes)
    return (room + ratio * rest) / (float(memory.capacity_bytes) * (1.0 + ratio))


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / BYTES_PER_GIB:.2f}"
