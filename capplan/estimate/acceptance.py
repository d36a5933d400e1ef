"""Tokens per round: from a trace, from published rates, from one rate.

Symbols follow ``docs/method/acceptance.md``: N drafted tokens a round, ``a_i`` the probability
that position i is accepted given that all before it were, ``tokens_per_round`` the emitted tokens
a target pass with the bonus token.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    rounds: Floats
    emitted: Floats
    drafted: Floats
    accepted: Floats
    accepted_per_position: Floats


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
    start = np.zeros((requests, longest + n + 2))
    if longest > 1:
        start[:, 1] = lengths > 1
    drafted = np.zeros(requests)
    per_position = np.zeros((requests, n))
    for position in range(1, longest):
        here = start[:, position] * (position < lengths)
        survive = here.copy()
        for i in range(n):
            at = position + i
            inside = (at < lengths).astype(float)
            drafted += here * inside
            accept = table[:, at] if at < longest else np.zeros(requests)
            start[:, at + 1] += survive * (1.0 - accept)
            survive = survive * accept
            per_position[:, i] += survive
        start[:, position + n + 1] += survive
    started = start[:, :longest] * (np.arange(longest) < lengths[:, None])
    return ReplayCounts(
        rounds=started.sum(axis=1),
        emitted=np.maximum(lengths - 1, 0),
        drafted=drafted,
        accepted=per_position.sum(axis=1),
        accepted_per_position=per_position,
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
    rows = np.arange(requests)
    while (active := position < lengths).any():
        at = np.minimum(position, longest - 1)
        k = np.where(active, accepts[rows, at], 0.0)
        rounds += active
        drafted += np.where(active, proposals[rows, at], 0.0)
        total += k
        per_position += (np.arange(n) < k[:, None]) & active[:, None]
        position = position + np.where(active, k + 1, 0).astype(np.int64)
    return ReplayCounts(rounds, np.maximum(lengths - 1, 0), drafted, total, per_position)


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
        First acceptance and ratio. Weighted least squares on relative error, by a grid that is
        refined four times: two bounded parameters, no local minima to fall into.
    """
    n = np.asarray(lengths, dtype=int)
    measured = np.asarray(tokens_per_round, dtype=float)
    if len(np.unique(n)) < 2:
        mean = float(measured.mean())
        return alpha_from_tokens_per_round(min(max(mean, 1.0), n[0] + 1.0), int(n[0])), 1.0
    low, high = np.array([0.0, 0.5]), np.array([1.0, 1.3])
    best = (low + high) / 2
    for _ in range(5):
        first, ratio = np.meshgrid(
            np.linspace(low[0], high[0], 41), np.linspace(low[1], high[1], 41), indexing="ij"
        )
        rates = np.minimum(1.0, first[..., None] * ratio[..., None] ** np.arange(n.max()))
        curve = tokens_per_round_from_conditional(rates)[..., n]
        error = ((curve / measured - 1.0) ** 2).sum(axis=-1)
        index = np.unravel_index(int(error.argmin()), error.shape)
        best = np.array([first[index], ratio[index]])
        width = (high - low) / 20
        low = np.maximum(best - width, [0.0, 0.5])
        high = np.minimum(best + width, [1.0, 1.3])
    return float(best[0]), float(best[1])


TEMPERATURE_SLOPE = 0.16
"""Fall of (tokens per round - 1) from temperature 0 to 1: EAGLE-1/-2/-3 tables, 103 rows
(arXiv:2401.15077, 2406.16858v2); transfer to an unmeasured temperature is good to +-10 %."""

TEMPERATURE_RELATIVE_SE = 0.10


def transfer_temperature(
    tokens_per_round: Floats, measured_at: float, wanted: float
) -> tuple[Floats, float]:
    """Move tokens per round to another temperature; returns it with the added relative error.

    ``tau(T) - 1`` is taken to fall linearly by 16 % from T=0 to T=1. There is no closed form
    across LLMs; the added standard error grows with the distance, 10 % for a whole unit.
    """
    distance = abs(wanted - measured_at)
    factor = (1 - TEMPERATURE_SLOPE * min(wanted, 2.0)) / (
        1 - TEMPERATURE_SLOPE * min(measured_at, 2.0)
    )
    return 1.0 + (tokens_per_round - 1.0) * factor, TEMPERATURE_RELATIVE_SE * distance
