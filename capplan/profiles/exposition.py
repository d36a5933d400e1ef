"""The text that engines show under ``/metrics``, in every dialect they write it in.

Prometheus 0.0.4 and OpenMetrics are read alike: exemplars are dropped, ``# EOF`` may be missing,
numbers may have three digits in the exponent, lines may end as on Windows. The parsers of
``prometheus_client`` are not used: they refuse a whole text for one cut line, a repeated series
or a missing ``# EOF``, and what is wanted of a damaged text is everything before the damage,
with a note that says what was lost.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from capplan.errors import MetricsError

Labels = tuple[tuple[str, str], ...]

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:.]*")
_LABEL = re.compile(
    r"\s*(?:(?P<name>[a-zA-Z_][a-zA-Z0-9_.]*)|\"(?P<quoted>(?:[^\"\\]|\\.)*)\")"
    r"(?:\s*=\s*\"(?P<value>(?:[^\"\\]|\\.)*)\")?\s*(?P<end>,|(?=\}))"
)
_CLOSE = re.compile(r"\s*\}")
_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI]nf(?:inity)?|[nN]a[nN])"
_VALUE = re.compile(rf"\s*(?P<value>{_NUMBER})(?:\s+(?P<time>{_NUMBER}))?\s*(?P<exemplar>#.*)?$")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}
_MILLISECONDS_FROM = 1e11
"""Timestamps are seconds in OpenMetrics, milliseconds in 0.0.4; in seconds this is year 5138."""
_NOTED_LINES = 3
_SHOWN_CHARS = 60


class Sample(NamedTuple):
    """One value of one series."""

    name: str
    labels: Labels
    """Sorted by name, so that equal series have equal labels."""
    value: float
    time_s: float | None = None
    """Where the text itself gives it."""


@dataclass(frozen=True)
class Exposition:
    """What a scrape says."""

    samples: tuple[Sample, ...]
    kinds: Mapping[str, str]
    """Kind of each family as its TYPE line names it, with or without ``_total``."""
    truncated: bool = False
    """Whether the end is missing."""
    contradictory: int = 0
    """Series that stand twice with different values; the last one is kept."""
    notes: tuple[str, ...] = ()
    """What was left out and why, a sentence each."""


@dataclass
class _Reader:
    """What was read so far."""

    series: dict[tuple[str, Labels], Sample] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    bad_lines: list[tuple[int, str]] = field(default_factory=list)
    repeated: int = 0
    contradictory: int = 0
    is_open_metrics: bool = False
    has_end: bool = False

    def comment(self, line: str) -> None:
        """Take a line that starts with ``#``."""
        words = line.split(None, 3)
        if words[:2] == ["#", "EOF"]:
            self.has_end = True
        elif words[:2] == ["#", "UNIT"]:
            self.is_open_metrics = True
        elif words[:2] == ["#", "TYPE"] and len(words) == 4:
            self.kinds[words[2]] = words[3].strip().lower()

    def sample(self, line: str) -> bool:
        """Take a line with a value; False if it cannot be read."""
        found = read_sample(line)
        if found is None:
            return False
        sample, has_exemplar = found
        self.is_open_metrics |= has_exemplar
        key = (sample.name, sample.labels)
        earlier = self.series.get(key)
        if earlier is not None:
            sample = self._merged(earlier, sample)
        self.series[key] = sample
        return True

    def _merged(self, earlier: Sample, later: Sample) -> Sample:
        """Return which of two values of one series counts: the newer, else the last."""
        times_s = earlier.time_s, later.time_s
        if None not in times_s and earlier.time_s != later.time_s:
            return max(earlier, later, key=lambda sample: sample.time_s or 0.0)
        self.repeated += 1
        self.contradictory += not _same(earlier.value, later.value)
        return later


def parse_exposition(text: str) -> Exposition:
    """Read a scrape.

    Parameters
    ----------
    text
        The body of a ``/metrics`` answer, or a file with it.

    Raises
    ------
    MetricsError
        If not one line holds a value.
    """
    reader = _Reader()
    lines = list(_lines(text))
    is_cut = bool(lines) and not text.endswith("\n") and not lines[-1].lstrip().startswith("#")
    # A number that was cut still reads as a number, a smaller one: the line is not used.
    kept = lines[:-1] if is_cut else lines
    for number, line in enumerate(kept, start=1):
        stripped = line.strip()
        if stripped.startswith("#"):
            reader.comment(stripped)
        elif stripped and not reader.sample(stripped):
            reader.bad_lines.append((number, stripped))
    if not reader.series:
        raise MetricsError(
            f"This is no metrics text: {_first_words(text)}.",
            "Give what the server shows under /metrics (Prometheus or OpenMetrics text).",
        )
    return _finished(reader, is_cut=is_cut)


def read_sample(line: str) -> tuple[Sample, bool] | None:
    """Return the value of one line and whether it had an exemplar; None if it has none."""
    head = _NAME.match(line)
    name = head.group() if head else ""
    position = head.end() if head else 0
    labels: dict[str, str] = {}
    opening = re.compile(r"\s*\{").match(line, position)
    if opening is not None:
        read = _read_labels(line, opening.end(), name)
        if read is None:
            return None
        name, labels, position = read
    elif position < len(line) and not line[position].isspace():
        return None
    value = _VALUE.match(line, position)
    if not name or value is None:
        return None
    time = value["time"]
    return (
        Sample(
            name,
            tuple(sorted(labels.items())),
            float(value["value"]),
            None if time is None else _seconds(float(time)),
        ),
        value["exemplar"] is not None,
    )


def _read_labels(line: str, position: int, name: str) -> tuple[str, dict[str, str], int] | None:
    """Return (name, labels, position after the brace); Prometheus 3 puts odd names inside."""
    labels: dict[str, str] = {}
    while (close := _CLOSE.match(line, position)) is None:
        label = _LABEL.match(line, position)
        if label is None:
            return None
        key = label["name"] or _unescaped(label["quoted"] or "")
        if label["value"] is not None:
            labels[key] = _unescaped(label["value"])
        elif label["quoted"] is not None and not name:
            name = key
        else:
            return None
        position = label.end()
    return name, labels, close.end()


def _lines(text: str) -> Iterator[str]:
    """Split at line feeds only: label values may hold the other separators of Unicode."""
    for line in text.removeprefix("\ufeff").split("\n"):
        cleaned = line.removesuffix("\r")
        if cleaned.strip():
            yield cleaned


def _finished(reader: _Reader, *, is_cut: bool) -> Exposition:
    is_open = reader.is_open_metrics or _types_lack_total(reader)
    lacks_end = is_open and not reader.has_end
    return Exposition(
        samples=tuple(reader.series.values()),
        kinds=reader.kinds,
        truncated=is_cut or lacks_end,
        contradictory=reader.contradictory,
        notes=tuple(_notes(reader, is_cut=is_cut, lacks_end=lacks_end)),
    )


def _types_lack_total(reader: _Reader) -> bool:
    """Whether counters are declared as OpenMetrics does it, without ``_total``."""
    names = {name for name, _ in reader.series}
    return any(
        kind == "counter" and not family.endswith("_total") and f"{family}_total" in names
        for family, kind in reader.kinds.items()
    )


def _notes(reader: _Reader, *, is_cut: bool, lacks_end: bool) -> Iterator[str]:
    if is_cut:
        yield "The text ends in the middle of a line; that line was not used."
    elif lacks_end:
        yield "The text lacks its closing '# EOF': its end may be missing."
    if reader.contradictory:
        yield (
            f"{reader.contradictory} series stand twice with different values (two scrapes in "
            "one file?); the last value was taken."
        )
    elif reader.repeated:
        yield f"{reader.repeated} series stand twice with the same value."
    for number, line in reader.bad_lines[:_NOTED_LINES]:
        yield f"Line {number} cannot be read: {_shown(line)}"
    if len(reader.bad_lines) > _NOTED_LINES:
        yield f"{len(reader.bad_lines)} lines in all cannot be read."


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[0]), text)


def _seconds(stamp: float) -> float:
    return stamp / 1e3 if abs(stamp) >= _MILLISECONDS_FROM else stamp


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _first_words(text: str) -> str:
    stripped = text.strip()
    return f"it begins {_shown(stripped)}" if stripped else "it is empty"


def _shown(text: str) -> str:
    short = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
    return repr(short)
