"""Traced requests side by side: what every length would have done to each, and their texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.errors import ProfileError
from capplan.estimate.replay import ReplayCounts
from capplan.estimate.tracing import Arrays, replay_cell
from capplan.schema.cells import AcceptanceCell, DraftSampling
from capplan.schema.profile import Profile

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TracedTexts:
    """Positions of the generated texts, a row a request, padded with zero.

    Attributes
    ----------
    accept_prob
        Probability that a draft is accepted at a position; of a lookup, tokens accepted by a
        round that starts there.
    lengths
        Generated tokens of each request; position 0 comes from the prefill.
    is_lookup
        Which of the two ``accept_prob`` holds.
    confidence
        The draft's own probability of its proposal; None where it was not traced.
    """

    accept_prob: Floats
    lengths: Integers
    is_lookup: bool
    confidence: Floats | None


@dataclass(frozen=True)
class TracedRequests:
    """Requests of one pairing in one sampling mode.

    Attributes
    ----------
    counts
        At N = 0, 1, ..., a row a request.
    temperature, task
        Of each request.
    texts
        None where only an engine's own rounds are known.
    """

    counts: tuple[ReplayCounts, ...]
    temperature: Floats
    task: NDArray[np.str_]
    texts: TracedTexts | None

    @property
    def longest(self) -> int:
        """Largest N that can be replayed."""
        return len(self.counts) - 1

    @property
    def count(self) -> int:
        """Requests."""
        return len(self.temperature)


@dataclass(frozen=True)
class _Cell:
    cell: AcceptanceCell
    counts: tuple[ReplayCounts, ...]
    offsets: Integers
    accept: NDArray[np.generic]
    confidence: NDArray[np.generic] | None


def trace_requests(
    profiles: Sequence[tuple[Profile, Arrays]],
    temperatures: Sequence[float] = (),
    mode: DraftSampling = DraftSampling.GREEDY,
) -> TracedRequests:
    """Put the requests of several profiles of one pairing together.

    Parameters
    ----------
    profiles
        With their arrays.
    temperatures
        Those to keep; all that were traced by default.
    mode
        How drafts are proposed; lookups have one way only.

    Raises
    ------
    ProfileError
        If nothing was traced at those temperatures, or traces of different kinds are mixed.
    """
    cells = [one for profile, arrays in profiles for one in _cells(profile, arrays, mode)]
    known = sorted({one.cell.temperature for one in cells})
    kept = [one for one in cells if not temperatures or one.cell.temperature in temperatures]
    if not kept:
        shown = ", ".join(f"{t:g}" for t in known) or "none"
        raise ProfileError(
            f"No acceptance was traced at the temperatures asked for; traced: {shown}.",
            "Leave --temperature out, or profile with it: capplan profile --temperature T.",
        )
    kinds = sorted({one.cell.trace_kind for one in kept})
    if len(kinds) > 1:
        raise ProfileError(
            f"The profiles hold traces of different kinds ({', '.join(kinds)}).",
            "Give profiles of one draft, taken by one backend.",
        )
    places = min(len(one.counts) for one in kept)
    sizes = [one.cell.requests for one in kept]
    return TracedRequests(
        counts=tuple(ReplayCounts.joined([one.counts[n] for one in kept]) for n in range(places)),
        temperature=np.repeat([one.cell.temperature for one in kept], sizes),
        task=np.repeat([one.cell.task for one in kept], sizes),
        texts=None if kinds == ["per_round"] else _texts(kept, kinds == ["per_start"]),
    )


def _cells(profile: Profile, arrays: Arrays, mode: DraftSampling) -> Iterator[_Cell]:
    for index, cell in enumerate(profile.acceptance):
        prefix = f"acceptance/{index}"
        accept = "accepted" if cell.trace_kind != "per_token" else f"accept_{mode.value}"
        for trace in replay_cell(cell, index, arrays):
            if trace.draft_sampling in (mode, None):
                yield _Cell(
                    cell,
                    trace.counts,
                    arrays[f"{prefix}/offsets"].astype(np.int64),
                    arrays[f"{prefix}/{accept}"],
                    arrays.get(f"{prefix}/draft_confidence"),
                )


def _texts(cells: Sequence[_Cell], is_lookup: bool) -> TracedTexts:
    lengths = np.concatenate([np.diff(one.offsets) for one in cells])
    inside = np.arange(int(lengths.max(initial=0))) < lengths[:, None]

    def table(parts: Sequence[NDArray[np.generic]]) -> Floats:
        padded = np.zeros(inside.shape)
        padded[inside] = np.concatenate(parts)
        return padded

    confidences = [one.confidence for one in cells if one.confidence is not None]
    all_known = len(confidences) == len(cells)
    return TracedTexts(
        accept_prob=table([one.accept for one in cells]),
        lengths=lengths,
        is_lookup=is_lookup,
        confidence=table(confidences) if all_known else None,
    )
