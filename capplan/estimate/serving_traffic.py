"""Requests of a simulated load: when each comes, and how long its prompt and its answer are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.errors import RequestError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Traffic:
    """Requests in the order in which they come; exactly one of the last two is given.

    Attributes
    ----------
    prompt_tokens, output_tokens
        Of each request, >= 1.
    cached_tokens
        Leading tokens of each prompt that a prefix cache holds: no time, but room all the same.
    arrival_s
        Open loop: when each request comes, rising.
    concurrency
        Closed loop: so many at a time, each followed by the next.
    """

    prompt_tokens: Integers
    output_tokens: Integers
    cached_tokens: Integers
    arrival_s: Floats | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        """Refuse loads that are no loads."""
        if (self.arrival_s is None) == (self.concurrency is None):
            raise RequestError(
                "A load has either times of arrival or a number of requests at a time.",
                "Give exactly one of arrival_s and concurrency.",
            )
        _check_counts(self)
        if self.concurrency is not None and self.concurrency < 1:
            raise RequestError(
                f"{self.concurrency} requests at a time are no load.", "Give 1 or more."
            )
        if self.arrival_s is not None and (np.diff(self.arrival_s) < 0).any():
            raise RequestError("Times of arrival fall.", "Sort them.")

    @property
    def count(self) -> int:
        """Requests in all."""
        return len(self.prompt_tokens)

    def at_rate(self, rate_per_s: float, seed: int) -> Traffic:
        """Return the same requests arriving at random (Poisson) at a rate; the first at 0."""
        return replace(
            self, arrival_s=poisson_arrivals_s(rate_per_s, self.count, seed), concurrency=None
        )

    def closed(self, concurrency: int) -> Traffic:
        """Return the same requests in a closed loop."""
        return replace(self, arrival_s=None, concurrency=concurrency)


def _check_counts(traffic: Traffic) -> None:
    count = len(traffic.prompt_tokens)
    arrays = (traffic.output_tokens, traffic.cached_tokens, traffic.arrival_s)
    if count == 0 or any(array is not None and len(array) != count for array in arrays):
        raise RequestError(
            "A load needs at least one request, and as many prompts as answers and arrivals.",
            "Give arrays of one length.",
        )
    if min(traffic.prompt_tokens.min(), traffic.output_tokens.min()) < 1:
        raise RequestError("A prompt or an answer has no tokens.", "Give lengths of 1 or more.")


def traffic(
    count: int,
    prompt_tokens: ArrayLike,
    output_tokens: ArrayLike,
    *,
    prefix_hit_share: float = 0.0,
    arrival_s: ArrayLike | None = None,
    concurrency: int | None = None,
    seed: int = 0,
) -> Traffic:
    """Build a load.

    Parameters
    ----------
    count
        Requests.
    prompt_tokens, output_tokens
        One length for all, a length a request, or any other number of observed lengths, from
        which are drawn as many as needed (both drawn together where they are as many).
    prefix_hit_share
        Share of every prompt that a prefix cache holds.
    arrival_s, concurrency
        As in :class:`Traffic`; without either, one at a time (see :meth:`Traffic.at_rate`).
    seed
        Of the draws.
    """
    if not 0.0 <= prefix_hit_share < 1.0:
        raise RequestError(
            f"A prefix cache cannot hold {prefix_hit_share:g} of a prompt.",
            "Give a share from 0 to below 1.",
        )
    prompts, outputs = np.ravel(prompt_tokens), np.ravel(output_tokens)
    random = np.random.default_rng([seed, 1])
    drawn = random.integers(0, len(prompts), count)
    prompts_of = prompts if len(prompts) == count else prompts[drawn]
    if len(outputs) != len(prompts):
        drawn = random.integers(0, len(outputs), count)
    outputs_of = outputs if len(outputs) == count else outputs[drawn]
    whole = np.asarray(np.rint(prompts_of), dtype=np.int64)
    if arrival_s is None and concurrency is None:
        concurrency = 1
    return Traffic(
        prompt_tokens=whole,
        output_tokens=np.asarray(np.rint(outputs_of), dtype=np.int64),
        cached_tokens=np.asarray(whole * prefix_hit_share, dtype=np.int64),
        arrival_s=None if arrival_s is None else np.asarray(arrival_s, dtype=float),
        concurrency=concurrency,
    )


def poisson_arrivals_s(rate_per_s: float, count: int, seed: int) -> Floats:
    """Return times of Poisson arrivals; the first is 0.

    Raises
    ------
    RequestError
        If the rate is not above 0.
    """
    if not rate_per_s > 0:
        raise RequestError(
            f"{rate_per_s:g} requests a second are no load.", "Give a rate above 0."
        )
    random = np.random.default_rng([seed, 2])
    gaps_s = random.exponential(1.0 / rate_per_s, size=max(count - 1, 0))
    times: Floats = np.concatenate([[0.0], np.cumsum(gaps_s)])
    return times
