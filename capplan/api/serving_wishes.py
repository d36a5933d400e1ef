"""What load a serving simulation is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DEFAULT_SHARES = (0.3, 0.6, 0.9)
"""Shares of the capacity that are simulated unless rates are stated."""
DEFAULT_REQUESTS = 2000


@dataclass(frozen=True)
class ServingWishes:
    """What load to simulate; None takes the source's own.

    Attributes
    ----------
    rates_per_s
        Arrivals at all replicas together; empty takes ``shares`` of the capacity.
    prompt_tokens, output_tokens
        One length, or observed lengths to draw from: prompt and answer of a request together
        where they are as many. Unless stated, a plan's lengths are drawn from the distributions
        that its workload knows, and a profile's are the means of what it traced.
    prefix_hit_share
        Share of every prompt that a prefix cache holds; a plan's own unless stated.
    num_speculative_tokens
        N of every batch.
    schedule
        (first batch, last batch, N) instead; the last range holds beyond.
    requests
        Simulated at each rate.
    """

    rates_per_s: tuple[float, ...] = ()
    shares: tuple[float, ...] = DEFAULT_SHARES
    prompt_tokens: int | Sequence[int] | None = None
    output_tokens: int | Sequence[int] | None = None
    prefix_hit_share: float | None = None
    num_speculative_tokens: int | None = None
    schedule: tuple[tuple[int, int, int], ...] = ()
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_tokens: int | None = None
    temperature: float | None = None
    task: str | None = None
    requests: int = DEFAULT_REQUESTS
    seed: int = 0

    @property
    def lengths(self) -> tuple[int, ...]:
        """N that are asked for; empty leaves the choice to the source."""
        if self.schedule:
            return tuple(sorted({n for _, _, n in self.schedule}))
        return () if self.num_speculative_tokens is None else (self.num_speculative_tokens,)
