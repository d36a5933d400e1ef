"""A served load as simulated: latencies, throughput and queue at each rate of arrivals."""

from __future__ import annotations

from pydantic import Field

from capplan.schema.base import Value


class LatenciesMs(Value):
    """A latency over the requests of one load, in milliseconds."""

    mean_ms: float = Field(ge=0)
    p50_ms: float = Field(ge=0)
    p90_ms: float = Field(ge=0)
    p99_ms: float = Field(ge=0)


class LoadAtRate(Value):
    """One rate of arrivals, Poisson."""

    requests_per_s: float = Field(gt=0)
    """At all replicas together."""
    share_of_capacity: float = Field(gt=0)
    is_stable: bool
    """Whether less arrives than can be served. If not, latencies only say how long the queue had
    become when the simulated requests ended."""
    ttft: LatenciesMs
    """Time to the first token, the wait in the queue included."""
    tpot: LatenciesMs | None
    """Time per output token after the first; None where answers have one token."""
    e2e: LatenciesMs
    output_tokens_per_s: float = Field(gt=0)
    """Of all replicas. This and the means below are of the time in which requests keep coming:
    from when a fifth of them have to when the last does; of the whole run if it is not stable."""
    utilisation: float = Field(ge=0, le=1)
    """Share of the time in which a step ran."""
    mean_batch: float = Field(ge=0)
    """Sequences that decode in a step of one replica."""
    mean_queue: float = Field(ge=0)
    max_queue: int = Field(ge=0)
    """Requests of one replica that wait."""
    preemptions: int = Field(ge=0)
    """Requests of one replica thrown out of a full cache and computed again."""
    kv_peak_share: float = Field(ge=0)
    """Largest share of a replica's cache in use."""


class SimulatedLengths(Value):
    """Prompts, or answers, of the simulated requests, in tokens."""

    origin: str
    """What they were drawn from, or who stated them."""
    mean_tokens: float = Field(ge=1)
    p50_tokens: float = Field(ge=1)
    p90_tokens: float = Field(ge=1)
    p99_tokens: float = Field(ge=1)
    longest_tokens: int = Field(ge=1)


class ServingLoad(Value):
    """A machine, its traffic, and what comes of it at several rates."""

    origin: str
    """Profile or option of a plan that the step times are from."""
    target: str
    draft: str
    method: str
    lengths: tuple[tuple[int, int, int], ...]
    """(first batch, last batch, N); one range where N is fixed, 0 without speculation."""
    tokens_per_round: float = Field(ge=1)
    """At the largest N."""
    replicas: int = Field(ge=1)
    max_num_seqs: int = Field(ge=1)
    max_num_batched_tokens: int = Field(ge=1)
    kv_tokens: int = Field(ge=1)
    """Of one replica."""
    mean_prompt_tokens: float
    mean_output_tokens: float
    prompt_lengths: SimulatedLengths
    output_lengths: SimulatedLengths
    length_correlation: float = Field(ge=-1, le=1)
    """Pearson's, of prompt and output of the simulated requests; 0 where one never changes."""
    prefix_hit_share: float
    capacity_requests_per_s: float = Field(gt=0)
    """Most that all replicas serve, in a closed loop with every place taken."""
    capacity_output_tokens_per_s: float = Field(gt=0)
    requests: int = Field(ge=1)
    """Simulated at each rate, at one replica."""
    seed: int
    rates: tuple[LoadAtRate, ...]
    notes: tuple[str, ...] = ()
