"""Log lines of an SGLang server: ``Decode batch, #running-req: 4, ..., accept len: 2.74``.

A line is of one interval of steps; what it prints are means of that interval, without counts. The
tokens of an interval follow from its throughput and the time since the line before; rounds are
tokens over the length of a round. N must be known: from the server's arguments in the log, or
stated.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import as_number
from capplan.profiles.importers.reading import Reading, Stated
from capplan.profiles.importers.sglang_bench import METHODS
from capplan.schema.observation import Flag, Load, Observation

FORMAT = "sglang-log"
_DECODE = re.compile(r"Decode batch[.,]")
_DATE = re.compile(r"\[?(?P<date>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2})")
_RANK = re.compile(r"(?P<rank>(?:DP\d+ ?)+)")
_RUNNING = re.compile(r"#running-req: (\d{1,9})(?!\d)")
_LENGTH = re.compile(r"accept len: ([\d.]+)")
_TOKENS_PER_S = re.compile(r"gen throughput \(token/s\): ([\d.]+)")
_QUEUED = re.compile(r"#queue-req: (\d{1,9})(?!\d)")
_ARGUMENT = re.compile(
    r"(?P<name>model_path|speculative_algorithm|speculative_draft_model_path|"
    r"speculative_num_draft_tokens|speculative_eagle_topk)=(?P<value>'[^']*'|\"[^\"]*\"|[\w./-]+)"
)
_LONG = 7
_LONGEST_GAP_S = 120.0
"""Lines further apart than this had an idle server between them."""


@dataclass(frozen=True)
class _Line:
    at: datetime | None
    running: int
    length: float | None
    tokens_per_s: float
    queued: int


@dataclass
class _Log:
    lines: dict[str, list[_Line]] = field(default_factory=lambda: defaultdict(list))
    arguments: dict[str, str] = field(default_factory=dict)


def detect(document: Document) -> bool:
    """Whether a line of the text is of such a log."""
    return document.mentions(_DECODE)


def read(document: Document) -> Iterator[Reading]:
    """Yield a reading for each rank of data parallelism."""
    log = _Log()
    for line in document.lines():
        _add(log, line)
    for rank, lines in sorted(log.lines.items()):
        yield _reading(rank, lines, log, document.name)


def _add(log: _Log, line: str) -> None:
    if "server_args=" in line:
        for match in _ARGUMENT.finditer(line):
            log.arguments[match["name"]] = match["value"].strip("'\"")
    if not _DECODE.search(line):
        return
    running, speed = _RUNNING.search(line), _TOKENS_PER_S.search(line)
    tokens_per_s = as_number(speed[1].rstrip(".")) if speed is not None else None
    if running is None or tokens_per_s is None:
        return
    length, queued = _LENGTH.search(line), _QUEUED.search(line)
    rank = _RANK.search(line.partition("Decode batch")[0])
    log.lines[rank["rank"].strip() if rank else ""].append(
        _Line(
            at=_date(line),
            running=int(running[1]),
            length=as_number(length[1].rstrip(".")) if length else None,
            tokens_per_s=tokens_per_s,
            queued=int(queued[1]) if queued else 0,
        )
    )


def _date(line: str) -> datetime | None:
    match = _DATE.search(line)
    try:
        return datetime.fromisoformat(match["date"]) if match else None
    except ValueError:
        return None


@dataclass(frozen=True)
class _Totals:
    seconds: float = 0.0
    tokens: float = 0.0
    rounds: float = 0.0
    request_seconds: float = 0.0


def _totals(lines: Sequence[_Line]) -> _Totals:
    """Add up the intervals between lines; the first line's own interval is not known."""
    total = _Totals()
    for before, line in pairwise(lines):
        if before.at is None or line.at is None:
            continue
        seconds = (line.at - before.at).total_seconds()
        if not 0 < seconds <= _LONGEST_GAP_S:
            continue
        tokens = line.tokens_per_s * seconds
        rounds = tokens / line.length if line.length else 0.0
        total = _Totals(
            total.seconds + seconds,
            total.tokens + tokens,
            total.rounds + rounds,
            total.request_seconds + line.running * seconds,
        )
    return total


def _reading(rank: str, lines: Sequence[_Line], log: _Log, source: str) -> Reading:
    total = _totals(lines)
    with_length = [line for line in lines if line.length is not None]
    mean = _mean_length(total, with_length)
    n = _n(log.arguments)
    observation = Observation(
        source=source,
        format=FORMAT,
        part=rank,
        model=log.arguments.get("model_path", ""),
        draft=_named(log.arguments.get("speculative_draft_model_path", "")),
        method=METHODS.get(log.arguments.get("speculative_algorithm", "").upper()),
        engine="sglang",
        duration_s=total.seconds or None,
        load=Load(
            mean_concurrency=total.request_seconds / total.seconds if total.seconds else None,
            peak_concurrency=float(max(line.running for line in lines)),
        ),
        output_tokens=total.tokens or None,
        output_tokens_per_s=total.tokens / total.seconds if total.seconds else None,
    )
    stated = Stated(
        tokens_per_draft_round=mean,
        num_speculative_tokens=n,
        flags=tuple(_flags(lines, total, len(log.lines))),
    )
    return Reading(observation, stated)


def _mean_length(total: _Totals, lines: Sequence[_Line]) -> float | None:
    """Return tokens over rounds; without times, the mean weighted by running requests."""
    if total.rounds:
        return total.tokens / total.rounds
    weight = sum(line.running for line in lines)
    if not weight:
        return None
    return sum((line.length or 0.0) * line.running for line in lines) / weight


def _named(value: str) -> str:
    return "" if value == "None" else value


def _n(arguments: dict[str, str]) -> int | None:
    verified = arguments.get("speculative_num_draft_tokens", "")
    chain = arguments.get("speculative_eagle_topk", "1") in {"1", "None"}
    is_count = verified.isascii() and verified.isdigit() and len(verified) < _LONG
    return int(verified) - 1 if is_count and int(verified) > 1 and chain else None


def _flags(lines: Sequence[_Line], total: _Totals, ranks: int) -> Iterator[Flag]:
    yield Flag(
        check="printed_means",
        text=f"{len(lines)} lines print means of their intervals; counts follow from throughput "
        "and times in whole seconds",
        remedy="Start the server with --enable-metrics and save /metrics before and after.",
    )
    if not total.seconds:
        yield Flag(
            check="no_times",
            text="the lines carry no dates that give an interval: nothing can be added up",
            unusable_for=("capacity",),
        )
    if ranks > 1:
        yield Flag(
            check="several_engines", text=f"{ranks} ranks write into this log; one row each"
        )
    waiting = sum(line.queued > 0 for line in lines)
    if waiting > len(lines) / 2:
        text = f"requests wait in {waiting} of {len(lines)} lines: the server is full"
        yield Flag(check="saturated", text=text)
