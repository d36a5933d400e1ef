"""What a backend must offer. The session drives any backend through these methods alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from capplan.schema.cells import DraftSampling, Phase, Role
from capplan.schema.measured_setup import Backend as BackendRecord, Draft, ProfiledLlm
from capplan.schema.profile import MemoryRecord


@dataclass(frozen=True)
class LoadRequest:
    """What to load and how."""

    target: str
    """A directory, an id in the local cache, or a ``.gguf`` file."""
    draft: str | None = None
    prompt_lookup: tuple[int, int] | None = None
    """(min, max) of an n-gram draft; exclusive with ``draft``."""
    device: str = "auto"
    """``auto``, ``cuda``, ``cuda:1`` or ``cpu``."""
    dtype: str = "auto"
    """``auto``: bfloat16 on CUDA, float32 on a CPU."""
    dummy_weights: bool = False
    target_id: str | None = None
    """Name to record for the target where it is not the one it was found by."""
    draft_id: str | None = None
    """The same for the draft."""


@dataclass(frozen=True)
class TimingPoint:
    """One point of the timing grid."""

    role: Role
    phase: Phase
    batch: int
    tokens_per_sequence: int
    context: int


@dataclass(frozen=True)
class SamplingPoint:
    """How text is sampled."""

    temperature: float
    max_tokens: int
    seed: int
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True)
class Generation:
    """Text that the target produced itself, as token ids."""

    prompt_ids: tuple[int, ...]
    generated_ids: tuple[int, ...]


@dataclass(frozen=True)
class RoundsOutcome:
    """Raw counts of really run speculation; fields as in ``RoundsCell``."""

    rounds: int
    drafted: int
    accepted: int
    accepted_per_position: tuple[int, ...]
    emitted: int
    seconds: float
    baseline_emitted: int
    baseline_seconds: float
    identical_outputs: int | None


@dataclass(frozen=True)
class Trace:
    """Acceptance trace of a list of generations (see ``AcceptanceCell``)."""

    kind: str
    offsets: NDArray[np.int64]
    arrays: dict[str, NDArray[np.float32] | NDArray[np.uint8]] = field(default_factory=dict)


class PreparedPoint(Protocol):
    """A timing point ready to run: caches filled, graphs captured."""

    @property
    def cuda_graph(self) -> bool:
        """Whether the passes run inside a captured CUDA graph."""

    def run_block(self, passes: int) -> float:
        """Run ``passes`` forward passes back to back and return their total seconds.

        On CUDA the time comes from device events, on a CPU from the monotonic clock.
        """

    def close(self) -> None:
        """Free what the point holds."""


class Backend(Protocol):
    """Loads a pairing and measures it. One instance serves one session."""

    def load(self, request: LoadRequest) -> None:
        """Load target and draft. Errors are ``capplan.errors`` with a remedy."""

    def record(self) -> BackendRecord:
        """Return name, version and exact arguments."""

    def target(self) -> ProfiledLlm:
        """Return the loaded target."""

    def draft(self) -> Draft | None:
        """Return the loaded draft."""

    def max_context(self) -> int:
        """Return the longest sequence both models can hold."""

    def encode(self, prompt: str) -> tuple[int, ...]:
        """Tokenise one user prompt through the chat template, if there is one."""

    def prepare(self, point: TimingPoint) -> PreparedPoint:
        """Fill the caches for one timing point."""

    def generate(
        self, prompts: Sequence[tuple[int, ...]], sampling: SamplingPoint
    ) -> list[Generation]:
        """Let the target write, batched. Same seed, same text."""

    def trace(self, generations: Sequence[Generation], sampling: SamplingPoint) -> Trace:
        """Score the text once with target and draft (or replay the lookup)."""

    def run_rounds(
        self,
        prompts: Sequence[tuple[int, ...]],
        sampling: SamplingPoint,
        num_speculative_tokens: int,
        draft_sampling: DraftSampling | None,
    ) -> RoundsOutcome:
        """Speculate for real, interleaved request by request with plain decoding."""

    def memory(self) -> list[MemoryRecord]:
        """Return weights, KV bytes a token and the peak so far."""

    def close(self) -> None:
        """Free the models."""
