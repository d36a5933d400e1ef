"""FOCUS-shaped rows as CSV text or a Parquet file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from capplan.economics.focus import FocusRow, FocusValue, focus_rows
from capplan.economics.focus_columns import COLUMNS, DECIMAL_COLUMNS, MOMENT_COLUMNS
from capplan.errors import MissingPackageError
from capplan.files import write_atomic
from capplan.files.spreadsheets import inert
from capplan.schema.plan import Plan

PARQUET = ".parquet"
_DIGITS, _DECIMALS = 38, 14
"""Digits of a Parquet decimal, and those after the point: sums of it stay exact in DuckDB."""


def render_focus(plan: Plan) -> str:
    """Return the recommended option's next month as CSV text; a header alone where none fits."""
    return focus_csv(focus_rows(plan))


def focus_csv(rows: Sequence[FocusRow]) -> str:
    """Return rows as CSV text: UTC times ending in Z, plain decimals, nulls as empty cells."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_cell(row[name]) for name in COLUMNS] for row in rows)
    return out.getvalue()


def write_focus(path: str | Path, rows: Sequence[FocusRow]) -> Path:
    """Write rows to a file, Parquet if its name ends in ``.parquet``, else CSV.

    Raises
    ------
    MissingPackageError
        If Parquet is asked for and pyarrow is not installed.
    """
    file = Path(path)
    if file.suffix.lower() == PARQUET:
        write_atomic(file, focus_parquet(rows))
    else:
        write_atomic(file, focus_csv(rows))
    return file


def focus_parquet(rows: Sequence[FocusRow]) -> bytes:
    """Return rows as a Parquet file: exact decimals, times in UTC, typed nulls.

    Raises
    ------
    MissingPackageError
        If pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingPackageError("A Parquet file", "pyarrow", "parquet") from error
    schema = pa.schema([(name, _arrow_type(pa, name)) for name in COLUMNS])
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), buffer)
    return buffer.getvalue()


def _arrow_type(pa: Any, name: str) -> Any:
    if name in DECIMAL_COLUMNS:
        return pa.decimal128(_DIGITS, _DECIMALS)
    return pa.timestamp("us", tz="UTC") if name in MOMENT_COLUMNS else pa.string()


def _plain(amount: Decimal) -> str:
    """Return ``730.0``: readers that guess a column's type from its text must not see integers."""
    text = f"{amount:f}"
    return text if "." in text else f"{text}.0"


def _cell(value: FocusValue) -> str:
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return _plain(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return inert(value)
