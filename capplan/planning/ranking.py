"""Order and Pareto front."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capplan.planning.candidates import CandidateColumns

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

_DIGITS = 9
"""Dollars a million tokens that agree to so many decimals are equal: latency then decides."""
_TOKEN_DIGITS = 6
"""The same of planned tokens a second: dollars then decide."""


def comparable_usd(usd_per_million: Floats) -> Floats:
    """Return dollars a million tokens as candidates are compared by."""
    result: Floats = np.round(usd_per_million, _DIGITS)
    return result


def comparable_tokens(tokens_per_s: Floats) -> Floats:
    """Return tokens a second as candidates are compared by where the most are asked for."""
    result: Floats = np.round(tokens_per_s, _TOKEN_DIGITS)
    return result


def ranked(columns: CandidateColumns, *, most_tokens: bool = False) -> Integers:
    """Return the entries best first: target as asked, dollars a token, latency, shorter drafts.

    With ``most_tokens``, what no load bounds, the planned tokens come before the dollars.
    """
    keys = [columns.length, columns.tpot_s, comparable_usd(columns.usd_per_million)]
    if most_tokens:
        keys.append(-comparable_tokens(columns.planned_tokens_per_s))
    return np.lexsort((*keys, columns.target))


def pareto_front(columns: CandidateColumns, order: Integers) -> Booleans:
    """Return which entries no other of the same target beats on both dollars a token and TPOT.

    One sweep over entries in order of cost (or of tokens, where the most are asked for): the
    front is where latency sets a new minimum.

    Parameters
    ----------
    order
        Of :func:`ranked`.
    """
    on_front = np.zeros(len(columns), dtype=bool)
    target, tpot = columns.target[order], columns.tpot_s[order]
    for part in np.split(np.arange(len(order)), np.flatnonzero(np.diff(target)) + 1):
        before = np.minimum.accumulate(np.concatenate([[np.inf], tpot[part[:-1]]]))
        on_front[order[part]] = tpot[part] < before[: len(part)]
    return on_front
