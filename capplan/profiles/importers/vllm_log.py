"""Log lines of a vLLM server: acceptance of each interval, throughput, single iterations.

Intervals are added up by their counts; printed means are only compared. N is the number of
positions. Dates have no year, so they are never used as dates; an interval's length is its
accepted tokens over its accepted throughput.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import as_number, spread_of
from capplan.profiles.importers.reading import Reading, Stated, contradiction
from capplan.profiles.importers.vllm_log_lines import FORMAT, OtherLines
from capplan.schema.observation import Flag, Load, Observation, SpeculationCounts

_ANY = re.compile(
    r"SpecDecoding metrics:|Speculative metrics:|Avg generation throughput: [\d.]+"
    r"|Iteration\(\d+\):"
)
_PROCESS = re.compile(r"^[^(]{0,80}\((?P<process>[^()]*pid=\d+)\)")
_SPECULATION = re.compile(r"SpecDecoding metrics:(?P<rest>.*)")
_VALUES = {
    "length": re.compile(r"Mean acceptance length: ([\d.]+)"),
    "accepted": re.compile(r"Accepted: (\d+) tokens"),
    "drafted": re.compile(r"Drafted: (\d+) tokens"),
    "accepted_rate": re.compile(r"Accepted throughput: ([\d.]+)"),
    "percent": re.compile(r"[Dd]raft acceptance rate: ([\d.]+)%"),
}
_POSITIONS = re.compile(r"Per-position acceptance rate: ((?:[\d.]+(?:, )?)+)")
_DECODE_STEP = re.compile(
    r"Iteration\(\d+\): 0 context requests, .{0,200}?(?P<requests>[1-9]\d{0,8}) generation "
    r"requests, (?P<tokens>\d{1,12}) generation tokens, iteration elapsed time: (?P<ms>[\d.]+) ms"
)
_LENGTH_ROUNDING = 0.006
_FEWEST_ITERATIONS = 5
_MS = 1e-3


@dataclass(frozen=True)
class _Interval:
    accepted: float
    drafted: float
    length: float | None
    rates: tuple[float, ...]
    accepted_per_s: float | None
    percent: float | None

    @property
    def n(self) -> int:
        return len(self.rates)

    @property
    def drafts(self) -> float:
        """Rounds: drafted over N where that gives the printed mean, else from the mean."""
        whole = self.drafted / self.n
        if self.length is None or self.length <= 1 or self.is_whole:
            return whole
        return self.accepted / (self.length - 1)

    @property
    def is_whole(self) -> bool:
        """Whether every round drafted N tokens, as far as the printed mean shows."""
        if self.length is None or not self.drafted:
            return True
        return abs(1 + self.n * self.accepted / self.drafted - self.length) <= _LENGTH_ROUNDING

    @property
    def seconds(self) -> float | None:
        return self.accepted / self.accepted_per_s if self.accepted_per_s else None


@dataclass
class _Log:
    """What was found, without the lines themselves."""

    intervals: dict[tuple[str, int], list[_Interval]] = field(
        default_factory=lambda: defaultdict(list)
    )
    steps: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    others: OtherLines = field(default_factory=OtherLines)
    cut_lines: int = 0


def detect(document: Document) -> bool:
    """Whether a line of the text is of such a log."""
    return document.mentions(_ANY)


def read(document: Document) -> Iterator[Reading]:
    """Yield a reading for each process and N, and for each batch of single iterations.

    A log without either gives the throughput that it prints.
    """
    log = _Log()
    for line in document.lines():
        _add(log, line)
    known = log.others.known()
    for reading in _readings(log, document.name):
        yield replace(reading, observation=reading.observation.model_copy(update=known))


def _readings(log: _Log, source: str) -> Iterator[Reading]:
    several = len(log.intervals) > 1
    for (process, n), intervals in log.intervals.items():
        yield _speculation(process, n, intervals, source, log, several)
    steps = {key: times for key, times in log.steps.items() if len(times) >= _FEWEST_ITERATIONS}
    for (requests, tokens), seconds in sorted(steps.items()):
        yield _iterations(requests, tokens, seconds, source)
    if not log.intervals and not steps:
        yield from log.others.readings(source)


def _add(log: _Log, line: str) -> None:
    if log.others.take(line):
        return
    if found := _SPECULATION.search(line):
        interval = _interval(found["rest"])
        process = _PROCESS.match(line)
        if interval is None:
            log.cut_lines += 1
        else:
            log.intervals[process["process"] if process else "", interval.n].append(interval)
    elif step := _DECODE_STEP.search(line):
        milliseconds = as_number(step["ms"])
        if milliseconds is not None:
            key = (int(step["requests"]), int(step["tokens"]))
            log.steps[key].append(milliseconds * _MS)


def _interval(text: str) -> _Interval | None:
    """Read the rest of a line; None if it is cut or contradicts itself."""
    found = {name: pattern.search(text) for name, pattern in _VALUES.items()}
    numbers = {name: as_number(match[1].rstrip(".")) for name, match in found.items() if match}
    values = {name: value for name, value in numbers.items() if value is not None}
    positions = _POSITIONS.search(text)
    if positions is None or "accepted" not in values or "drafted" not in values:
        return None
    stated = [as_number(rate) for rate in positions[1].rstrip(", .").split(", ")]
    rates = tuple(rate for rate in stated if rate is not None)
    if len(rates) < len(stated):
        return None
    if values["accepted"] > values["drafted"] or not values["drafted"]:
        return None
    return _Interval(
        accepted=values["accepted"],
        drafted=values["drafted"],
        length=values.get("length"),
        rates=rates,
        accepted_per_s=values.get("accepted_rate"),
        percent=values.get("percent"),
    )


def _speculation(
    process: str,
    n: int,
    intervals: Sequence[_Interval],
    source: str,
    log: _Log,
    several: bool,
) -> Reading:
    seconds = [interval.seconds for interval in intervals]
    known = [value for value in seconds if value is not None]
    drafts = sum(interval.drafts for interval in intervals)
    counts = SpeculationCounts(
        num_speculative_tokens=n,
        drafts=drafts,
        drafted=sum(interval.drafted for interval in intervals),
        accepted=sum(interval.accepted for interval in intervals),
        accepted_per_position=tuple(
            sum(interval.rates[position] * interval.drafts for interval in intervals)
            for position in range(n)
        ),
    )
    part = ", ".join(text for text in (process, f"N={n}") if text) if several else process
    observation = Observation(
        source=source,
        format=FORMAT,
        part=part,
        engine="vllm",
        duration_s=sum(known) if known and len(known) == len(seconds) else None,
        speculation=counts,
    )
    return Reading(observation, Stated(flags=tuple(_flags(intervals, log, several))))


def _flags(intervals: Sequence[_Interval], log: _Log, several: bool) -> Iterator[Flag]:
    odd = [one for one in intervals if not _agrees(one)]
    if odd:
        one = odd[0]
        text = (
            f"{len(odd)} of {len(intervals)} lines: {one.accepted:g} of {one.drafted:g} tokens "
            f"is not the {one.percent:g} % printed"
        )
        yield contradiction("rate_of_line", text)
    if not all(one.is_whole for one in intervals):
        yield Flag(
            check="rounds_from_printed_means",
            text="not every round drafted N tokens; their number follows from printed means, "
            "rounded to two decimals",
            remedy="Save /metrics before and after instead: it counts rounds.",
        )
    if several:
        yield Flag(
            check="several_runs",
            text=f"the log holds {len(log.intervals)} runs (processes, or N); each is a row",
            remedy="Cut the log to the run that is meant.",
        )
    engines = len(log.others.throughput)
    if engines > 1:
        yield Flag(
            check="several_engines",
            text=f"{engines} engines write into this log; lines of acceptance do not say which",
        )
    if log.cut_lines:
        text = f"{log.cut_lines} lines of acceptance are cut or contradict themselves: left out"
        yield Flag(check="cut_lines", text=text)


_PERCENT_ROUNDING = 0.06


def _agrees(one: _Interval) -> bool:
    if one.percent is None:
        return True
    return abs(100 * one.accepted / one.drafted - one.percent) <= _PERCENT_ROUNDING


def _iterations(requests: int, tokens: int, seconds: Sequence[float], source: str) -> Reading:
    observation = Observation(
        source=source,
        format=FORMAT,
        part=f"{requests} requests, {tokens} tokens a step",
        engine="vllm",
        duration_s=sum(seconds) or None,
        load=Load(mean_concurrency=float(requests)),
        step_s=spread_of(seconds),
    )
    scheduled = Flag(
        check="scheduled_tokens",
        text=f"{len(seconds)} steps without prompts; tokens are those scheduled (N+1 a request), "
        "not those emitted",
    )
    return Reading(observation, Stated(flags=(scheduled,)))
