"""CSV files of models_db to rows. A bad row is an error with file and line, never skipped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from capplan.errors import FactsError, UnreadableFileError
from capplan.inputs.limits import FACTS
from capplan.inputs.tables import read_table
from capplan.schema.base import Value
from capplan.schema.provenance import Kind, Source

V = TypeVar("V", bound=Value)

PROVENANCE = ("source", "as_of", "note")
"""Columns that every family ends with."""


@dataclass(frozen=True)
class Row:
    """One line of a CSV file, with what an error message needs."""

    path: Path
    line: int
    cells: Mapping[str, str]

    def error(self, column: str, expected: str) -> FactsError:
        """Return the error for a cell that is not what it should be."""
        return FactsError(
            f"{self.path}:{self.line}: column {column} is {self.cells.get(column, '')!r}, "
            f"expected {expected}.",
            "Correct the row; models_db/README.md describes the columns.",
        )

    def required(self, column: str) -> str:
        """Return a cell that must not be empty."""
        if not self.cells[column]:
            raise self.error(column, "some text")
        return self.cells[column]

    def number(self, column: str) -> float | None:
        """Return a finite number, None for an empty cell."""
        text = self.cells[column]
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise self.error(column, "a number") from None
        if not math.isfinite(value):
            raise self.error(column, "a finite number")
        return value

    def scaled(self, column: str, factor: float) -> float | None:
        """Return a number in base units, None for an empty cell."""
        value = self.number(column)
        return None if value is None else value * factor

    def source(self, kind: Kind) -> Source:
        """Return where the row comes from."""
        return Source(
            kind=kind,
            reference=self.required("source"),
            date=self.cells["as_of"] or None,
            note=self.cells["note"],
        )


def read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Yield the rows of a CSV file with exactly these columns.

    Raises
    ------
    FactsError
        If the file is missing, its header differs or a row has too many or too few cells.
    """
    lines = _lines(path)
    header = tuple(next(lines, (0, ()))[1])
    if header != columns:
        raise FactsError(
            f"{path}:1: the header is {','.join(header)!r}, expected {','.join(columns)!r}.",
            "Columns are fixed; models_db/README.md describes them.",
        )
    for number, cells in lines:
        if len(cells) != len(columns):
            raise FactsError(
                f"{path}:{number}: {len(cells)} cells, expected {len(columns)}.",
                "Quote cells that contain a comma.",
            )
        yield Row(path, number, dict(zip(columns, cells, strict=True)))


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        yield from read_table(path, FACTS)
    except UnreadableFileError as error:
        where = f"{path}:{error.line}" if error.line is not None else str(path)
        raise FactsError(
            f"{where}: cannot be read: {error.reason}.",
            "Mend the file; if it is one of capplan's own, reinstall capplan.",
        ) from error


def read_family(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Yield the rows of every CSV file of a folder, in the order of the files' names.

    One file a contribution is enough: all of a family share the same columns. ``path`` may also
    be one such file.

    Raises
    ------
    FactsError
        As :func:`read_rows`; also if the folder holds no CSV file.
    """
    paths = [path] if path.is_file() else sorted(path.glob("*.csv"))
    if not paths:
        raise FactsError(f"{path}: no CSV file.", "Reinstall capplan.")
    for file in paths:
        yield from read_rows(file, columns)


def build(model: type[V], row: Row, values: Mapping[str, object]) -> V:
    """Validate a value; a violation names file, line, column, the value and what was expected."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        column, said = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        where = f"column {column} is {_shown(first['input'])}: " if column else ""
        raise FactsError(
            f"{row.path}:{row.line}: {where}{said}.",
            "Correct the row; models_db/README.md describes the columns.",
        ) from None


def _shown(value: object) -> str:
    """Return a value as it stands in the file; ``repr`` of a Decimal does not."""
    return str(value) if isinstance(value, Decimal) else repr(value)


def filled(row: Row, skip: tuple[str, ...] = PROVENANCE) -> dict[str, object]:
    """Return the cells that hold something, but for those named."""
    return {name: cell for name, cell in row.cells.items() if cell and name not in skip}


def cited(model: type[V], row: Row) -> V:
    """Validate a value whose columns are its fields, with the row as its cited source."""
    return build(model, row, {**filled(row), "source": row.source(Kind.CITED)})
