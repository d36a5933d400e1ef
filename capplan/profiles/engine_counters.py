"""What happened between two scrapes: counters as differences, engine by engine.

A counter that fell, was created anew, or belongs to a process that started later means that the
engine was restarted: that engine's window is dropped, never turned into a negative rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from capplan.profiles.engine_scrape import EngineReading, Scrape

_BIRTH_TOLERANCE_S = 1.0
"""Clocks are stepped; a restart takes longer than this."""


@dataclass(frozen=True)
class EngineWindow:
    """Totals of one window, of one engine or of several that serve the same model."""

    software: str
    model: str
    engines: tuple[str, ...]
    counters: Mapping[str, float] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)
    accepted_at: tuple[float, ...] = ()
    gauges: Mapping[str, float] = field(default_factory=dict)
    """As they stood at the end, added up or averaged over the engines."""

    @property
    def output_tokens(self) -> float | None:
        """Generated tokens, first ones included."""
        tokens = self.counters.get("output_tokens")
        return self.sums.get("generated") if tokens is None else tokens

    @property
    def prompt_tokens(self) -> float | None:
        """Tokens of the prompts that were processed."""
        tokens = self.counters.get("prompt_tokens")
        return self.sums.get("prompted") if tokens is None else tokens

    @property
    def first_tokens(self) -> float | None:
        """Tokens that came from a prefill: one a request."""
        seen = self.counts.get("ttft")
        return self.counters.get("completed") if seen is None else seen

    @property
    def decoded_tokens(self) -> float | None:
        """Generated tokens but the first of each request: those that rounds gave."""
        if self.output_tokens is None or self.first_tokens is None:
            return None
        return max(self.output_tokens - self.first_tokens, 0.0)

    @property
    def rounds(self) -> float | None:
        """Decode steps of all requests, with a draft or without."""
        counted = self.counters.get("rounds")
        return self.counts.get("step") if counted is None else counted

    @property
    def emitted_per_round(self) -> float | None:
        """Tokens that really came out of a round, over all rounds."""
        return _ratio(self.decoded_tokens, self.rounds)

    @property
    def step_s(self) -> float | None:
        """Mean time between two engine steps as a request sees it."""
        return _ratio(self.sums.get("step"), self.counts.get("step"))

    @property
    def time_per_token_s(self) -> float | None:
        """Decode time a token, weighted by tokens: complete even if no request ended."""
        if "decode_seconds" in self.counters:
            return _ratio(self.counters["decode_seconds"], self.output_tokens)
        if "token_gap" in self.counts:
            return _ratio(self.sums.get("token_gap"), self.counts["token_gap"])
        return _ratio(self.sums.get("step"), self.decoded_tokens)

    @property
    def tpot_s(self) -> float | None:
        """Mean over finished requests of each one's time per output token after the first."""
        return _ratio(self.sums.get("tpot"), self.counts.get("tpot"))

    @property
    def ttft_s(self) -> float | None:
        """Mean time to first token."""
        return _ratio(self.sums.get("ttft"), self.counts.get("ttft"))

    @property
    def e2e_s(self) -> float | None:
        """Mean latency of the finished requests."""
        return _ratio(self.sums.get("e2e"), self.counts.get("e2e"))

    @property
    def prefix_hit_rate(self) -> float | None:
        """Share of prompt tokens found in the prefix cache, of this window where it is counted."""
        hits = self.counters.get("prefix_hits")
        asked = self.counters.get("prefix_queries")
        if asked is None and hits is not None:
            asked = self.counters.get("prompt_tokens")
            if asked is not None and self.software == "llama.cpp":
                asked += hits  # its prompt tokens are those that were computed
        rate = _ratio(hits, asked)
        return rate if rate is not None else self.gauges.get("prefix_hit_rate")


@dataclass(frozen=True)
class Difference:
    """What two scrapes say together."""

    windows: tuple[EngineWindow, ...]
    """One an engine."""
    restarted: tuple[str, ...] = ()
    """Why an engine's window was dropped, a sentence each."""
    missing: tuple[str, ...] = ()
    """Engines that only one of the scrapes knows."""
    lost_fields: tuple[str, ...] = ()
    """Figures that only one of the scrapes has."""


def since_start(scrape: Scrape) -> tuple[EngineWindow, ...]:
    """Return the totals of a single scrape, one an engine: everything since the engine began."""
    return tuple(
        EngineWindow(
            engine.software,
            engine.model,
            (engine.engine,),
            engine.counters,
            engine.sums,
            engine.counts,
            engine.accepted_at,
            engine.gauges,
        )
        for engine in scrape.engines
    )


def difference(before: Scrape, after: Scrape) -> Difference:
    """Return what each engine did between two scrapes."""
    earlier = {engine.key: engine for engine in before.engines}
    later = {engine.key: engine for engine in after.engines}
    windows, restarted, lost = [], [], set[str]()
    for key in [key for key in later if key in earlier]:
        reason = restart_of(earlier[key], later[key]) or _process_restart(before, after)
        if reason:
            restarted.append(f"{_named(later[key])}: {reason}")
            continue
        windows.append(subtracted(earlier[key], later[key]))
        lost |= _lost_fields(earlier[key], later[key])
    return Difference(
        tuple(windows),
        tuple(restarted),
        tuple(_named(earlier.get(key) or later[key]) for key in sorted(set(earlier) ^ set(later))),
        tuple(sorted(lost)),
    )


def course(scrapes: Sequence[Scrape]) -> Difference:
    """Return what each engine did over scrapes that follow each other.

    Where an engine was restarted, only the step in which that happened is left out of its window.
    """
    steps = [difference(before, after) for before, after in pairwise(scrapes)]
    following: dict[tuple[str, str, tuple[str, ...]], list[EngineWindow]] = defaultdict(list)
    for window in (window for step in steps for window in step.windows):
        following[window.software, window.model, window.engines].append(window)

    def every(told: Callable[[Difference], tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for step in steps for text in told(step)))

    return Difference(
        tuple(_in_sequence(parts) for parts in following.values()),
        every(lambda step: step.restarted),
        every(lambda step: step.missing),
        every(lambda step: step.lost_fields),
    )


def _in_sequence(parts: Sequence[EngineWindow]) -> EngineWindow:
    """Return the total of windows of one engine that follow each other."""
    first = parts[0]
    total = added([replace(part, engines=()) for part in parts])
    return replace(total, engines=first.engines, gauges=parts[-1].gauges)


def added(windows: Iterable[EngineWindow]) -> EngineWindow:
    """Return the totals of several engines that serve one model."""
    parts = list(windows)
    first = parts[0]
    if len(parts) == 1:
        return first
    depths = {len(part.accepted_at) for part in parts}
    return EngineWindow(
        first.software,
        first.model,
        tuple(name for part in parts for name in part.engines),
        _sum([part.counters for part in parts]),
        _sum([part.sums for part in parts]),
        _sum([part.counts for part in parts]),
        tuple(map(sum, zip(*(part.accepted_at for part in parts), strict=True)))
        if len(depths) == 1
        else (),
        _joined_gauges([part.gauges for part in parts]),
    )


def _by_position(accepted_at: Sequence[float]) -> dict[str, float]:
    return {f"position {place}": count for place, count in enumerate(accepted_at)}


def restart_of(before: EngineReading, after: EngineReading) -> str:
    """Return what shows that an engine began anew, or an empty string."""
    pairs: tuple[tuple[Mapping[str, float], Mapping[str, float]], ...] = (
        (before.counters, after.counters),
        (before.counts, after.counts),
        (_by_position(before.accepted_at), _by_position(after.accepted_at)),
    )
    for earlier, later in pairs:
        for name, value in earlier.items():
            if name in later and later[name] < value:
                return f"{name} fell from {value:g} to {later[name]:g}"
    for name, born_s in before.born_s.items():
        if after.born_s.get(name, born_s) > born_s + _BIRTH_TOLERANCE_S:
            return "its counters were created anew"
    return ""


def _process_restart(before: Scrape, after: Scrape) -> str:
    first, second = before.process_start_s, after.process_start_s
    if first is None or second is None or abs(second - first) <= _BIRTH_TOLERANCE_S:
        return ""
    return "its process is another one"


def subtracted(before: EngineReading, after: EngineReading) -> EngineWindow:
    """Return what one engine did between two scrapes."""
    same_depth = len(before.accepted_at) == len(after.accepted_at)
    return EngineWindow(
        after.software,
        after.model,
        (after.engine,),
        _minus(before.counters, after.counters),
        _minus(before.sums, after.sums),
        _minus(before.counts, after.counts),
        tuple(b - a for a, b in zip(before.accepted_at, after.accepted_at, strict=True))
        if same_depth
        else (),
        after.gauges,
    )


def _minus(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    # Sums of times may fall by a clock that was set back; counts were checked.
    return {name: max(after[name] - before[name], 0.0) for name in before if name in after}


def _lost_fields(before: EngineReading, after: EngineReading) -> set[str]:
    lost = set(before.counters) ^ set(after.counters)
    lost |= set(before.counts) ^ set(after.counts)
    if len(before.accepted_at) != len(after.accepted_at):
        lost.add("accepted_at")
    return lost


def _sum(parts: list[Mapping[str, float]]) -> dict[str, float]:
    """Add what every part has: a total of some of them would be taken for all."""
    shared = set.intersection(*(set(part) for part in parts))
    return {name: sum(part[name] for part in parts) for name in sorted(shared)}


def _joined_gauges(parts: list[Mapping[str, float]]) -> dict[str, float]:
    totals = _sum(parts)
    return {
        name: total if name in ("running", "waiting") else total / len(parts)
        for name, total in totals.items()
    }


def _named(engine: EngineReading) -> str:
    parts = [part for part in (engine.model, engine.engine) if part]
    return f"{engine.software} engine {' '.join(parts)}".strip()


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
