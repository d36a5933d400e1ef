"""Prompt lookup: propose what followed the same n-gram earlier in the text, by vLLM's rules.

Of the text so far (prompt and generated tokens) the longest suffix of ``lookup_min`` to
``lookup_max`` tokens that also occurs earlier wins; among its occurrences the earliest one
counts, and it may overlap the suffix. The tokens after it are the draft. No torch here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class LookupIndex:
    """The n-grams of a growing text, each with the place after its first occurrence.

    Parameters
    ----------
    lookup_min, lookup_max
        Shortest and longest n-gram that may match (vLLM's ``prompt_lookup_min`` and ``_max``).
    """

    def __init__(self, lookup_min: int, lookup_max: int) -> None:
        self._sizes = range(lookup_max, lookup_min - 1, -1)
        self._after_first: dict[tuple[int, ...], int] = {}
        self._text: list[int] = []
        self._indexed = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens that are final; drafts that may be rejected do not belong here."""
        self._text.extend(tokens)

    def match(self) -> int | None:
        """Return where the draft starts in the text, or None without a match."""
        self._index_all_but_the_suffix()
        for size in self._sizes:
            if size >= len(self._text):
                continue
            start = self._after_first.get(tuple(self._text[-size:]))
            if start is not None:
                return start
        return None

    def propose(self, count: int) -> list[int]:
        """Return up to ``count`` draft tokens; fewer where the text ends, none without a match."""
        start = self.match()
        return [] if start is None else self._text[start : start + count]

    def _index_all_but_the_suffix(self) -> None:
        # An n-gram that ends at the end of the text is the suffix itself, so it is indexed only
        # once the text has grown; ``setdefault`` keeps the earliest occurrence.
        for end in range(self._indexed + 1, len(self._text)):
            for size in self._sizes:
                if size <= end:
                    self._after_first.setdefault(tuple(self._text[end - size : end]), end)
        self._indexed = max(self._indexed, len(self._text) - 1)


def replay(
    prompt: Sequence[int],
    generated: Sequence[int],
    lookup_min: int,
    lookup_max: int,
    max_proposed: int,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return what a round starting at each generated token would propose and have accepted.

    At position ``t`` the text is the prompt and ``generated[:t]``; a proposed token is accepted
    while it equals the generated one. Nothing is accepted beyond the end of the text, which the
    target never wrote.

    Returns
    -------
    proposed, accepted
        Counts, one each a generated token; for fewer tokens a round take the minimum with it.
    """
    index = LookupIndex(lookup_min, lookup_max)
    index.extend(prompt)
    proposed = np.zeros(len(generated), dtype=np.uint8)
    accepted = np.zeros(len(generated), dtype=np.uint8)
    for position, token in enumerate(generated):
        draft = index.propose(max_proposed)
        proposed[position] = len(draft)
        accepted[position] = _common_prefix(draft, generated[position : position + len(draft)])
        index.extend([token])
    return proposed, accepted


def _common_prefix(draft: Sequence[int], text: Sequence[int]) -> int:
    for length, (drafted, written) in enumerate(zip(draft, text, strict=False)):
        if drafted != written:
            return length
    return min(len(draft), len(text))
