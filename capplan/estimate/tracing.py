"""Acceptance traces replayed for every N."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.acceptance import MAX_NUM_SPECULATIVE_TOKENS
from capplan.estimate.lengths import LengthSeries, length_curve
from capplan.estimate.replay import ReplayCounts, count_rounds, replay_per_start, replay_per_token
from capplan.estimate.round_traces import tokens_of_rounds
from capplan.estimate.uncertainty import ratio_of_requests
from capplan.schema.cells import AcceptanceCell, DraftSampling

Arrays = Mapping[str, NDArray[np.generic]]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TracedAcceptance:
    """Acceptance of one trace cell at every N, in one sampling mode."""

    task: str
    temperature: float
    draft_sampling: DraftSampling | None
    counts: tuple[ReplayCounts, ...]
    """Index N = 0 .. 16; of an engine's own rounds, 0 .. the N that it ran."""
    thinking: bool | None = None
    """Whether the target thought first; None where nobody asked."""

    def tokens_per_round(self, num_speculative_tokens: int) -> tuple[float, float]:
        """Return tokens per round at N and its relative standard error, wider for few requests."""
        if num_speculative_tokens >= len(self.counts):
            values, errors = self.curve()
            return float(values[num_speculative_tokens]), float(errors[num_speculative_tokens])
        counts = self.counts[num_speculative_tokens]
        return ratio_of_requests(counts.emitted, counts.rounds)

    def curve(self) -> tuple[Floats, Floats]:
        """Return tokens per round at N = 0 .. 16 and relative standard errors.

        Beyond the N that an engine ran, the fall of acceptance is carried on, with its error.
        """
        pairs = np.array([self.tokens_per_round(n) for n in range(len(self.counts))])
        values, errors = pairs[:, 0], pairs[:, 1]
        longest = len(values) - 1
        if longest == MAX_NUM_SPECULATIVE_TOKENS:
            return values, errors
        if longest < 1 or not np.isfinite(values).all():
            unknown = np.full(MAX_NUM_SPECULATIVE_TOKENS + 1, np.nan)
            return unknown, unknown
        series = LengthSeries(tuple(range(1, longest + 1)), tuple(map(float, values[1:])))
        further, law_se = length_curve(series, MAX_NUM_SPECULATIVE_TOKENS)
        beyond = slice(longest + 1, None)
        return (
            np.concatenate([values, further[beyond]]),
            np.concatenate([errors, np.hypot(errors[-1], law_se[beyond])]),
        )

    def acceptance_rate(self, num_speculative_tokens: int) -> tuple[float, float]:
        """Return accepted over drafted tokens at N and its relative standard error."""
        if num_speculative_tokens >= len(self.counts):
            return self._further_rate(num_speculative_tokens)
        counts = self.counts[num_speculative_tokens]
        return ratio_of_requests(counts.accepted, counts.drafted)

    def _further_rate(self, num_speculative_tokens: int) -> tuple[float, float]:
        """Return the acceptance rate beyond the N that was run, from its tokens per round."""
        tokens, error = self.tokens_per_round(num_speculative_tokens)
        share, drafted = self.drafting(num_speculative_tokens)
        if tokens <= 1.0 or share == 0:
            return 0.0, 0.0
        return (tokens - 1.0) / (share * drafted), error * tokens / (tokens - 1.0)

    def drafting(self, num_speculative_tokens: int) -> tuple[float, float]:
        """Return the share of rounds with a draft, and the tokens proposed in such a round."""
        counts = self.counts[min(num_speculative_tokens, len(self.counts) - 1)]
        with_draft = float(counts.rounds_with_draft.sum())
        if with_draft == 0:
            return 0.0, 0.0
        share = with_draft / float(counts.rounds.sum())
        if num_speculative_tokens >= len(self.counts) and self.draft_sampling is not None:
            return share, float(num_speculative_tokens)  # a draft LLM or head drafts all N
        return share, float(counts.drafted.sum()) / with_draft

    def of_first(self, requests: int) -> TracedAcceptance:
        """Return the trace of the first requests alone."""
        return replace(self, counts=tuple(c.of_first(requests) for c in self.counts))


def replay_cell(
    cell: AcceptanceCell, index: int, arrays: Arrays, *, draft_llm: bool = False
) -> tuple[TracedAcceptance, ...]:
    """Replay one trace cell for every N and every draft-sampling mode.

    ``draft_llm`` says that an engine's rounds were drafted by an LLM of its own: they then tell
    what a shorter round would have done wherever it starts.
    """
    lengths = range(MAX_NUM_SPECULATIVE_TOKENS + 1)

    def array(name: str) -> NDArray[np.generic]:
        return arrays[f"acceptance/{index}/{name}"]

    offsets = array("offsets").astype(np.int64)
    if cell.trace_kind == "per_round":
        drafted, accepted = array("drafted"), array("accepted")
        ran = range(cell.max_num_speculative_tokens + 1)
        if draft_llm:
            tokens, starts = tokens_of_rounds(drafted, accepted, offsets)
            counts = tuple(replay_per_token(tokens, starts, n) for n in ran)
        else:
            counts = tuple(count_rounds(drafted, accepted, offsets, n) for n in ran)
        mode = cell.draft_sampling
        return (TracedAcceptance(cell.task, cell.temperature, mode, counts, cell.thinking),)
    if cell.trace_kind == "per_start":
        proposed, accepted = array("proposed"), array("accepted")
        counts = tuple(replay_per_start(proposed, accepted, offsets, n) for n in lengths)
        return (TracedAcceptance(cell.task, cell.temperature, None, counts, cell.thinking),)
    return tuple(
        TracedAcceptance(
            cell.task,
            cell.temperature,
            mode,
            tuple(replay_per_token(array(f"accept_{mode.value}"), offsets, n) for n in lengths),
            cell.thinking,
        )
        for mode in DraftSampling
    )


def pool(traces: Sequence[TracedAcceptance]) -> TracedAcceptance:
    """Pool cells of one temperature and mode: their requests are put together."""
    counts = tuple(
        ReplayCounts.joined([trace.counts[n] for trace in traces])
        for n in range(min(len(trace.counts) for trace in traces))
    )
    first = traces[0]
    return TracedAcceptance("all", first.temperature, first.draft_sampling, counts)
