"""The profile file: the contract between a measured host and every later stage.

Raw values only; whatever can be recomputed (means, acceptance, speedup) is not stored.
Arrays too long for JSON lie in a sidecar ``.npz`` named by its content hash.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.cells import (
    AcceptanceCell,
    LosslessnessCell,
    Phase,
    Role,
    RoundsCell,
    TimingCell,
)
from capplan.schema.measured_setup import Backend, Draft, Environment, ProfiledLlm
from capplan.schema.observation import Observation
from capplan.schema.verdict import Verdict

PROFILE_SCHEMA_VERSION = 2


class EngineMemory(Value):
    """What an engine took and what it has left for KV, as it reports itself."""

    num_speculative_tokens: int = Field(ge=0)
    """Of the configuration that was started; 0 without a draft."""
    model_bytes: float | None = Field(default=None, gt=0)
    """Weights of target and draft together."""
    kv_pool_bytes: float | None = Field(default=None, gt=0)
    kv_capacity_tokens: int = Field(ge=0)
    kv_block_tokens: int = Field(ge=1)
    max_model_len: int = Field(ge=1)


class MemoryRecord(Value):
    """Bytes that one model really took."""

    role: Role
    weight_bytes: float = Field(ge=0)
    kv_bytes_per_token: float = Field(ge=0)
    peak_bytes: float | None = None
    """Largest allocation seen while measuring (device memory, or resident set on a CPU)."""


class PowerRecord(Value):
    """Energy of a window, from the difference of the energy counter."""

    phase: Phase
    batch: int = Field(ge=1)
    joules: float = Field(ge=0)
    seconds: float = Field(gt=0)
    tokens: int = Field(ge=0)


class Skipped(Value):
    """Something asked for and not measured."""

    what: str
    reason: str


class Profile(Value):
    """One profiling run, complete or stopped in good order."""

    schema_version: Literal[2] = 2
    id: str
    created_at: str
    """ISO 8601, UTC."""
    capplan_version: str
    complete: bool
    """False while cells are still missing (stopped, or out of time)."""
    request: dict[str, str | int | float | bool | tuple[int | float | str, ...] | None]
    """What was asked for; ``--resume`` goes on only if it is the same."""
    environment: Environment
    backend: Backend
    target: ProfiledLlm
    draft: Draft | None = None
    timing: tuple[TimingCell, ...] = ()
    acceptance: tuple[AcceptanceCell, ...] = ()
    rounds: tuple[RoundsCell, ...] = ()
    losslessness: tuple[LosslessnessCell, ...] = ()
    observations: tuple[Observation, ...] = ()
    """Windows of a served load: a live server's, or read from other tools' files."""
    memory: tuple[MemoryRecord, ...] = ()
    engine_memory: tuple[EngineMemory, ...] = ()
    power: tuple[PowerRecord, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    verdict: Verdict
    sidecar: str | None = None
    """File name of the ``.npz`` beside this file."""
