"""Constants of a serving engine: efficiencies, overheads and their measured error."""

from __future__ import annotations

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.quantity import Quantity


class EngineConstants(Value):
    """What the data-sheet tier needs to know about an engine. Times in seconds."""

    id: str
    version: str
    vendors: tuple[str, ...]
    """GPU vendors that the constants were measured on; others are refused, not guessed."""
    weight_bandwidth_efficiency: float = Field(gt=0, le=1)
    kv_bandwidth_efficiency: float = Field(gt=0, le=1)
    prefill_flops_efficiency: float = Field(gt=0, le=1)
    verify_flops_efficiency: dict[str, float]
    """By GPU architecture; ``default`` for the rest."""
    layer_s: float = Field(ge=0)
    """Launch and synchronisation of one layer."""
    communication_s: float = Field(ge=0)
    """One layer's all-reduces, a doubling of the tensor-parallel group."""
    request_s: float = Field(ge=0)
    """Scheduling and sampling of one request in a step."""
    draft_pass_s: Quantity
    """Fixed cost of one draft pass beyond its layers and bytes."""
    round_s: Quantity
    """Fixed cost of one speculative round: rejection sampling, bookkeeping."""
    expert_correlation: Quantity
    """Effective share of extra tokens that route as if independent (1: independent)."""
    first_token_s: float = Field(ge=0)
    prefill_queue_base: float = Field(ge=0)
    prefill_queue_per_request: float = Field(ge=0)
    memory_utilisation: float = Field(gt=0, le=1)
    overhead_bytes_large_gpu: float = Field(ge=0)
    overhead_bytes_small_gpu: float = Field(ge=0)
    large_gpu_bytes: float = Field(gt=0)
    max_num_seqs_large_gpu: int = Field(ge=1)
    max_num_seqs_small_gpu: int = Field(ge=1)
    capturable_tokens: int = Field(ge=1)
    """Tokens up to which the launch text has them captured; larger verifications are not planned,
    since beyond the captured sizes a step costs several times more."""
    decode_relative_se: dict[str, float]
    """Error of one decode step by GPU architecture; ``default`` for those without measurements."""
    round_ratio_relative_se_dense: float = Field(gt=0)
    round_ratio_relative_se_moe: float = Field(gt=0)
    sources: dict[str, str]
    """Where each constant comes from."""
