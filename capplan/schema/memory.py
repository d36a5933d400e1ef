"""Memory of one GPU: what is asked, and how the engine would allot it."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from capplan.schema.base import Value
from capplan.schema.pairing import Method

VERSION = re.compile(r"^\d+(\.\d+)*(\.?[a-z][a-z0-9.]*)?$")
"""How an engine writes its version: ``0.11``, ``0.33.0``, ``0.15.2rc1.dev93``."""

KvDtype = Literal["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]


class MemoryRequest(Value):
    """One engine on one kind of GPU. None takes the engine's own default or estimate."""

    target: str
    gpu: str
    tensor_parallel: int = Field(default=1, ge=1)
    draft: str | None = None
    method: Method = Method.NONE
    num_speculative_tokens: int = Field(default=0, ge=0)
    draft_tensor_parallel: int | None = Field(default=None, ge=1)
    """GPUs the draft is split over; None: as the target."""
    probabilistic_drafts: bool = False
    utilisation: float | None = Field(default=None, gt=0, le=1)
    max_model_len: int | None = Field(default=None, ge=1)
    """None: the checkpoint's own limit."""
    max_num_seqs: int | None = Field(default=None, ge=1)
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    kv_dtype: KvDtype = "auto"
    prompt_tokens: int | None = Field(default=None, ge=1)
    output_tokens: int | None = Field(default=None, ge=1)
    engine: str = "vllm"
    engine_version: str | None = Field(default=None, pattern=VERSION.pattern)
    prefix_caching: bool | None = None
    """Whether prefixes are cached: matters to LLMs with states only. None: the default."""
    gpu_memory_bytes: float | None = Field(default=None, gt=0)
    """What CUDA hands out, where it was read on the machine. This and the next five: measured
    values, taken as they are."""
    weight_bytes: float | None = Field(default=None, gt=0)
    """Of one GPU, target and draft together, as the engine prints what loading took."""
    activation_bytes: float | None = Field(default=None, ge=0)
    non_torch_bytes: float | None = Field(default=None, ge=0)
    cuda_graph_bytes: float | None = Field(default=None, ge=0)
    kv_pool_bytes: float | None = Field(default=None, gt=0)
    """What the engine printed as available for KV; the other parts are then held against it."""
    kv_cache_memory_bytes: float | None = Field(default=None, gt=0)
    """Pool asked of the engine outright (vLLM's ``--kv-cache-memory-bytes``): the utilisation
    then plays no part."""

    @model_validator(mode="after")
    def _one_pool(self) -> Self:
        if self.kv_pool_bytes is not None and self.kv_cache_memory_bytes is not None:
            msg = "kv_pool_bytes is measured and kv_cache_memory_bytes is asked for: give one"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _lengths_together(self) -> Self:
        if (self.prompt_tokens is None) != (self.output_tokens is None):
            msg = "prompt_tokens and output_tokens belong together"
            raise ValueError(msg)
        return self


class MemoryUse(Value):
    """How the engine allots the fullest GPU of a replica. Bytes."""

    target: str
    draft: str | None
    gpu: str
    gpu_name: str
    tensor_parallel: int
    engine: str
    engine_version: str
    num_speculative_tokens: int
    utilisation: float
    max_num_seqs: int
    max_num_batched_tokens: int
    capacity_bytes: float
    usable_bytes: float
    target_weight_bytes: float
    draft_weight_bytes: float
    activation_bytes: float
    cuda_graph_bytes: float
    non_torch_bytes: float
    buffer_bytes: float
    kv_pool_bytes: float
    """Negative by as much as the rest does not fit."""
    kv_bytes_per_token: float
    """Target and draft: what every further token takes for ever."""
    max_model_len: int
    request_bytes: float
    """KV of one request of ``max_model_len``, as the engine reserves it at its start."""
    kv_tokens: int
    """What the engine prints as the size of its pool: largest concurrency times longest length,
    or in versions before 0.21 the blocks shared out among the groups of layers."""
    max_concurrency: float
    """Requests of ``max_model_len`` that the pool holds."""
    workload_tokens: int | None
    """Length of a request of the workload, lookahead included; None where none was given."""
    workload_concurrency: float | None
    """Requests of that length that the pool holds while they are decoded."""
    fits: bool
    """Whether the engine starts: the pool holds one request of ``max_model_len``."""
    lacking_bytes: float
    """What is missing a GPU; 0 where it fits."""
    verdict: str
    remedies: tuple[str, ...] = ()
    """What would make it fit, each tried."""
    notes: tuple[str, ...] = ()
