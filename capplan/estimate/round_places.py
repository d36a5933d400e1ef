"""Where in a request each round of a trace stood, and what it brought."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.tracing import Arrays
from capplan.schema.cells import AcceptanceCell, DraftSampling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PROMPT_TOKENS = "prompt_tokens"
"""Sidecar array with each request's prompt length; older profiles know the mean alone."""


@dataclass(frozen=True)
class RoundPlaces:
    """Rounds of one trace cell, one row a round (or a position where one may start).

    Attributes
    ----------
    request
        Index of the request.
    context
        Tokens in the cache when the round began.
    rounds
        1, or the chance that a round starts there.
    emitted
        Tokens kept, times ``rounds``.
    own_prompts
        Whether each request's own prompt length is known, not only their mean.
    """

    request: Integers
    context: Floats
    rounds: Floats
    emitted: Floats
    own_prompts: bool


def round_places(
    cell: AcceptanceCell, index: int, arrays: Arrays, num_speculative_tokens: int
) -> RoundPlaces:
    """Return the rounds of a trace cell at N, in the order of the text.

    Of an engine's own rounds, what follows a place depends on the N that it ran: positions are
    those of its text, and the first N drafts of each round are counted.

    Parameters
    ----------
    cell, index, arrays
        A profile's cell, its number, and the sidecar.
    num_speculative_tokens
        N; for an engine's rounds at most the one that it ran.
    """
    prefix = f"acceptance/{index}"
    offsets = arrays[f"{prefix}/offsets"].astype(np.int64)
    each = arrays.get(f"{prefix}/{PROMPT_TOKENS}")
    own = each is not None and bool(np.all(each.astype(np.int64) > 0))
    prompts = _prompt_tokens(cell, each if own else None)
    if cell.trace_kind == "per_round":
        rows = _engine_rows(arrays[f"{prefix}/accepted"], offsets, num_speculative_tokens)
    elif cell.trace_kind == "per_start":
        rows = _lookup_rows(arrays[f"{prefix}/accepted"], offsets, num_speculative_tokens)
    else:
        accept = arrays[f"{prefix}/accept_{DraftSampling.GREEDY.value}"]
        rows = _draft_rows(accept, offsets, num_speculative_tokens)
    request, position, rounds, emitted = rows
    return RoundPlaces(request, prompts[request] + position, rounds, emitted, own)


def _prompt_tokens(cell: AcceptanceCell, each: NDArray[np.generic] | None) -> Floats:
    if each is not None:
        return each.astype(np.float64)
    return np.full(cell.requests, cell.prompt_tokens / cell.requests)


_Rows = tuple[Integers, Floats, Floats, Floats]


def _engine_rows(accepted: NDArray[np.generic], offsets: Integers, n: int) -> _Rows:
    request = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    kept = accepted.astype(np.float64) + 1.0
    before = np.concatenate([[0.0], np.cumsum(kept)])
    position = 1.0 + before[:-1] - before[offsets[:-1]][request]
    counted = np.minimum(accepted.astype(np.float64), n) + 1.0
    return request, position, np.ones(len(kept)), counted


def _lookup_rows(accepted: NDArray[np.generic], offsets: Integers, n: int) -> _Rows:
    found = [
        (request, position, min(int(accepted[start + position]), n, end - start - position - 1))
        for request, (start, end) in enumerate(pairwise(offsets.tolist()))
        for position in _starts(accepted[start:end], n)
    ]
    request, position, kept = (
        np.array([row[place] for row in found], dtype=float) for place in range(3)
    )
    return request.astype(np.int64), position, np.ones(len(found)), kept + 1.0


def _starts(accepted: NDArray[np.generic], n: int) -> Iterator[int]:
    """Yield where rounds start; position 0 comes from the prefill."""
    position = 1
    while position < len(accepted):
        yield position
        position += min(int(accepted[position]), n) + 1


def _draft_rows(accept: NDArray[np.generic], offsets: Integers, n: int) -> _Rows:
    """Return every position with the chance that a round starts there, and what it then brings."""
    requests, positions, starts, emitted = [], [], [], []
    for request, (begin, end) in enumerate(pairwise(offsets)):
        started, kept = _renewal(accept[begin:end].astype(np.float64), n)
        requests.append(np.full(len(started), request, dtype=np.int64))
        positions.append(np.arange(len(started), dtype=float))
        starts.append(started)
        emitted.append(started * kept)
    return (
        np.concatenate([np.zeros(0, dtype=np.int64), *requests]),
        np.concatenate([np.zeros(0), *positions]),
        np.concatenate([np.zeros(0), *starts]),
        np.concatenate([np.zeros(0), *emitted]),
    )


def _renewal(accept: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the chance that a round starts at each position, and its mean emitted tokens.

    The renewal process of :func:`capplan.estimate.replay.replay_per_token`, with its places.
    The last round keeps what is left of the text.
    """
    longest = len(accept)
    ahead = np.concatenate([accept, np.zeros(n)])
    windows = np.lib.stride_tricks.sliding_window_view(ahead, n)[:longest]
    at_least = np.cumprod(windows, axis=1)
    ones, zeros = np.ones((longest, 1)), np.zeros((longest, 1))
    exactly = np.concatenate([ones, at_least], axis=1) - np.concatenate([at_least, zeros], axis=1)
    started = np.zeros(longest + n + 1)
    started[1:2] = 1.0
    for position in range(1, longest):
        started[position + 1 : position + n + 2] += started[position] * exactly[position]
    left = longest - np.arange(longest)
    kept = np.arange(1, n + 1) < left[:, None]  # the bonus of a round that reaches the end is cut
    return started[:longest], 1.0 + (at_least * kept).sum(axis=1)
