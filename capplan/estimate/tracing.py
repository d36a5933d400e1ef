"""Acceptance traces replayed for every N."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.acceptance import (
    MAX_NUM_SPECULATIVE_TOKENS,
    ReplayCounts,
    replay_per_start,
    replay_per_token,
)
from capplan.estimate.uncertainty import ratio_of_sums
from capplan.schema.profile import AcceptanceCell, DraftSampling

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class TracedAcceptance:
    """Acceptance of one trace cell at every N, in one sampling mode."""

    task: str
    temperature: float
    draft_sampling: DraftSampling | None
    counts: tuple[ReplayCounts, ...]
    """Index N = 0 .. 16."""

    def tokens_per_round(self, num_speculative_tokens: int) -> tuple[float, float]:
        """Return tokens per round at N and its relative standard error."""
        counts = self.counts[num_speculative_tokens]
        return ratio_of_sums(counts.emitted, counts.rounds)

    def acceptance_rate(self, num_speculative_tokens: int) -> tuple[float, float]:
        """Return accepted over drafted tokens at N and its relative standard error."""
        counts = self.counts[num_speculative_tokens]
        return ratio_of_sums(counts.accepted, counts.drafted)

    def drafting(self, num_speculative_tokens: int) -> tuple[float, float]:
        """Return the share of rounds with a draft, and the tokens proposed in such a round."""
        counts = self.counts[num_speculative_tokens]
        with_draft = float(counts.rounds_with_draft.sum())
        if with_draft == 0:
            return 0.0, 0.0
        return with_draft / float(counts.rounds.sum()), float(counts.drafted.sum()) / with_draft

    def of_first(self, requests: int) -> TracedAcceptance:
        """Return the trace of the first requests alone."""
        return replace(self, counts=tuple(c.of_first(requests) for c in self.counts))


def replay_cell(cell: AcceptanceCell, index: int, arrays: Arrays) -> tuple[TracedAcceptance, ...]:
    """Replay one trace cell for every N and every draft-sampling mode."""
    lengths = range(MAX_NUM_SPECULATIVE_TOKENS + 1)

    def array(name: str) -> NDArray[np.generic]:
        return arrays[f"acceptance/{index}/{name}"]

    offsets = array("offsets").astype(np.int64)
    if cell.trace_kind == "per_start":
        proposed, accepted = array("proposed"), array("accepted")
        counts = tuple(replay_per_start(proposed, accepted, offsets, n) for n in lengths)
        return (TracedAcceptance(cell.task, cell.temperature, None, counts),)
    return tuple(
        TracedAcceptance(
            cell.task,
            cell.temperature,
            mode,
            tuple(replay_per_token(array(f"accept_{mode.value}"), offsets, n) for n in lengths),
        )
        for mode in DraftSampling
    )


def pool(traces: Sequence[TracedAcceptance]) -> TracedAcceptance:
    """Pool cells of one temperature and mode: their requests are put together."""
    counts = tuple(
        ReplayCounts.joined([trace.counts[n] for trace in traces])
        for n in range(MAX_NUM_SPECULATIVE_TOKENS + 1)
    )
    first = traces[0]
    return TracedAcceptance("all", first.temperature, first.draft_sampling, counts)
