"""Read a folder of published measurements: files may be missing, rows and columns incomplete."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from capplan.errors import FactsError, UnreadableFileError
from capplan.inputs.limits import PUBLISHED
from capplan.inputs.tables import read_table
from capplan.validation.rows import (
    OK,
    AcceptanceRow,
    AnyRow,
    DecodeRow,
    GoldenRow,
    PublishedRows,
    RoundRow,
    ServingRow,
    SpeedupRow,
    ThroughputRow,
    VerifyRow,
)

R = TypeVar("R", bound=AnyRow)

_REMEDY = "Give a folder with files such as speedup.csv; models_db/published shows the format."

_ABOVE_ZERO = (": measured_speedup", ": tau", ": batch_size", ": t_ar_ms", ": t_sd_ms")
"""Ends of what names a cell whose number must be above 0; no column is ever negative."""


def read_published(folder: Path) -> PublishedRows:
    """Read what a folder in the format of ``models_db/published`` holds.

    A cell that is no number where one belongs, or one that cannot be (a speedup of 0), counts as
    empty and is reported in ``problems``.

    Raises
    ------
    FactsError
        If the folder holds none of the known files, or one that is not text.
    """
    if not folder.is_dir():
        raise FactsError(f"{folder}: expected a folder of published measurements.", _REMEDY)
    problems: list[str] = []
    found = PublishedRows(
        speedup=_read(folder / "speedup.csv", SpeedupRow, problems),
        throughput=_read(folder / "throughput.csv", ThroughputRow, problems),
        acceptance=_read(folder / "acceptance.csv", AcceptanceRow, problems),
        golden_acceptance_length=_read(
            folder / "golden_acceptance_length.csv", GoldenRow, problems
        ),
        baseline_decode=_read(folder / "baseline_decode.csv", DecodeRow, problems),
        serving_baseline=_read(folder / "serving_baseline.csv", ServingRow, problems),
        verify_cost=_read(folder / "verify_cost.csv", VerifyRow, problems),
        rounds=_read(folder / "rounds.csv", RoundRow, problems),
        problems=(),
    )
    if found == PublishedRows():
        raise FactsError(f"{folder}: no file of published measurements with rows.", _REMEDY)
    return PublishedRows(
        **{f.name: getattr(found, f.name) for f in fields(found) if f.name != "problems"},
        problems=tuple(problems),
    )


def _read(path: Path, kind: type[R], problems: list[str]) -> tuple[R, ...]:
    if not path.is_file():
        return ()
    rows: list[R] = []
    header: list[str] = []
    try:
        for number, cells in read_table(path, PUBLISHED):
            if not header:
                header = cells
            elif cells:
                named = dict(zip(header, cells, strict=False))
                rows.append(_row(kind, named, f"{path.name}:{number}", problems))
    except UnreadableFileError as error:
        raise FactsError(f"{path}: cannot be read: {error.reason}.", _REMEDY) from error
    return tuple(rows)


def _row(kind: type[R], cells: dict[str, str], where: str, problems: list[str]) -> R:
    values: dict[str, Any] = {}
    for column in fields(kind):
        text = cells.get(column.name, "").strip()
        if isinstance(column.default, str):
            values[column.name] = text
        else:
            values[column.name] = _number(text, f"{where}: {column.name}", problems)
    if not values["quality"]:
        values["quality"] = OK
    row: R = kind(**values)
    return row


def _number(text: str, where: str, problems: list[str]) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        problems.append(f"{where} is {text!r}, expected a number; taken as empty")
        return None
    if value < 0 or (value == 0 and where.endswith(_ABOVE_ZERO)):
        least = "above 0" if where.endswith(_ABOVE_ZERO) else "of 0 or more"
        problems.append(f"{where} is {text!r}, expected a number {least}; taken as empty")
        return None
    return value
