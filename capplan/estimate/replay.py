"""Rounds of speculative decoding replayed over a text: expected counts a request.

A draft model's rounds from the probability that each token is accepted, a lookup's from what a
round from each position proposes, an engine's own rounds cut to fewer drafted tokens. N is the
number of tokens drafted a round, as in ``docs/method/acceptance.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ReplayCounts:
    """Expected counts of speculative decoding over a text, one row a request.

    Attributes
    ----------
    rounds
        Target passes after the prefill, shape (requests,).
    emitted
        Tokens kept after the prefill's own first token, shape (requests,).
    drafted, accepted
        Proposed and accepted tokens, shape (requests,). Only tokens of the kept text count.
    accepted_per_position
        Expected rounds that accept at least i+1 tokens, shape (requests, N).
    rounds_with_draft
        Rounds in which anything was proposed, shape (requests,); lookup often finds nothing.
    """

    rounds: Floats
    emitted: Floats
    drafted: Floats
    accepted: Floats
    accepted_per_position: Floats
    rounds_with_draft: Floats

    def of_first(self, requests: int) -> ReplayCounts:
        """Return the counts of the first requests alone."""
        return ReplayCounts(*(getattr(self, name)[:requests] for name in _COUNTS))

    @classmethod
    def joined(cls, parts: Sequence[ReplayCounts]) -> ReplayCounts:
        """Put the requests of several texts together."""
        return cls(*(np.concatenate([getattr(part, n) for part in parts]) for n in _COUNTS))


_COUNTS = tuple(field.name for field in fields(ReplayCounts))


def _padded(values: NDArray[np.generic], offsets: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return (requests, longest) values padded with zero, and the lengths."""
    lengths = np.diff(offsets)
    table = np.zeros((len(lengths), int(lengths.max(initial=0))))
    inside = np.arange(table.shape[1]) < lengths[:, None]
    table[inside] = values
    return table, lengths.astype(float)


def replay_per_token(
    accept_prob: NDArray[np.generic],
    offsets: NDArray[np.int64],
    num_speculative_tokens: int,
) -> ReplayCounts:
    """Replay rounds of a draft model over a trace; exact in expectation.

    Acceptance at different positions is independent given the text, so the starts of rounds form
    a renewal process: with ``v[t]`` the probability that a round starts at position t,
    ``v[t+k+1] += v[t] * P(exactly k accepted from t)``. Position 0 comes from the prefill.
    Where the text ends, the round keeps what is left of it.

    Parameters
    ----------
    accept_prob
        Acceptance probability of each generated token, requests concatenated.
    offsets
        Start of each request, shape (requests + 1,).
    num_speculative_tokens
        N, 0 to 16. N = 0 is plain decoding: one token a round.

    Returns
    -------
    ReplayCounts
        Expected counts a request.

    Notes
    -----
    METHOD: Leviathan et al., arXiv:2211.17192 (acceptance rule); see docs/method/acceptance.md.
    """
    table, lengths = _padded(accept_prob, offsets)
    requests, longest = table.shape
    n = num_speculative_tokens
    ahead = np.pad(table, ((0, 0), (0, n)))
    windows = np.lib.stride_tricks.sliding_window_view(ahead, n, axis=1)[:, :longest]
    at_least = np.cumprod(windows, axis=2)  # P(first i+1 accepted) of a round from each position
    ones, zeros = np.ones((requests, longest, 1)), np.zeros((requests, longest, 1))
    exactly = np.concatenate([ones, at_least], axis=2) - np.concatenate([at_least, zeros], axis=2)
    start = np.zeros((requests, longest + n + 1))
    start[:, 1:2] = 1.0
    for position in range(1, longest):
        next_starts = slice(position + 1, position + n + 2)
        start[:, next_starts] += start[:, position, None] * exactly[:, position]
    inside = np.arange(longest) < lengths[:, None]
    started = np.where(inside, start[:, :longest], 0.0)
    left = np.clip(lengths[:, None] - np.arange(longest), 0, n)
    per_position = np.einsum("rt,rti->ri", started, at_least)
    rounds = started.sum(axis=1)
    return ReplayCounts(
        rounds=rounds,
        emitted=np.maximum(lengths - 1, 0),
        drafted=(started * left).sum(axis=1),
        accepted=per_position.sum(axis=1),
        accepted_per_position=per_position,
        rounds_with_draft=rounds if n > 0 else np.zeros(requests),
    )


def count_rounds(
    drafted: NDArray[np.generic],
    accepted: NDArray[np.generic],
    offsets: NDArray[np.int64],
    num_speculative_tokens: int,
) -> ReplayCounts:
    """Count the rounds that an engine ran, as if it had drafted fewer tokens in each.

    The first n positions of a round do not know how many follow, so their acceptance is that of
    N = n, but for the places where rounds start.

    Parameters
    ----------
    drafted, accepted
        Tokens proposed and accepted in each round, requests concatenated.
    offsets
        Start of each request's rounds, shape (requests + 1,).
    num_speculative_tokens
        n, 0 to the N that the engine ran.
    """
    n = num_speculative_tokens
    proposals, rounds = _padded(np.minimum(drafted, n), offsets)
    accepts, _ = _padded(np.minimum(accepted, n), offsets)
    total = accepts.sum(axis=1)
    at_least = np.arange(1, n + 1)
    return ReplayCounts(
        rounds=rounds,
        emitted=rounds + total,
        drafted=proposals.sum(axis=1),
        accepted=total,
        accepted_per_position=(accepts[:, :, None] >= at_least).sum(axis=1).astype(float),
        rounds_with_draft=(proposals > 0).sum(axis=1).astype(float),
    )


def replay_per_start(
    proposed: NDArray[np.generic],
    accepted: NDArray[np.generic],
    offsets: NDArray[np.int64],
    num_speculative_tokens: int,
) -> ReplayCounts:
    """Replay rounds of a lookup draft; exact, since lookup is deterministic given the text.

    Parameters
    ----------
    proposed, accepted
        Tokens proposed and accepted by a round that starts at each position, requests
        concatenated; for this N the minimum with N holds.
    offsets
        Start of each request, shape (requests + 1,).
    num_speculative_tokens
        N, 0 to 16.
    """
    n = num_speculative_tokens
    proposals, lengths = _padded(np.minimum(proposed, n), offsets)
    accepts, _ = _padded(np.minimum(accepted, n), offsets)
    requests, longest = proposals.shape
    position = np.ones(requests, dtype=np.int64)
    rounds, drafted, total = np.zeros(requests), np.zeros(requests), np.zeros(requests)
    per_position = np.zeros((requests, n))
    with_draft = np.zeros(requests)
    rows = np.arange(requests)
    while (active := position < lengths).any():
        at = np.minimum(position, longest - 1)
        k = np.where(active, accepts[rows, at], 0.0)
        rounds += active
        found = np.where(active, proposals[rows, at], 0.0)
        drafted += found
        with_draft += found > 0
        total += k
        per_position += (np.arange(n) < k[:, None]) & active[:, None]
        position = position + np.where(active, k + 1, 0).astype(np.int64)
    emitted = np.maximum(lengths - 1, 0)
    return ReplayCounts(rounds, emitted, drafted, total, per_position, with_draft)
