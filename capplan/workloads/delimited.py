"""Traces as CSV or other delimited text, read in blocks."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from itertools import chain, islice
from operator import itemgetter
from typing import BinaryIO, cast

from capplan.errors import WorkloadError
from capplan.workloads.blocks import BYTE_ORDER_MARK, line_blocks
from capplan.workloads.byte_table import split_cells, times, whole_numbers
from capplan.workloads.columns import find_columns
from capplan.workloads.rows import Rows
from capplan.workloads.times import is_time, time_form

_CHUNK_ROWS = 8192
_MAX_HEADER_BYTES, _SAMPLE_ROWS = 2**20, 100
_DELIMITERS = ",;\t|"


def read_delimited(
    stream: BinaryIO, file: str, chosen: Mapping[str, str], unit: str | None
) -> Rows:
    """Read a table whose first line names the columns.

    Raises
    ------
    WorkloadError
        If there is no header or no row, or a line is no CSV.
    UnicodeDecodeError
        If it is no UTF-8.
    """
    header = stream.readline(_MAX_HEADER_BYTES).removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    delimiter = max(_DELIMITERS, key=header.count)
    names = _names(header, delimiter, file)
    columns = find_columns(names, file, chosen)
    blocks = line_blocks(stream)
    first = next(blocks, b"")
    if not first.strip():
        raise WorkloadError(f"{file} names its columns and has no row.", "Give a longer trace.")
    place = columns.timestamp
    sample = _sample(first, place, delimiter)
    form = time_form(sample, names[place], columns.layout, file, unit)
    table = _Table(Rows(columns, form, file), len(names), delimiter)
    table.take(chain([first], blocks))
    return table.rows


def _names(header: str, delimiter: str, file: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
    except csv.Error as error:
        raise WorkloadError(
            f"{file}, line 1: no names of columns: {error}.",
            "Give a table whose first line names its columns.",
        ) from error


def _sample(block: bytes, place: int, delimiter: str) -> str:
    """Return a time of the first rows by which to judge their form: the first that is one."""
    text = StringIO(block[:_MAX_HEADER_BYTES].decode("utf-8", "replace"), newline="")
    try:
        rows = list(islice(csv.reader(text, delimiter=delimiter), _SAMPLE_ROWS))
    except csv.Error:
        return ""
    found = [row[place] for row in rows if len(row) > place and row[place].strip()]
    return next((value for value in found if is_time(value)), found[0] if found else "")


def _picker(*places: int) -> Callable[[list[str]], tuple[str, ...]]:
    """Return what takes some cells out of a row."""
    return cast("Callable[[list[str]], tuple[str, ...]]", itemgetter(*places))


class _Table:
    """The rows below a header."""

    def __init__(self, rows: Rows, width: int, delimiter: str) -> None:
        self.rows = rows
        self._width = width
        self._delimiter = delimiter
        self._line = 2

    def take(self, blocks: Iterator[bytes]) -> None:
        """Read all blocks; from the first quote on, cells may span lines: one reader for all."""
        for block in blocks:
            if b'"' in block:
                self._slowly(chain([block], blocks))
                return
            if not self._at_once(block):
                self._slowly(iter([block]))
            else:
                self._line += block.count(b"\n")

    def _at_once(self, block: bytes) -> bool:
        cells = split_cells(block, self._width, self._delimiter)
        if cells is None:
            return False
        columns = self.rows.columns
        seconds = times(cells, columns.timestamp, self.rows.form)
        tokens = [whole_numbers(cells, place) for place in columns.places[1:]]
        read = [column for column in tokens if column is not None]
        if seconds is None or len(read) < len(tokens):
            return False
        return self.rows.add_arrays(seconds, *read)

    def _slowly(self, blocks: Iterator[bytes]) -> None:
        texts = (StringIO(block.decode("utf-8"), newline="") for block in blocks)
        lines = chain.from_iterable(texts)
        reader = csv.reader(lines, delimiter=self._delimiter)
        begin = self._line
        pick = _picker(*self.rows.columns.places)
        while True:
            before = reader.line_num
            try:
                cells = list(islice(reader, _CHUNK_ROWS))
            except csv.Error as error:
                raise WorkloadError(
                    f"{self.rows.file}, line {begin + reader.line_num}: not readable as CSV: "
                    f"{error}.",
                    "Quote cells that hold quotes or line ends; leave out columns of text.",
                ) from error
            if not cells:
                break
            # a quoted cell may hold line ends: the lines of its chunk are then counted by row
            self._rows(cells, begin + before, pick)
        self._line = begin + reader.line_num

    def _rows(
        self, cells: list[list[str]], line: int, pick: Callable[[list[str]], tuple[str, ...]]
    ) -> None:
        kept, lines = [], []
        for at, row in enumerate(cells, line):
            if len(row) == self._width:
                kept.append(row)
                lines.append(at)
            elif row:
                self.rows.reject(at, f"{len(row)} cells where the header has {self._width}")
        if kept:
            moments, prompts, outputs, *totals = zip(*map(pick, kept), strict=True)
            self.rows.add(moments, prompts, outputs, lines, *totals)
