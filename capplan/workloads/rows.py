"""Rows of a trace to arrays, many at once; what is wrong with a row is kept with its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.errors import WorkloadError
from capplan.workloads.columns import Columns
from capplan.workloads.times import TimeForm, seconds_of_many, seconds_of_one

Floats = NDArray[np.float64]

MAX_ROWS = 20_000_000
"""Requests of one trace: about 0.5 GB as arrays."""
MAX_TOKENS = 10_000_000
"""Tokens of one request: the longest contexts sold in 2026 hold a tenth of it."""
MAX_SECONDS = 1e11
"""Of a time, since 1970 or the trace's begin: the year 5138."""
SHOWN_BAD_ROWS = 5
MAX_BAD_SHARE = 0.1
"""Above this share of bad rows the file was misread, or is no trace."""


@dataclass(frozen=True)
class BadRow:
    """A row that was kept out, and why."""

    line: int
    reason: str


@dataclass
class Rows:
    """Collects the rows of a file, chunk by chunk.

    Attributes
    ----------
    columns
        Where values stand; for messages.
    form
        How times are written.
    file
        For messages.
    """

    columns: Columns
    form: TimeForm
    file: str
    good: list[tuple[Floats, Floats, Floats]] = field(default_factory=list)
    shown: list[BadRow] = field(default_factory=list)
    bad: int = 0
    failed: int = 0
    """Requests without an output token: refused or broken off."""
    contradicting: int = 0
    """Of the bad rows those whose total is not the sum of prompt and output."""
    total: int = 0

    def add(
        self,
        times: Sequence[Any],
        prompts: Sequence[Any],
        outputs: Sequence[Any],
        lines: Sequence[int],
        totals: Sequence[Any] | None = None,
    ) -> None:
        """Take a chunk: all at once where every value is plain, else row by row.

        Raises
        ------
        WorkloadError
            If the trace is larger than :data:`MAX_ROWS`.
        """
        self._count(len(times))
        tokens = (prompts, outputs, *(() if totals is None else (totals,)))
        chunk = self._at_once(times, tokens)
        if chunk is None:
            chunk = self._one_by_one(times, prompts, outputs, lines, totals)
        self._keep(*chunk)

    def _at_once(
        self, times: Sequence[Any], tokens: Sequence[Sequence[Any]]
    ) -> tuple[Floats, Floats, Floats] | None:
        """Return arrays; None if a value is not plain or a total contradicts its parts."""
        try:
            seconds = seconds_of_many(times, self.form)
            columns = [np.array(column).astype(float) for column in tokens]
        except (ValueError, TypeError, AttributeError, OverflowError):
            return None
        if not _flat((seconds, *columns), len(times)):
            return None
        prompts, outputs = columns[:2]
        if not _plain(seconds, prompts, outputs) or not _adds_up(*columns):
            return None
        return seconds, prompts, outputs

    def add_arrays(
        self, seconds: Floats, prompts: Floats, outputs: Floats, totals: Floats | None = None
    ) -> bool:
        """Take a chunk that is arrays already; False, and nothing taken, if a row is bad.

        Raises
        ------
        WorkloadError
            If the trace is larger than :data:`MAX_ROWS`.
        """
        if not _plain(seconds, prompts, outputs) or not _adds_up(prompts, outputs, totals):
            return False
        self._count(len(seconds))
        self._keep(seconds, prompts, outputs)
        return True

    def _count(self, rows: int) -> None:
        self.total += rows
        if self.total > MAX_ROWS:
            raise WorkloadError(
                f"{self.file} has more than {MAX_ROWS:,} requests.",
                "Keep a part of it: whole days, so that the shape of a day stays.",
            )

    def _keep(self, seconds: Floats, prompts: Floats, outputs: Floats) -> None:
        ran = outputs > 0
        self.failed += int((~ran).sum())
        self.good.append((seconds[ran], prompts[ran], outputs[ran]))

    def reject(self, line: int, reason: str) -> None:
        """Count a row that has no values to check."""
        self.total += 1
        self._bad(line, reason)

    def _bad(self, line: int, reason: str) -> None:
        self.bad += 1
        if len(self.shown) < SHOWN_BAD_ROWS:
            self.shown.append(BadRow(line, reason))

    def _one_by_one(
        self,
        times: Sequence[Any],
        prompts: Sequence[Any],
        outputs: Sequence[Any],
        lines: Sequence[int],
        totals: Sequence[Any] | None,
    ) -> tuple[Floats, Floats, Floats]:
        kept: list[tuple[float, float, float]] = []
        sums = [None] * len(lines) if totals is None else totals
        for time, prompt, output, total, line in zip(
            times, prompts, outputs, sums, lines, strict=True
        ):
            row = self._row(time, prompt, output)
            if not isinstance(row, str):
                row = self._checked(row, total)
            if isinstance(row, str):
                self._bad(line, row)
            else:
                kept.append(row)
        columns = np.array(kept, dtype=float).reshape(-1, 3)
        return columns[:, 0], columns[:, 1], columns[:, 2]

    def _row(self, time: Any, prompt: Any, output: Any) -> tuple[float, float, float] | str:
        names = self.columns.names
        seconds = seconds_of_one(time, self.form)
        if seconds is None or abs(seconds) > MAX_SECONDS:
            return f"{names[0]} {_shown(time)} is not like the first one ({self.form.words})"
        tokens = []
        for name, value in ((names[1], prompt), (names[2], output)):
            number = _tokens(value)
            if number is None:
                return f"{name} {_shown(value)} is not a whole number from 0 to {MAX_TOKENS:,}"
            tokens.append(number)
        if tokens[0] == 0 and tokens[1] > 0:
            return f"{names[1]} is 0, but {tokens[1]:.0f} tokens were written"
        return seconds, tokens[0], tokens[1]

    def _checked(
        self, row: tuple[float, float, float], total: Any
    ) -> tuple[float, float, float] | str:
        """Return the row, or how its total contradicts it; one that is empty contradicts none."""
        if self.columns.total is None or total is None or not str(total).strip():
            return row
        name, (_, prompt, output) = self.columns.total[1], row
        number = _tokens(total)
        if number is None:
            return f"{name} {_shown(total)} is not a whole number from 0 to {MAX_TOKENS:,}"
        if _adds_up(np.array(prompt), np.array(output), np.array(number)):
            return row
        self.contradicting += 1
        _, prompts, outputs = self.columns.names
        return f"{name} is {number:.0f}, but {prompts} {prompt:.0f} and {outputs} {output:.0f}"


def _flat(columns: Sequence[NDArray[Any]], length: int) -> bool:
    """Whether every value of a column is one number; lists in all rows make a table of them."""
    return all(column.shape == (length,) for column in columns)


def _plain(seconds: Floats, prompts: Floats, outputs: Floats) -> bool:
    """Whether every row is good, or a failed request."""
    if not (np.abs(seconds) <= MAX_SECONDS).all():  # false of NaN, too
        return False
    for tokens in (prompts, outputs):
        if not ((tokens >= 0) & (tokens <= MAX_TOKENS) & (tokens == np.floor(tokens))).all():
            return False
    return not ((prompts == 0) & (outputs > 0)).any()


def _adds_up(prompts: Floats, outputs: Floats, totals: Floats | None = None) -> bool:
    """Whether every total is the sum of its parts; a failed request may state less."""
    if totals is None:
        return True
    failed = (outputs == 0) & (totals >= 0) & (totals <= prompts)
    return bool(((totals == prompts + outputs) | failed).all())


def _tokens(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= MAX_TOKENS and number == int(number) else None


def _shown(value: Any) -> str:
    text = "is missing" if value is None else repr(str(value)[:40])
    return "(empty)" if text == "''" else text
