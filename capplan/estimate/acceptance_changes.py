"""Acceptance of two profiles side by side: by task, temperature and N."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from capplan.estimate.acceptance import MAX_NUM_SPECULATIVE_TOKENS
from capplan.estimate.comparison import Contrast, Ratio, combined, difference_error
from capplan.estimate.replay import ReplayCounts, count_rounds, replay_per_start, replay_per_token
from capplan.estimate.tracing import Arrays
from capplan.schema.cells import AcceptanceCell, DraftSampling
from capplan.schema.difference import Quality
from capplan.schema.profile import Profile

DEFAULT_LENGTHS = (1, 3, 5)
"""N that are compared where none is asked for: longer ones say nearly the same again."""
_ORDER_IS_LOST = frozenset({"server", "import"})
"""Backends whose requests end, and are recorded, in any order."""


@dataclass(frozen=True)
class TraceKey:
    """What must be equal for two traces to be compared."""

    temperature: float
    draft_sampling: DraftSampling | None
    thinking: bool | None
    top_p: float
    top_k: int

    @property
    def label(self) -> str:
        """The key in words."""
        words = [f"temperature {self.temperature:g}"]
        if self.draft_sampling is DraftSampling.PROBABILISTIC:
            words.append("probabilistic drafts")
        if self.thinking is not None:
            words.append("thinking" if self.thinking else "not thinking")
        if self.top_p < 1:
            words.append(f"top-p {self.top_p:g}")
        if self.top_k:
            words.append(f"top-k {self.top_k}")
        return ", ".join(words)


@dataclass(frozen=True)
class TracedTask:
    """The requests of one task under one key; replayed at an N when it is asked for."""

    task: str
    key: TraceKey
    requests: int
    longest: int
    """Largest N that can be replayed."""
    replay: Callable[[int], ReplayCounts]
    prompts: tuple[str, int] | None
    """Hash and number of the prompts, where requests stand in the order of the prompts."""

    def tokens_per_round(self, num_speculative_tokens: int) -> Ratio:
        """Return tokens a round at N."""
        counts = self.replay(num_speculative_tokens)
        return Ratio.of(counts.emitted, counts.rounds)

    def acceptance_rate(self, num_speculative_tokens: int) -> Ratio:
        """Return accepted over drafted tokens at N."""
        counts = self.replay(num_speculative_tokens)
        return Ratio.of(counts.accepted, counts.drafted)


def traced_tasks(profile: Profile, arrays: Arrays) -> list[TracedTask]:
    """Return a profile's traces by task and key; several cells of one are put together.

    Of a trace that knows both ways to draft, greedy drafts are taken: the engines' default.
    """
    found: dict[tuple[str, TraceKey], list[TracedTask]] = {}
    for index, cell in enumerate(profile.acceptance):
        one = _traced(profile, cell, index, arrays)
        found.setdefault((cell.task, one.key), []).append(one)
    return [_joined(parts) for parts in found.values()]


def _traced(profile: Profile, cell: AcceptanceCell, index: int, arrays: Arrays) -> TracedTask:
    mode, longest = cell.draft_sampling, MAX_NUM_SPECULATIVE_TOKENS
    if cell.trace_kind == "per_token":
        mode = DraftSampling.GREEDY
    elif cell.trace_kind == "per_round":
        longest = cell.max_num_speculative_tokens
    key = TraceKey(cell.temperature, mode, cell.thinking, cell.top_p, cell.top_k)
    lost = profile.backend.name in _ORDER_IS_LOST
    prompts = None if lost else (cell.prompts_sha256, cell.requests)
    replay = cache(partial(_replayed, cell, index, arrays))
    return TracedTask(cell.task, key, cell.requests, longest, replay, prompts)


def _replayed(
    cell: AcceptanceCell, index: int, arrays: Arrays, num_speculative_tokens: int
) -> ReplayCounts:
    prefix = f"acceptance/{index}"
    offsets = arrays[f"{prefix}/offsets"].astype(np.int64)
    if cell.trace_kind == "per_token":
        accept = arrays[f"{prefix}/accept_{DraftSampling.GREEDY.value}"]
        return replay_per_token(accept, offsets, num_speculative_tokens)
    accepted = arrays[f"{prefix}/accepted"]
    if cell.trace_kind == "per_round":
        drafted = arrays[f"{prefix}/drafted"]
        return count_rounds(drafted, accepted, offsets, num_speculative_tokens)
    proposed = arrays[f"{prefix}/proposed"]
    return replay_per_start(proposed, accepted, offsets, num_speculative_tokens)


def _joined(parts: Sequence[TracedTask]) -> TracedTask:
    if len(parts) == 1:
        return parts[0]
    return TracedTask(
        parts[0].task,
        parts[0].key,
        sum(part.requests for part in parts),
        min(part.longest for part in parts),
        cache(lambda n: ReplayCounts.joined([part.replay(n) for part in parts])),
        None,
    )


def task_contrast(
    before: TracedTask, after: TracedTask, num_speculative_tokens: int, label: str
) -> Contrast:
    """Return the change of tokens a round at N between two sets of requests."""
    n = num_speculative_tokens
    first, second = before.tokens_per_round(n), after.tokens_per_round(n)
    paired = before.prompts is not None and before.prompts == after.prompts
    error, degrees = difference_error(first, second, paired=paired)
    return Contrast(
        quality=Quality.TOKENS_PER_ROUND,
        label=label,
        before=first.value,
        after=second.value,
        difference=second.value - first.value,
        standard_error=error,
        degrees=degrees,
        samples=(before.requests, after.requests),
        paired=paired,
        num_speculative_tokens=n,
    )


def compare_acceptance(
    before: Sequence[TracedTask], after: Sequence[TracedTask], lengths: Sequence[int] = ()
) -> tuple[list[Contrast], list[Contrast]]:
    """Compare two profiles' acceptance.

    Parameters
    ----------
    before, after
        Of :func:`traced_tasks`.
    lengths
        N to compare; 1, 3 and 5 by default, or the largest N that both can replay if it is
        smaller. An engine's rounds answer up to the N that it ran.

    Returns
    -------
    tuple of list
        Rows over the tasks that both know (their mean, so that the mix of prompts does not
        count), and rows of each task.
    """
    theirs = {(one.task, one.key): one for one in after}
    pairs = [(one, theirs[one.task, one.key]) for one in before if (one.task, one.key) in theirs]
    overall: list[Contrast] = []
    by_task: list[Contrast] = []
    for key in dict.fromkeys(one.key for one, _ in pairs):
        matched = [(one, two) for one, two in pairs if one.key == key]
        for n in _lengths(matched, lengths):
            rows = [task_contrast(one, two, n, f"{one.task}, {key.label}") for one, two in matched]
            rows = [row for row in rows if np.isfinite([row.before, row.after]).all()]
            by_task += rows
            if len(rows) > 1:
                overall.append(mean_contrast(rows, f"mean of {len(rows)} tasks, {key.label}"))
    # of one task alone there is no mean: its own rows are the overall ones
    return (overall, by_task) if overall else (by_task, [])


def _lengths(pairs: Iterable[tuple[TracedTask, TracedTask]], asked: Sequence[int]) -> list[int]:
    longest = min(min(one.longest, two.longest) for one, two in pairs)
    if asked:
        return [n for n in sorted(set(asked)) if 1 <= n <= longest]
    return sorted({min(n, longest) for n in DEFAULT_LENGTHS if longest >= 1})


def mean_contrast(rows: Sequence[Contrast], label: str) -> Contrast:
    """Return the mean of several tasks' changes; tasks are independent of each other."""
    error, degrees = combined([(row.standard_error, row.degrees) for row in rows])
    count = len(rows)
    return Contrast(
        quality=rows[0].quality,
        label=label,
        before=float(np.mean([row.before for row in rows])),
        after=float(np.mean([row.after for row in rows])),
        difference=float(np.mean([row.difference for row in rows])),
        standard_error=error / count,
        degrees=degrees,
        samples=(sum(row.samples[0] for row in rows), sum(row.samples[1] for row in rows)),
        paired=all(row.paired for row in rows),
        num_speculative_tokens=rows[0].num_speculative_tokens,
    )
