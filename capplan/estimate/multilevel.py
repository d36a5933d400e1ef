"""Drafts that are themselves drafted: an inner pair serves as the drafter of an outer one.

Experimental, and in no plan: no engine that capplan plans for runs it. No published table with the
acceptance of both levels was found; ``benchmarks/three_tiers.py`` measures its error on three
real LLMs. docs/method/three-tiers.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.speculation import round_ratio

Floats = NDArray[np.float64]

_HALVINGS = 40
"""Of the interval of an acceptance: far below any error of measurement."""
NOT_DEPLOYABLE = (
    "Not deployable on vLLM: an engine takes one draft, a model or a method "
    "(vLLM issue 36037), and no released engine offers three levels."
)
"""Stands wherever a figure of three levels is shown."""


@dataclass(frozen=True)
class InnerPair:
    """The pair that drafts: a middle LLM and its own smaller draft.

    Attributes
    ----------
    tokens_per_round
        Emitted by a round of the pair, bonus token included.
    round_s
        Time of such a round: its drafts and the middle LLM's verification.
    """

    tokens_per_round: float
    round_s: float

    @property
    def token_s(self) -> float:
        """Time of one token that the pair drafts for the outer target."""
        return self.round_s / self.tokens_per_round


def drafted_alone(pass_s: float) -> InnerPair:
    """Return a single-level draft as a pair: one token a round, one pass a token."""
    return InnerPair(1.0, pass_s)


def multilevel_speedup(
    tokens_per_round: float,
    num_speculative_tokens: int,
    inner: InnerPair,
    verify_s: float,
    decode_s: float,
    round_overhead_s: float = 0.0,
) -> float:
    """Return the speedup of the outer target over its own decoding.

    Parameters
    ----------
    tokens_per_round
        Of the outer target with N tokens drafted by the pair. Speculation inside the pair is
        lossless, so this is the middle LLM's acceptance, not the small draft's.
    num_speculative_tokens
        N of the outer round.
    inner
        Who drafts them.
    verify_s, decode_s
        Verification and plain decode step of the outer target, same batch and context.
    round_overhead_s
        Of the outer round.

    Notes
    -----
    The inner pair runs about N / tokens rounds for N tokens; that its last round may overshoot
    and is then cut is left out, so the speedup is slightly high for short N.
    """
    ratio = round_ratio(
        num_speculative_tokens, inner.token_s, verify_s, decode_s, round_overhead_s
    )
    return tokens_per_round / float(ratio)


def pays(inner: InnerPair, middle_alone_s: float) -> bool:
    """Say whether drafting the middle LLM's tokens beats letting it write them itself.

    With equal acceptance at every position some length does so if and only if one draft does:
    the small draft's pass over the middle LLM's must be less than its acceptance there.
    """
    return inner.token_s < middle_alone_s


def surplus_tokens(
    cumulative_rates: ArrayLike,
    draft_token_s: ArrayLike,
    verify_s: ArrayLike,
    other_token_s: ArrayLike,
) -> Floats:
    """Return by how many tokens a round a drafter beats another way to write, at its best N.

    ``1 + sum over i of max(0, C_i - c / t) - V / t``: in the time of a round of N drafts the other
    way writes ``(N c + V) / t`` tokens, a round writes ``1 + C_1 + ... + C_N``, and as rates fall
    with the position, every draft is worth its time up to the last whose rate exceeds ``c / t``.
    Positive if and only if some N makes drafting faster than the other way.

    Parameters
    ----------
    cumulative_rates
        C_i, the probability that the first i drafts are all accepted by the target; falling, on
        the last axis. Of a drafter that is drafted for: the middle LLM's rates.
    draft_token_s
        c, time of one drafted token: a pass of a single draft, ``InnerPair.token_s`` of a pair.
    verify_s
        V, verification by the target with the rest of the round, independent of N.
    other_token_s
        t, time of a token in the way to beat: plain decoding, or the best of two levels.

    Notes
    -----
    A middle LLM can therefore pay only where the pair writes faster than the two levels that it
    is to replace already do (c < t), whatever its acceptance. The cut of the pair's last round
    (:func:`proposal_s`) is left out: a surplus of a pair is slightly high, and a negative one
    stands.
    """
    per_draft = np.asarray(draft_token_s, dtype=float) / np.asarray(other_token_s, dtype=float)
    gained = np.maximum(np.asarray(cumulative_rates, dtype=float) - per_draft[..., None], 0.0)
    surplus: Floats = 1.0 + gained.sum(axis=-1) - np.asarray(verify_s) / np.asarray(other_token_s)
    return surplus


def falling_rates(acceptance: float, positions: int) -> Floats:
    """Return cumulative rates where every position is equally hard: a, a^2, ..."""
    return np.asarray(acceptance ** np.arange(1, positions + 1), dtype=float)


def least_token_s(
    cumulative_rates: ArrayLike, draft_token_s: float, verify_s: float, decode_s: float
) -> tuple[float, int]:
    """Return the time of a token at the best N of one drafter, and that N; 0 is plain decoding.

    Parameters
    ----------
    cumulative_rates, draft_token_s, verify_s
        As of :func:`surplus_tokens`; lengths are tried as far as there are rates.
    decode_s
        Plain decode step.
    """
    rates = np.asarray(cumulative_rates, dtype=float)
    n = np.arange(1, len(rates) + 1)
    token_s = (n * draft_token_s + verify_s) / (1.0 + rates.cumsum())
    every = np.concatenate([[decode_s], token_s])
    best = int(every.argmin())
    return float(every[best]), best


def best_pair(
    inner_cumulative_rates: ArrayLike, small_pass_s: float, middle_pass_s: float
) -> tuple[InnerPair, int]:
    """Return the pair at the length at which it writes a token fastest, and that length.

    At least one token is drafted: the middle LLM alone is no pair. Its verification takes one
    pass.
    """
    rates = np.asarray(inner_cumulative_rates, dtype=float)
    pairs = [
        InnerPair(1.0 + float(rates[:n].sum()), n * small_pass_s + middle_pass_s)
        for n in range(1, len(rates) + 1)
    ]
    best = min(range(len(pairs)), key=lambda place: pairs[place].token_s)
    return pairs[best], best + 1


def acceptance_needed(
    draft_token_s: float, verify_s: float, other_token_s: float, positions: int = 64
) -> float | None:
    """Return the acceptance a token from which a drafter beats another way to write.

    Equal at every position. None if even a drafter that is never refused does not.

    Parameters
    ----------
    draft_token_s, verify_s, other_token_s
        As of :func:`surplus_tokens`.
    positions
        Longest N that is tried.
    """

    def surplus(acceptance: float) -> float:
        rates = falling_rates(acceptance, positions)
        return float(surplus_tokens(rates, draft_token_s, verify_s, other_token_s))

    low, high = 0.0, 1.0
    if surplus(high) <= 0.0:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if surplus(middle) > 0.0 else (middle, high)
    return high


def proposal_s(
    count: int, inner_cumulative_rates: Sequence[float], round_s: Sequence[float]
) -> float:
    """Return the expected time in which a pair writes a proposal of exactly ``count`` tokens.

    The pair never drafts more than can be used: with r tokens wanted it drafts at most r - 1, as a
    round writes one token of the middle LLM's own. The composition by ``InnerPair.token_s`` counts
    every round as a full one.

    Parameters
    ----------
    count
        N of the outer round, at least 0.
    inner_cumulative_rates
        Of the small draft with the middle LLM, for drafts 1 to n of a round; n is the length.
    round_s
        Time of a round of the pair with 0, 1, ..., n drafts.
    """
    at_least = (1.0, *inner_cumulative_rates)

    @cache
    def left_s(wanted: int) -> float:
        if wanted <= 0:
            return 0.0
        drafts = min(len(inner_cumulative_rates), wanted - 1)
        spent = round_s[drafts] + at_least[drafts] * left_s(wanted - drafts - 1)
        for kept in range(drafts):
            exactly = at_least[kept] - at_least[kept + 1]
            spent += exactly * left_s(wanted - kept - 1)
        return spent

    return left_s(count)
