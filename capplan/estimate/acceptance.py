"""Tokens per round from one rate or from published rates, and back.

Symbols follow ``docs/method/acceptance.md``: N drafted tokens a round, ``a_i`` the probability
that position i is accepted given that all before it were, ``tokens_per_round`` the emitted tokens
a target pass with the bonus token.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MAX_NUM_SPECULATIVE_TOKENS = 16


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
