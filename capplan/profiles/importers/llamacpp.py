"""llama.cpp: what its server prints and answers of each request, and ``llama-speculative``'s end.

A round gives its accepted tokens and one more, and the first token comes from the prompt: rounds
are tokens less one less accepted ones. Times are the server's own, without the wait for a slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, as_number, spread_of
from capplan.profiles.importers.reading import Reading, Stated
from capplan.schema.observation import Flag, Load, Observation, SpeculationCounts

FORMAT = "llama.cpp"
_MS = 1e-3
_TASK = re.compile(r"id\s+\d+ \| task (?P<task>-?\d{1,12}) \|")
_TIME = re.compile(
    r"(?P<what>prompt eval|\beval) time =\s*(?P<ms>[\d.]+) ms /\s*(?P<tokens>\d{1,9}) tokens"
)
_DRAFTED = re.compile(
    r"draft acceptance(?: rate)? = [\d.]+ \(\s*(?P<accepted>\d{1,9}) accepted /\s*"
    r"(?P<drafted>\d{1,9}) generated\)"
)
_POSITIONS = re.compile(r"acceptance rate per position = \((?P<rates>[\d., ]+)\)")
_DECODED = re.compile(r"decoded\s+(?P<tokens>\d{1,9}) tokens in\s+(?P<seconds>[\d.]+) seconds")
_COUNT = re.compile(r"^\s*n_(?P<name>draft|predict|drafted|accept)\s+= (?P<count>\d{1,9})\s*$")
_ANY = re.compile(
    r"draft acceptance(?: rate)? = \d|eval time =\s*[\d.]+ ms /\s*\d+ tokens|^\s*n_accept\s+= \d"
)
_COUNTS = frozenset({"draft", "predict", "drafted", "accept"})
_WHOLE = 0.01


@dataclass
class _Request:
    prompt_s: float | None = None
    prompt_tokens: float | None = None
    decode_s: float | None = None
    tokens: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    rates: tuple[float, ...] = ()

    @property
    def rounds(self) -> float | None:
        """Passes of the target after the prompt."""
        if self.tokens is None or self.accepted is None:
            return None
        return self.tokens - 1 - self.accepted

    @property
    def tpot_s(self) -> float | None:
        if self.decode_s is None or self.tokens is None or self.tokens <= 1:
            return None
        return self.decode_s / (self.tokens - 1)


@dataclass
class _Log:
    requests: list[_Request] = field(default_factory=list)
    by_task: dict[str, _Request] = field(default_factory=dict)
    task: str = ""
    counts: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    runs: list[Reading] = field(default_factory=list)


def detect(document: Document) -> bool:
    """Whether it is such a log, or holds such answers."""
    if document.kind == "text":
        return document.mentions(_ANY)
    return any(True for _ in islice(_timings(document), 1))


def read(document: Document) -> Iterator[Reading]:
    """Yield one reading of all requests, and one of each run of ``llama-speculative``."""
    if document.kind != "text":
        requests = [_answered(timings) for timings in _timings(document)]
        if requests:
            yield _reading(requests, document.name)
        return
    log = _Log()
    for line in document.lines():
        _add(log, line, document.name)
    if log.requests:
        yield _reading(log.requests, document.name)
    yield from log.runs


def _timings(document: Document) -> Iterator[Fields]:
    """Yield the times of each answer; what begins without them holds none."""
    for value in document.values:
        for one in value if isinstance(value, list) else (value,):
            timings = Fields(one).section("timings")
            if "predicted_n" not in timings:
                return
            yield timings


def _answered(timings: Fields) -> _Request:
    prompt_ms, decode_ms = timings.count("prompt_ms"), timings.count("predicted_ms")
    return _Request(
        prompt_s=prompt_ms * _MS if prompt_ms is not None else None,
        prompt_tokens=timings.count("prompt_n"),
        decode_s=decode_ms * _MS if decode_ms is not None else None,
        tokens=timings.count("predicted_n"),
        drafted=timings.count("draft_n"),
        accepted=timings.count("draft_n_accepted"),
    )


def _add(log: _Log, line: str, source: str) -> None:
    if task := _TASK.search(line):
        log.task = task["task"]
    if time := _TIME.search(line):
        _add_time(log, time)
    elif drafts := _DRAFTED.search(line):
        request = _request(log)
        request.drafted, request.accepted = float(drafts["drafted"]), float(drafts["accepted"])
        request.rates = _rates(line)
    elif decoded := _DECODED.search(line):
        log.seconds = as_number(decoded["seconds"])
    elif count := _COUNT.match(line):
        log.counts[count["name"]] = float(count["count"])
        if log.counts.keys() >= _COUNTS:
            log.runs.append(_run(log.counts, log.seconds, source))
            log.counts, log.seconds = {}, None


def _add_time(log: _Log, match: re.Match[str]) -> None:
    milliseconds, tokens = as_number(match["ms"].rstrip(".")), float(match["tokens"])
    if milliseconds is None:
        return
    if match["what"] == "prompt eval":
        log.by_task[log.task] = _Request(prompt_s=milliseconds * _MS, prompt_tokens=tokens)
        log.requests.append(log.by_task[log.task])
    else:
        request = _request(log)
        request.decode_s, request.tokens = milliseconds * _MS, tokens


def _request(log: _Log) -> _Request:
    """Return the request that the lines are of; a log may begin in the middle of one."""
    if log.task not in log.by_task:
        log.by_task[log.task] = _Request()
        log.requests.append(log.by_task[log.task])
    return log.by_task[log.task]


def _rates(line: str) -> tuple[float, ...]:
    match = _POSITIONS.search(line)
    rates = [as_number(rate) for rate in match["rates"].split(",")] if match else []
    return tuple(rate for rate in rates if rate is not None)


def _reading(requests: Sequence[_Request], source: str) -> Reading:
    tokens = [one.tokens for one in requests if one.tokens is not None]
    prompts = [one.prompt_tokens for one in requests if one.prompt_tokens is not None]
    observation = Observation(
        source=source,
        format=FORMAT,
        engine="llama.cpp",
        completed=float(len(requests)),
        prompt_tokens=sum(prompts) if len(prompts) == len(requests) else None,
        output_tokens=sum(tokens) if len(tokens) == len(requests) else None,
        ttft_s=spread_of([one.prompt_s for one in requests if one.prompt_s is not None]),
        tpot_s=spread_of([one.tpot_s for one in requests if one.tpot_s is not None]),
        speculation=_speculation(requests),
    )
    own = Flag(
        check="server_times",
        text="times are the server's own: a request's wait for a slot is not in them",
        remedy="Measure with a client for the time to the first token that users see.",
    )
    return Reading(observation, Stated(flags=(own,)))


def _speculation(requests: Sequence[_Request]) -> SpeculationCounts | None:
    drafting = [one for one in requests if one.drafted and one.rounds and one.rounds > 0]
    rounds = [one.rounds or 0.0 for one in drafting]
    accepted = [one.accepted or 0.0 for one in drafting]
    drafted = sum(one.drafted or 0.0 for one in drafting)
    if not drafting or sum(accepted) > drafted:
        return None
    length = _length(drafting, drafted / sum(rounds))
    return SpeculationCounts(
        num_speculative_tokens=length,
        drafts=sum(rounds),
        drafted=drafted,
        accepted=sum(accepted),
        accepted_per_position=_by_position(drafting, rounds, length),
        by_request=tuple(zip(rounds, accepted, strict=True)),
    )


def _length(drafting: Sequence[_Request], mean: float) -> int | None:
    """Return N: the positions that are printed, or a mean draft of whole tokens."""
    printed = max(len(one.rates) for one in drafting)
    if printed:
        return printed
    nearest = round(mean)
    return nearest if nearest >= 1 and abs(mean / nearest - 1) <= _WHOLE else None


def _by_position(
    drafting: Sequence[_Request], rounds: Sequence[float], length: int | None
) -> tuple[float, ...]:
    """Return how often each position was accepted; only whole drafts make rates of rounds."""
    whole = all(
        len(one.rates) == length and abs((one.drafted or 0.0) - count * len(one.rates)) <= length
        for one, count in zip(drafting, rounds, strict=True)
        if length is not None
    )
    if length is None or not whole:
        return ()
    return tuple(
        sum(one.rates[place] * count for one, count in zip(drafting, rounds, strict=True))
        for place in range(length)
    )


def _run(counts: dict[str, float], seconds: float | None, source: str) -> Reading:
    """Return a run of ``llama-speculative``; its first token is one of a round."""
    rounds = counts["predict"] - counts["accept"]
    speculation = None
    if rounds > 0 and counts["drafted"] >= counts["accept"]:
        speculation = SpeculationCounts(
            num_speculative_tokens=int(counts["draft"]) or None,
            drafts=rounds,
            drafted=counts["drafted"],
            accepted=counts["accept"],
        )
    speed = counts["predict"] / seconds if seconds else None
    observation = Observation(
        source=source,
        format=f"{FORMAT}-speculative",
        engine="llama.cpp",
        duration_s=seconds or None,
        load=Load(arrival="closed_loop", max_concurrency=1),
        completed=1.0,
        output_tokens=counts["predict"],
        output_tokens_per_s=speed,
        tpot_s=spread_of([1 / speed] if speed else []),
        speculation=speculation,
    )
    return Reading(observation)
