"""Traces as Parquet, where pyarrow is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from capplan.errors import MissingPackageError, WorkloadError
from capplan.workloads.columns import Columns, find_columns
from capplan.workloads.rows import Rows
from capplan.workloads.times import time_form

_BATCH_ROWS = 100_000


def read_parquet(path: Path, chosen: Mapping[str, str], unit: str | None) -> Rows:
    """Read the columns of a Parquet file that are needed; the others are never loaded.

    Raises
    ------
    MissingPackageError
        Without pyarrow.
    WorkloadError
        If it is no Parquet file, or has no such columns or no row.
    """
    try:
        parquet: Any = import_module("pyarrow.parquet")
        arrow: Any = import_module("pyarrow")
    except ImportError as error:
        raise MissingPackageError("Reading Parquet traces", "pyarrow", "parquet") from error
    try:
        table = parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise WorkloadError(
            f"{path.name} is no Parquet file that can be read: {str(error)[:120]}.",
            "Write it again, or give the trace as CSV.",
        ) from error
    columns = find_columns(table.schema_arrow.names, path.name, chosen)
    rows: Rows | None = None
    line = 1
    for times, prompts, outputs, *totals in _batches(table, columns, path.name, arrow):
        if rows is None:
            first = next((time for time in times if time is not None), None)
            name = columns.names[0]
            form = time_form(first, name, columns.layout, path.name, unit)
            rows = Rows(columns, form, path.name)
        rows.add(times, prompts, outputs, range(line, line + len(times)), *totals)
        line += len(times)
    if rows is None:
        raise WorkloadError(f"{path.name} has no row.", "Give a longer trace.")
    return rows


def _batches(table: Any, columns: Columns, name: str, arrow: Any) -> Iterator[list[list[Any]]]:
    """Yield the columns as Python values, some rows at a time."""
    try:
        for batch in table.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns.read_names)):
            yield [_values(batch.column(column)) for column in columns.read_names]
    except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise WorkloadError(
            f"{name} is damaged: {str(error)[:120]}.", "Write it again, or give the trace as CSV."
        ) from error


def _values(column: Any) -> list[Any]:
    """Return Python values; moments as ISO text, whatever unit and zone they are kept in."""
    values = column.to_pylist()
    if values and hasattr(values[0], "isoformat"):
        return [None if value is None else value.isoformat() for value in values]
    return list(values)
