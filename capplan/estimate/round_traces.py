"""The rounds that an engine ran with a draft LLM, laid out as text: what any other N would do.

A draft LLM proposes from the text alone, so whether it is right about a token does not depend on
where the round began. A round with a accepted tokens shows a right proposals and, if it drafted
more, one wrong one; it leaves open only the bonus token after a round accepted in full. Heads that
draft from their own hidden states (EAGLE, MTP) grow worse with depth: for them this does not hold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def tokens_of_rounds(
    drafted: NDArray[np.generic], accepted: NDArray[np.generic], offsets: Ints
) -> tuple[Floats, Ints]:
    """Return a per-token trace, as :func:`~capplan.estimate.replay.replay_per_token` takes it.

    Parameters
    ----------
    drafted, accepted
        Tokens proposed and accepted in each round, requests concatenated, shape (rounds,).
    offsets
        Start of each request's rounds, shape (requests + 1,).

    Returns
    -------
    tuple
        Acceptance probability of each generated token, the prefill's own first, shape (tokens,);
        start of each request's tokens, shape (requests + 1,). Replayed at the N that was run it
        gives the rounds back exactly.

    Notes
    -----
    METHOD: own; a bonus token is taken to be right as often as the last of N drafts whose
    predecessors were. Measured error: docs/method/engine-rounds.md.
    """
    tried, right = drafted.astype(np.int64), accepted.astype(np.int64)
    emitted = right + 1
    per_request = np.add.reduceat(np.append(emitted, 0), offsets[:-1]) * (np.diff(offsets) > 0)
    starts = np.concatenate([[0], np.cumsum(per_request + 1)]).astype(np.int64)
    table = np.ones(starts[-1])
    table[starts[:-1]] = 0.0  # the prefill's token: no round drafts it
    request = np.repeat(np.arange(len(per_request)), np.diff(offsets))
    last_of_round = np.cumsum(emitted) + request  # one prefill token a request before it
    table[last_of_round] = np.where(right < tried, 0.0, _of_bonus_tokens(tried, right))
    return table, starts


def _of_bonus_tokens(tried: Ints, right: Ints) -> float:
    """Return how often the last draft was right where all before it were."""
    longest = int(tried.max(initial=0))
    full = tried == longest
    reached = int((full & (right >= longest - 1)).sum())
    return float((full & (right == longest)).sum() / reached) if longest and reached else 0.0
