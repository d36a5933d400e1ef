"""The sequences that decode, as flat arrays in the order in which they were admitted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.serving_acceptance import AcceptedLengths

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_DRAWN_AT_ONCE = 65536


class Drawn:
    """Accepted drafts at random; every request is of one kind for all its rounds."""

    def __init__(self, accepted: AcceptedLengths, requests: int, seed: int) -> None:
        self._random = np.random.default_rng([seed, 3])
        self._at_least = accepted.at_least
        # where there is one kind, counting by bisection is quicker than comparing every position
        self._rising = [np.ascontiguousarray(table[0, ::-1]) for table in accepted.at_least]
        self.is_one_kind = accepted.kinds == 1
        self.kind_of = np.random.default_rng([seed, 4]).integers(0, accepted.kinds, requests)
        self._uniform, self._used = self._random.random(_DRAWN_AT_ONCE), 0

    def accepted(self, kinds: Integers, num_speculative_tokens: int) -> Integers:
        """Return the accepted drafts of one round of each sequence."""
        uniform = self._next(len(kinds))
        if self.is_one_kind:
            rising = self._rising[num_speculative_tokens]
            result: Integers = num_speculative_tokens - rising.searchsorted(uniform, "right")
            return result
        at_least = self._at_least[num_speculative_tokens][kinds]
        counted: Integers = (uniform[:, None] < at_least).sum(axis=1)
        return counted

    def _next(self, count: int) -> Floats:
        if self._used + count > len(self._uniform):
            self._uniform = self._random.random(max(_DRAWN_AT_ONCE, count))
            self._used = 0
        self._used += count
        return self._uniform[self._used - count : self._used]


class Decoding:
    """Sequences that decode, at most ``places``.

    Attributes
    ----------
    count
        Sequences.
    held_tokens
        Tokens in their caches, all together.
    rounds, emitted
        So far.
    """

    def __init__(self, places: int, block_tokens: int, drawn: Drawn) -> None:
        self._block, self._drawn = block_tokens, drawn
        self._request = np.zeros(places, dtype=np.int64)
        self._held = np.zeros(places, dtype=np.int64)
        self._left = np.zeros(places, dtype=np.int64)
        self._kind = np.zeros(places, dtype=np.int64)
        self.count = self.held_tokens = self.rounds = self.emitted = 0
        self._sure = 0
        """Tokens that every sequence certainly still has to write: no end until then."""

    def push(self, request: int, held: int, left: int) -> None:
        """Add a sequence with so many tokens in its cache and so many to write."""
        at = self.count
        self._request[at], self._held[at], self._left[at] = request, held, left
        self._kind[at] = self._drawn.kind_of[request]
        self._sure = min(self._sure, left) if at else left
        self.count += 1
        self.held_tokens += held

    def pop_last(self) -> tuple[int, int]:
        """Remove the sequence added last; return its request and the tokens left to write."""
        self.count -= 1
        self.held_tokens -= int(self._held[self.count])
        return int(self._request[self.count]), int(self._left[self.count])

    def blocks_at_most(self, more: int) -> int:
        """Return a bound on :meth:`blocks` that costs nothing to compute."""
        return (self.held_tokens + self.count * (more + self._block - 1)) // self._block

    def blocks(self, more: int) -> int:
        """Return the blocks that ``more`` tokens of every sequence need in all."""
        held = self._held[: self.count]
        return int(((held + (more + self._block - 1)) // self._block).sum())

    def advance(self, batch: int, num_speculative_tokens: int) -> list[int]:
        """Run a round of the first ``batch`` sequences; return the requests that it ends."""
        n = num_speculative_tokens
        held, left = self._held[:batch], self._left[:batch]
        self.rounds += batch
        if n == 0:
            held += 1
            left -= 1
            written = batch
        else:
            tokens = self._drawn.accepted(self._kind[:batch], n) + 1
            if self._sure <= n:
                np.minimum(tokens, left, out=tokens)
            held += tokens
            left -= tokens
            written = int(tokens.sum())
        self.held_tokens += written
        self.emitted += written
        self._sure -= n + 1
        return self._ended() if self._sure <= 0 else []

    def _ended(self) -> list[int]:
        left = self._left[: self.count]
        self._sure = int(left.min())
        if self._sure > 0:
            return []
        stays = left > 0
        ended: list[int] = self._request[: self.count][~stays].tolist()
        remaining = int(stays.sum())
        for column in (self._request, self._held, self._left, self._kind):
            column[:remaining] = column[: self.count][stays]
        self.count = remaining
        self.held_tokens = int(self._held[:remaining].sum())
        self._sure = int(self._left[:remaining].min()) if remaining else 0
        return ended
