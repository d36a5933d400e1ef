"""Tokens per round: from a trace, from published rates, from one rate.

Symbols follow ``docs/method/acceptance.md``: N drafted tokens a round, ``a_i`` the probability
that position i is accepted given that all before it were, ``tokens_per_round`` the emitted tokens
a target pass with the bonus token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MAX_NUM_SPECULATIVE_TOKENS = 16


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


def tokens_per_round_iid(alpha: ArrayLike, num_speculative_tokens: ArrayLike) -> Floats:
    """Return ``(1 - alpha^(N+1)) / (1 - alpha)``: every position equally hard.

    Parameters
    ----------
    alpha
        Acceptance a token, 0 to 1.
    num_speculative_tokens
        N >= 0; broadcasts with ``alpha``.

    Notes
    -----
    Leviathan et al., arXiv:2211.17192, eq. 1. Optimistic at long N when later positions are
    harder: +5.8 % bias at N=7 from alpha solved at N=3 (SpecBundle, 74 rows).
    """
    alpha = np.asarray(alpha, dtype=float)
    n = np.asarray(num_speculative_tokens, dtype=float)
    safe = np.where(alpha < 1.0, alpha, 0.0)
    return np.where(alpha < 1.0, (1.0 - safe ** (n + 1)) / (1.0 - safe), n + 1.0)


def tokens_per_round_from_conditional(conditional_rates: ArrayLike) -> Floats:
    """Return ``1 + sum_i prod_{j<=i} a_j`` for every N = 0 .. len(rates).

    Parameters
    ----------
    conditional_rates
        ``a_1 .. a_n``, each 0 to 1, along the last axis.

    Returns
    -------
    ndarray
        Tokens per round; last axis has length n + 1, index N.

    Notes
    -----
    Exact bookkeeping of a chain (EAGLE, arXiv:2401.15077, its n-alpha are conditional).
    """
    cumulative = np.cumprod(np.asarray(conditional_rates, dtype=float), axis=-1)
    head = np.ones((*cumulative.shape[:-1], 1))
    return np.concatenate([head, 1.0 + np.cumsum(cumulative, axis=-1)], axis=-1)


def decaying_rates(first: float, ratio: float, positions: int) -> Floats:
    """Return ``a_i = min(1, first * ratio^(i-1))`` for i = 1 .. positions.

    Notes
    -----
    Fitted on N=3 and N=5 it predicts N=7 to 1.0 % (SpecBundle, 74 rows); i.i.d.: 6.0 %.
    """
    rates: Floats = np.minimum(1.0, first * ratio ** np.arange(positions))
    return rates


def alpha_from_tokens_per_round(tokens_per_round: float, num_speculative_tokens: int) -> float:
    """Invert :func:`tokens_per_round_iid` by bisection.

    Raises
    ------
    ValueError
        If ``tokens_per_round`` is outside 1 .. N+1.
    """
    n = num_speculative_tokens
    if not 1.0 <= tokens_per_round <= n + 1.0:
        msg = f"tokens_per_round={tokens_per_round} must lie in 1 .. N+1 = {n + 1}"
        raise ValueError(msg)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if tokens_per_round_iid(middle, n) < tokens_per_round:
            low = middle
        else:
            high = middle
    return (low + high) / 2


_RATIO_RANGE = (0.5, 1.3)
_RATIOS = 33


def fit_decay(lengths: ArrayLike, tokens_per_round: ArrayLike) -> tuple[float, float]:
    """Fit ``(a_1, ratio)`` of :func:`decaying_rates` to tokens per round at several N.

    With one length only, the ratio is 1: i.i.d., which the caller must say.

    Parameters
    ----------
    lengths
        N of each point, 1 to 16.
    tokens_per_round
        Measured values, each 1 .. N+1.

    Returns
    -------
    tuple of float
        First acceptance and ratio; least squares on relative error.

    Notes
    -----
    The two trade off along a narrow valley in which a grid over both gets stuck, so the best
    first acceptance is found for each ratio, and the ratio by a grid that closes in on it.
    """
    n = np.asarray(lengths, dtype=int)
    measured = np.asarray(tokens_per_round, dtype=float)
    if len(np.unique(n)) < 2:
        mean = float(measured.mean())
        return alpha_from_tokens_per_round(min(max(mean, 1.0), n[0] + 1.0), int(n[0])), 1.0
    low, high = _RATIO_RANGE
    first, ratio = np.zeros(_RATIOS), np.linspace(low, high, _RATIOS)
    best = 0
    for _ in range(4):
        ratio = np.linspace(low, high, _RATIOS)
        first, error = _best_first(ratio, n, measured)
        best = int(error.argmin())
        width = (high - low) / (_RATIOS - 1)
        low = max(float(ratio[best]) - width, _RATIO_RANGE[0])
        high = min(float(ratio[best]) + width, _RATIO_RANGE[1])
    return float(first[best]), float(ratio[best])


def _best_first(ratio: Floats, n: NDArray[np.int_], measured: Floats) -> tuple[Floats, Floats]:
    """Return the best first acceptance of each ratio and its error, by ternary search."""
    decay = ratio[:, None] ** np.arange(n.max())

    def error(first: Floats) -> Floats:
        cumulative = np.cumprod(np.minimum(1.0, first[:, None] * decay), axis=1)
        curve = 1.0 + np.cumsum(cumulative, axis=1)[:, n - 1]
        total: Floats = ((curve / measured - 1.0) ** 2).sum(axis=1)
        return total

    low, high = np.zeros_like(ratio), np.ones_like(ratio)
    for _ in range(32):
        third = (high - low) / 3
        rising = error(low + third) < error(high - third)
        low, high = np.where(rising, low, low + third), np.where(rising, high - third, high)
    middle = (low + high) / 2
    return middle, error(middle)
