"""What was seen of a served load: one window of a server, or one run of a benchmark tool.

Values keep the definition that the tool has for them, brought to SI units. What a value does not
allow to conclude stands in ``flags``; nothing is repaired and nothing is averaged over.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from capplan.schema.base import Value
from capplan.schema.pairing import Method

Count = Annotated[float, Field(ge=0)]
Use = Literal["capacity", "latency", "acceptance", "step_time"]
"""What an observation can be used for."""


class Spread(Value):
    """Distribution of a latency over requests, in seconds; what a tool does not give is None."""

    mean: Annotated[float, Field(ge=0)] | None = None
    p50: Annotated[float, Field(ge=0)] | None = None
    p90: Annotated[float, Field(ge=0)] | None = None
    p95: Annotated[float, Field(ge=0)] | None = None
    p99: Annotated[float, Field(ge=0)] | None = None

    @property
    def typical(self) -> float | None:
        """The mean, else the median."""
        return self.mean if self.mean is not None else self.p50


class SpeculationCounts(Value):
    """Totals of one window; ``acceptance_rate`` and ``tokens_per_round`` follow from them."""

    num_speculative_tokens: int | None = Field(default=None, ge=1)
    drafts: Count
    """Rounds that had a draft."""
    drafted: Count
    accepted: Count
    accepted_per_position: tuple[Count, ...] = ()
    """How often at least i+1 tokens were accepted; empty where it was not counted."""
    rounds: Count | None = None
    """All rounds of all requests, those without a draft too; None where it was not counted."""
    by_request: tuple[tuple[Count, Count], ...] = ()
    """Rounds with a draft and accepted tokens of each request, where they were counted apart."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.accepted > self.drafted:
            msg = f"accepted={self.accepted} cannot exceed drafted={self.drafted}"
            raise ValueError(msg)
        return self

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over drafted tokens."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_draft_round(self) -> float | None:
        """Emitted tokens of a round that had a draft, bonus included (the engine's own mean)."""
        return 1.0 + self.accepted / self.drafts if self.drafts else None

    @property
    def tokens_per_round(self) -> float | None:
        """Emitted tokens of a round, over all rounds; None where they were not counted."""
        return 1.0 + self.accepted / self.rounds if self.rounds else None

    @property
    def cumulative_rates(self) -> tuple[float, ...]:
        """Share of draft rounds that accept positions 1 .. i."""
        return tuple(count / self.drafts for count in self.accepted_per_position)


class Flag(Value):
    """Why an observation must not be used for something: what was seen, what to do."""

    check: str
    """Short name in snake_case, for filtering."""
    text: str
    remedy: str = ""
    unusable_for: tuple[Use, ...] = ()


class Load(Value):
    """How the server was driven."""

    arrival: Literal["rate", "all_at_once", "closed_loop", "unknown"] = "unknown"
    """Open loop at a rate; everything sent at the start; a new request for each that ends."""
    requested_rate_per_s: float | None = Field(default=None, gt=0)
    """Arrival rate asked for, where ``arrival`` is ``rate``."""
    achieved_rate_per_s: float | None = Field(default=None, ge=0)
    """Completed requests a second."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Limit that the client set."""
    peak_concurrency: float | None = Field(default=None, ge=0)
    """Largest number of requests really in flight."""
    mean_concurrency: float | None = Field(default=None, ge=0)
    """Mean number of requests being served; by Little's law where it was not sampled."""
    dataset: str = ""
    temperature: float | None = Field(default=None, ge=0)
    thinking: bool | None = None
    prefix_cache_hit_rate: float | None = Field(default=None, ge=0, le=1)


class Observation(Value):
    """One window of one load on one engine."""

    source: str
    """File name, or the server's address without credentials."""
    format: str
    """What wrote it, such as ``vllm-bench-serve``, ``guidellm-v2``, ``prometheus``."""
    part: str = ""
    """Which benchmark of a file with several, which engine label of a server."""
    model: str = ""
    draft: str = ""
    method: Method | None = None
    draft_sampling: Literal["greedy", "probabilistic"] | None = None
    """How a draft model or head proposed; acceptance at a temperature depends on it."""
    engine: str = ""
    engine_version: str = ""
    gpu: str = ""
    gpu_count: int | None = Field(default=None, ge=1)
    started_at: str = ""
    duration_s: float | None = Field(default=None, gt=0)
    load: Load = Load()
    completed: Count | None = None
    failed: Count | None = None
    prompt_tokens: Count | None = None
    output_tokens: Count | None = None
    output_tokens_per_s: Count | None = None
    ttft_s: Spread | None = None
    tpot_s: Spread | None = None
    """Time per output token after the first, a request."""
    step_s: Spread | None = None
    """Time between two engine steps that a request saw: one round, not one token."""
    e2e_s: Spread | None = None
    speculation: SpeculationCounts | None = None
    flags: tuple[Flag, ...] = ()

    def usable_for(self, use: Use) -> bool:
        """Whether no flag stands against a use."""
        return not any(use in flag.unusable_for for flag in self.flags)
