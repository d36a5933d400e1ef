"""A trace of requests from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from capplan.errors import UnreadableFileError, WorkloadError
from capplan.estimate.request_trace import RequestTrace
from capplan.inputs.limits import TRACE
from capplan.inputs.reading import why
from capplan.inputs.streams import open_stream
from capplan.workloads.delimited import read_delimited
from capplan.workloads.jsonlines import read_jsonlines
from capplan.workloads.parquet import read_parquet
from capplan.workloads.rows import MAX_BAD_SHARE, BadRow, Rows

TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".txt"})
LINE_SUFFIXES = frozenset({".jsonl", ".ndjson"})
PARQUET_SUFFIXES = frozenset({".parquet", ".pq"})
TRACE_SUFFIXES = TABLE_SUFFIXES | LINE_SUFFIXES | PARQUET_SUFFIXES
MAX_FILE_BYTES = TRACE.most_bytes


@dataclass(frozen=True)
class ReadTrace:
    """A trace, and how it was understood.

    Attributes
    ----------
    trace
        The requests, by arrival.
    name
        Of the file.
    layout
        A public layout that was recognised, or ``columns by name``.
    columns
        Names of the columns of time, prompt tokens and output tokens.
    times
        How times were read.
    rows
        Rows of the file.
    failed
        Requests without an output token, kept out.
    bad
        Rows that could not be read, kept out.
    bad_rows
        The first of them.
    contradicting
        Bad rows whose total is not the sum of prompt and output.
    unsorted
        Whether the file was not in the order of arrival.
    """

    trace: RequestTrace
    name: str
    layout: str
    columns: tuple[str, str, str]
    times: str
    rows: int
    failed: int
    bad: int
    bad_rows: tuple[BadRow, ...]
    unsorted: bool
    contradicting: int = 0


@dataclass(frozen=True)
class TraceOptions:
    """What the caller knows better than the file says.

    Attributes
    ----------
    columns
        Names of columns by role: ``timestamp``, ``prompt``, ``output``.
    unit
        Of numeric times: ``s``, ``ms``, ``us`` or ``ns``.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None


def is_trace(path: Path) -> bool:
    """Whether a file's name ends as that of a trace."""
    return _suffix(path) in TRACE_SUFFIXES


def _suffix(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return name.suffix.lower()


def read_trace(path: str | Path, options: TraceOptions | None = None) -> ReadTrace:
    """Read a trace of requests: CSV, JSON lines (both also gzipped) or Parquet.

    Raises
    ------
    WorkloadError
        If the file cannot be read, lacks a column, holds no request, or more than a tenth of its
        rows are bad.
    MissingPackageError
        For Parquet without pyarrow.
    """
    file, options = Path(path), options or TraceOptions()
    rows = _rows(file, options)
    _check(rows, file.name)
    seconds, prompts, outputs = (np.concatenate(parts) for parts in zip(*rows.good, strict=True))
    order = np.argsort(seconds, kind="stable")
    trace = RequestTrace(
        seconds=seconds[order],
        prompt_tokens=prompts[order].astype(np.int64),
        output_tokens=outputs[order].astype(np.int64),
        clock=rows.form.clock,
    )
    return ReadTrace(
        trace=trace,
        name=file.name,
        layout=rows.columns.layout,
        columns=_shown(rows.columns.names),
        times=rows.form.words,
        rows=rows.total,
        failed=rows.failed,
        bad=rows.bad,
        bad_rows=tuple(sorted(rows.shown, key=lambda row: row.line)),
        unsorted=bool((np.diff(seconds) < 0).any()),
        contradicting=rows.contradicting,
    )


def _shown(names: tuple[str, str, str]) -> tuple[str, str, str]:
    """Return names that can be written: those of JSON may hold halves of characters."""
    time, prompt, output = (name.encode("utf-8", errors="replace").decode() for name in names)
    return time, prompt, output


def _rows(file: Path, options: TraceOptions) -> Rows:
    suffix = _suffix(file)
    if suffix not in TRACE_SUFFIXES:
        raise WorkloadError(
            f"{file.name} ends in {suffix or 'no suffix'}; a trace ends in .csv, .jsonl or "
            ".parquet.",
            "Rename the file, or convert it.",
        )
    _check_size(file)
    if suffix in PARQUET_SUFFIXES:
        return read_parquet(file, options.columns, options.unit)
    with _opened(file) as stream:
        if suffix in LINE_SUFFIXES:
            return read_jsonlines(stream, file.name, options.columns, options.unit)
        return read_delimited(stream, file.name, options.columns, options.unit)


def _check_size(file: Path) -> None:
    try:
        size = file.stat().st_size
    except OSError as error:
        raise _unreadable(file, why(error)) from error
    if size > MAX_FILE_BYTES:
        raise WorkloadError(
            f"{file.name} has {size / 2**30:.0f} GiB; traces up to {MAX_FILE_BYTES / 2**30:.0f} "
            "GiB are read.",
            "Keep its time and token columns, or a part of whole days.",
        )


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """Open a file, gzipped or not; what goes wrong while reading is told of the file."""
    try:
        with open_stream(file, TRACE) as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise WorkloadError(
            f"{file.name} is no UTF-8 text (byte {error.object[error.start]:#04x}).",
            "Save it as UTF-8.",
        ) from error
    except UnreadableFileError as error:
        raise _unreadable(file, error.reason) from error


def _unreadable(file: Path, reason: str) -> WorkloadError:
    return WorkloadError(f"Cannot read {file}: {reason}.", "Check the path, or fetch it again.")


def _check(rows: Rows, name: str) -> None:
    first = ""
    if rows.shown:
        one = min(rows.shown, key=lambda row: row.line)
        first = f" The first, line {one.line}: {one.reason}."
    if rows.bad > MAX_BAD_SHARE * rows.total:
        raise WorkloadError(
            f"{name}: {rows.bad:,} of {rows.total:,} rows are bad, more than "
            f"{MAX_BAD_SHARE:.0%}.{first}",
            "Mend them, or say how to read the file: --column ROLE=NAME, --time-unit.",
        )
    if not sum(len(part[0]) for part in rows.good):
        raise WorkloadError(
            f"{name} holds no request that wrote a token ({rows.failed:,} failed).{first}",
            "Give a longer trace.",
        )
