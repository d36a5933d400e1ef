"""Ways to decode the same prompts with up to three levels, interleaved, counted level by level."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from capplan.schema.cells import DraftSampling
from profiler.backends.speculative import RoundCounts, begin, decode
from profiler.backends.speculative_three import Levels, MeteredLlm, PassMeter, VerifiedDrafter
from profiler.protocol import SamplingPoint


@dataclass
class LevelCounts:
    """What one LLM did while texts were decoded, prefill left out.

    Attributes
    ----------
    passes, seconds
        Its forward passes and their time.
    rounds
        Verifications of drafts (decode steps where nothing is drafted for it); 0 of the smallest
        LLM, which verifies nothing.
    drafted, accepted
        Tokens that the level below proposed to it, and how many it kept.
    accepted_lengths
        Kept drafts of each round.
    emitted
        Tokens it wrote: kept drafts and its own. The smallest writes what it drafts.
    """

    passes: int = 0
    seconds: float = 0.0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    accepted_lengths: list[int] = field(default_factory=list)

    @property
    def tokens_per_round(self) -> float:
        """Emitted tokens a round."""
        return self.emitted / self.rounds

    def cumulative_rates(self, positions: int) -> list[float]:
        """Return the share of rounds in which the first 1, 2, ... drafts were all kept."""
        lengths = self.accepted_lengths
        return [sum(kept > place for kept in lengths) / self.rounds for place in range(positions)]

    def add_rounds(self, counts: RoundCounts, emitted: int) -> None:
        """Count the rounds of one request."""
        self.rounds += counts.rounds
        self.drafted += counts.drafted
        self.accepted += sum(counts.accepted_lengths)
        self.accepted_lengths += counts.accepted_lengths
        self.emitted += emitted


@dataclass
class WayCounts:
    """One way to decode, over all prompts.

    Attributes
    ----------
    levels
        From the LLM that decides the text down to the smallest.
    seconds
        Whole decode phase: passes, sampling and bookkeeping.
    tokens_of, seconds_of
        Emitted tokens and seconds of each request.
    texts
        What was written.
    """

    levels: tuple[LevelCounts, ...]
    seconds: float = 0.0
    tokens_of: list[int] = field(default_factory=list)
    seconds_of: list[float] = field(default_factory=list)
    texts: list[list[int]] = field(default_factory=list)

    @property
    def token_s(self) -> float:
        """Seconds of an emitted token."""
        return self.seconds / sum(self.tokens_of)


def run_ways(
    ways: Mapping[str, Levels],
    prompts: Sequence[Sequence[int]],
    sampling: SamplingPoint,
    mode: DraftSampling = DraftSampling.GREEDY,
    clock_s: Callable[[], float] = time.perf_counter,
) -> dict[str, WayCounts]:
    """Decode every prompt in every way, one way after the other prompt by prompt.

    Which way goes first moves on with each prompt, so that none always meets a warm cache or a
    busy machine. Only the decode phase is timed, from the token after the prefill's own.

    Parameters
    ----------
    clock_s
        On a CPU shared with others, one thread's ``time.process_time`` says what the work takes
        and not what the neighbours did meanwhile.
    """
    metered = {name: _Metered.of(levels, clock_s) for name, levels in ways.items()}
    found = {
        name: WayCounts(tuple(LevelCounts() for _ in levels.llms)) for name, levels in ways.items()
    }
    names = list(ways)
    for index, prompt in enumerate(prompts):
        of_request = replace(sampling, seed=sampling.seed + 2 * index)
        first = index % len(names)
        for name in names[first:] + names[:first]:
            _decode(metered[name], found[name], prompt, of_request, mode)
    return found


@dataclass(frozen=True)
class _Metered:
    """Levels with the meters of their LLMs."""

    levels: Levels
    meters: tuple[PassMeter, ...]
    clock_s: Callable[[], float]

    @classmethod
    def of(cls, levels: Levels, clock_s: Callable[[], float]) -> _Metered:
        llms = tuple(MeteredLlm.of(llm, clock_s) for llm in levels.llms)
        return cls(replace(levels, llms=llms), tuple(llm.meter for llm in llms), clock_s)


def _decode(
    way: _Metered,
    found: WayCounts,
    prompt: Sequence[int],
    sampling: SamplingPoint,
    mode: DraftSampling,
) -> None:
    levels, n = way.levels, way.levels.num_speculative_tokens
    drafter = levels.drafter(sampling, mode)
    state = begin(levels.llms[0], drafter, prompt, sampling, n)
    for meter in way.meters:
        meter.reset()
    start = way.clock_s()
    text = decode(state, n)
    seconds = way.clock_s() - start
    # The first token comes from the prefill.
    emitted = len(text) - 1
    found.seconds += seconds
    found.seconds_of.append(seconds)
    found.tokens_of.append(emitted)
    found.texts.append(text)
    for meter, level in zip(way.meters, found.levels, strict=True):
        level.passes += meter.passes
        level.seconds += meter.seconds
    found.levels[0].add_rounds(state.counts, emitted)
    if isinstance(drafter, VerifiedDrafter):
        found.levels[1].add_rounds(drafter.counts, drafter.emitted)
    if len(levels.llms) > 1:
        # Whatever the smallest writes is proposed to the one above it, and nothing else is.
        found.levels[-1].emitted = found.levels[-2].drafted
