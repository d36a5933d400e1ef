"""Acceptance by the context at which rounds stood.

Heads trained on short texts lose acceptance with the context: an EAGLE-3 head was reported to fall
from 2.30 tokens a round at 2,000 tokens to 1.09 at 16,000 (vllm-project/speculators pull request
684). docs/comparing-prompts.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.comparison import Contrast, Ratio, difference_error, ratio_error
from capplan.estimate.drift import Ranges, observed_ranges, served_windows
from capplan.estimate.round_places import RoundPlaces, round_places
from capplan.estimate.student import student_quantile
from capplan.estimate.tracing import Arrays
from capplan.estimate.uncertainty import Z_95
from capplan.schema.cells import DraftSampling
from capplan.schema.difference import Quality, RangeFigure, RangeTable
from capplan.schema.profile import Profile
from capplan.schema.quantity import Quantity

Floats = NDArray[np.float64]

SHORTEST_RANGE = 256
"""Contexts up to this are one range; each further range is twice as long."""
_ERROR = 0.05


def by_context(
    profile: Profile, arrays: Arrays, num_speculative_tokens: int
) -> tuple[RangeTable, ...]:
    """Return tokens a round by how long the context was, one table a temperature.

    Rounds of traces first; of a profile that only observed a load, its windows by their mean
    context. Intervals are clustered by request, or by window.

    Parameters
    ----------
    profile, arrays
        With its sidecar.
    num_speculative_tokens
        N; of an engine that ran fewer, the N that it ran.
    """
    traced = traced_ranges(profile, arrays, num_speculative_tokens)
    if traced:
        return tuple(_context_table(profile, one) for one in traced)
    rows = observed_ranges(served_windows(profile.observations), _CONTEXTS)
    note = (
        "windows of a served load, by their mean context"
        if rows
        else "no trace and no window tells at which context its rounds stood"
    )
    return (RangeTable(by="context", profile=profile.id, rows=tuple(rows), notes=(note,)),)


@dataclass(frozen=True)
class TracedRanges:
    """Rounds of all tasks at one temperature, by context."""

    temperature: float
    num_speculative_tokens: int
    places: RoundPlaces

    def ratio(self, low: float, high: float) -> tuple[Ratio, float]:
        """Return tokens a round where the context lay in low <= context < high, and its rounds."""
        inside = (self.places.context >= low) & (self.places.context < high)
        emitted, rounds = _by_request(self.places, inside)
        return Ratio.of(emitted, rounds), float(rounds.sum())

    @property
    def edges(self) -> list[float]:
        """Where ranges begin and end."""
        return _context_edges(self.places.context)


def traced_ranges(
    profile: Profile, arrays: Arrays, num_speculative_tokens: int
) -> list[TracedRanges]:
    """Return the rounds of a profile's traces with their contexts, coldest temperature first.

    Greedy drafts where both ways were traced: the engines' default.
    """
    cells = [
        (index, cell)
        for index, cell in enumerate(profile.acceptance)
        if cell.draft_sampling is not DraftSampling.PROBABILISTIC
    ]
    found = []
    for temperature in sorted({cell.temperature for _, cell in cells}):
        mine = [(index, cell) for index, cell in cells if cell.temperature == temperature]
        longest = min(cell.max_num_speculative_tokens for _, cell in mine)
        n = min(num_speculative_tokens, longest)
        places = [round_places(cell, index, arrays, n) for index, cell in mine]
        found.append(TracedRanges(temperature, n, _joined(places)))
    return found


def _context_table(profile: Profile, traced: TracedRanges) -> RangeTable:
    rows = []
    for low, high in pairwise(traced.edges):
        ratio, rounds = traced.ratio(low, high)
        error, degrees = ratio_error(ratio.parts)
        if degrees > 0 and math.isfinite(ratio.value):
            reach = student_quantile(_ERROR, degrees) * error / ratio.value
            rows.append(
                RangeFigure(
                    label=_context_label(low, high),
                    low=low,
                    high=high,
                    num_speculative_tokens=traced.num_speculative_tokens,
                    tokens_per_round=Quantity.from_relative_se(ratio.value, reach / Z_95),
                    rounds=rounds,
                    samples=len(ratio.parts),
                )
            )
    known = traced.places.own_prompts
    note = "prompt lengths are known as the mean of each task, not of each request"
    return RangeTable(
        by="context",
        profile=profile.id,
        temperature=traced.temperature,
        rows=tuple(rows),
        notes=() if known else (note,),
    )


def context_contrasts(
    before: Sequence[TracedRanges], after: Sequence[TracedRanges]
) -> list[Contrast]:
    """Compare tokens a round of two profiles within each range of contexts."""
    theirs = {(one.temperature, one.num_speculative_tokens): one for one in after}
    found = []
    for one in before:
        two = theirs.get((one.temperature, one.num_speculative_tokens))
        ranges = set(pairwise(one.edges)) & set(pairwise(two.edges)) if two is not None else set()
        for low, high in sorted(ranges):
            assert two is not None, "there are no ranges without it"
            first, second = one.ratio(low, high)[0], two.ratio(low, high)[0]
            error, degrees = difference_error(first, second, paired=False)
            if math.isfinite(first.value) and math.isfinite(second.value):
                found.append(
                    Contrast(
                        quality=Quality.TOKENS_PER_ROUND,
                        label=f"{_context_label(low, high)}, temperature {one.temperature:g}",
                        before=first.value,
                        after=second.value,
                        difference=second.value - first.value,
                        standard_error=error,
                        degrees=degrees,
                        samples=(len(first.parts), len(second.parts)),
                        num_speculative_tokens=one.num_speculative_tokens,
                    )
                )
    return found


def _joined(places: Sequence[RoundPlaces]) -> RoundPlaces:
    """Put cells together; requests are numbered on."""
    counts = [int(one.request.max(initial=-1)) + 1 for one in places]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return RoundPlaces(
        np.concatenate([one.request + start for one, start in zip(places, starts, strict=True)]),
        np.concatenate([one.context for one in places]),
        np.concatenate([one.rounds for one in places]),
        np.concatenate([one.emitted for one in places]),
        all(one.own_prompts for one in places),
    )


def _by_request(places: RoundPlaces, inside: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return emitted tokens and rounds of every request that has rounds there."""
    requests = places.request[inside]
    size = int(requests.max(initial=-1)) + 1
    weights = places.emitted[inside], places.rounds[inside]
    emitted, rounds = (
        np.bincount(requests, weight, minlength=size).astype(np.float64) for weight in weights
    )
    return emitted[rounds > 0], rounds[rounds > 0]


def _context_edges(contexts: Floats) -> list[float]:
    most = float(np.max(contexts, initial=0.0))
    edges = [0.0, float(SHORTEST_RANGE)]
    while edges[-1] <= most:
        edges.append(edges[-1] * 2)
    return edges


def _context_label(low: float, high: float) -> str:
    return f"{low:,.0f}-{high - 1:,.0f} tokens"


_CONTEXTS = Ranges(
    place=lambda one: one.context,
    edges=_context_edges,
    label=_context_label,
)
