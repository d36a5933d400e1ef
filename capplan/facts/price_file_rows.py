"""The rows of a price file, CSV or JSON, with the lines that they stand on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from capplan.errors import FactsError, UnreadableFileError
from capplan.facts.prices import PRICE_COLUMNS, PRICE_OF
from capplan.facts.rows import Row
from capplan.inputs.documents import parse_json
from capplan.inputs.limits import PRICES
from capplan.inputs.reading import read_text
from capplan.inputs.tables import parse_table

GPU_HOUR, NODE_HOUR = "usd_per_gpu_hour", "usd_per_hour"
UPFRONT_USD, CURRENCY = "upfront_usd", "currency"
COLUMNS = tuple(
    dict.fromkeys(("gpu", GPU_HOUR, NODE_HOUR, "purchase", *PRICE_COLUMNS, UPFRONT_USD, CURRENCY))
)
"""Every column that a price file may have; ``gpu`` and one price are enough."""

PRICE_FIELDS = (GPU_HOUR, NODE_HOUR, *PRICE_OF.values())
REMEDY = (
    f"Columns: {', '.join(COLUMNS)}. The shortest file has: gpu,{GPU_HOUR}. "
    "Amounts are US dollars, cells are set apart by commas."
)


def read_price_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a price file; columns that it lacks are empty.

    Raises
    ------
    FactsError
        If the file cannot be read or its columns are not known; the message names file and line.
    """
    rows = _json_rows if path.suffix.lower() == ".json" else _csv_rows
    try:
        yield from rows(path, read_text(path, PRICES))
    except UnreadableFileError as error:
        where = f"{path}:{error.line}" if error.line is not None else str(path)
        raise FactsError(f"{where}: cannot be read: {error.reason}.", REMEDY) from error


def _csv_rows(path: Path, text: str) -> Iterator[Row]:
    header: tuple[str, ...] = ()
    for number, cells in parse_table(text, str(path)):
        stripped = [cell.strip() for cell in cells]
        if not any(stripped) or stripped[0].startswith("#"):
            continue
        where = f"{path}:{number}"
        if not header:
            header = tuple(name.lower() for name in stripped)
            _check_columns(where, header)
            continue
        if len(stripped) != len(header):
            raise FactsError(
                f"{where}: {len(stripped)} cells, expected {len(header)}.",
                "Quote cells that contain a comma; write 2.49, not 2,49.",
            )
        yield _row(path, number, dict(zip(header, stripped, strict=True)))
    if not header:
        raise FactsError(f"{path}: is empty.", REMEDY)


def _json_rows(path: Path, text: str) -> Iterator[Row]:
    # numbers stay the text that they are: 2.49 must not become the binary fraction beside it
    decoder = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
    document = parse_json(text, str(path), PRICES, finite=False, bounded=False, unique=True)
    entries = document.get("prices") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise FactsError(f'{path}:1: expected a list of prices, or {{"prices": [...]}}.', REMEDY)
    at, line, counted = _list_begin(text, decoder), 1, 0
    for _ in entries:
        at = _after(text, at, " \t\r\n,")
        line += text.count("\n", counted, at)
        counted = at
        entry, at = decoder.raw_decode(text, at)
        yield _json_row(path, line, entry)


def _list_begin(text: str, decoder: json.JSONDecoder) -> int:
    """Return the place after the bracket that opens the list of prices, of a text that has one."""
    at = _after(text, 0, " \t\r\n")
    while text[at] != "[":
        at = _after(text, at, " \t\r\n{,")
        key, at = decoder.raw_decode(text, at)
        at = _after(text, at, " \t\r\n:")
        if key == "prices":
            break
        _, at = decoder.raw_decode(text, at)
    return at + 1


def _after(text: str, at: int, passed_over: str) -> int:
    while text[at] in passed_over:
        at += 1
    return at


def _json_row(path: Path, line: int, entry: Any) -> Row:
    if not isinstance(entry, dict):
        raise FactsError(f"{path}:{line}: expected an object with the columns as keys.", REMEDY)
    _check_columns(f"{path}:{line}", tuple(entry))
    for name, value in entry.items():
        if value is not None and not isinstance(value, str):
            kind = type(value).__name__
            raise FactsError(f"{path}:{line}: {name} is a {kind}, expected text.", REMEDY)
    return _row(path, line, {name: (value or "").strip() for name, value in entry.items()})


def _check_columns(where: str, names: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise FactsError(f"{where}: unknown column {unknown[0]!r}.", REMEDY)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise FactsError(f"{where}: the column {twice[0]!r} appears twice.", REMEDY)
    priced = any(name in names for name in (*PRICE_FIELDS, UPFRONT_USD))
    if not priced or not ("gpu" in names or "instance" in names):
        raise FactsError(
            f"{where}: expected the column gpu (or instance) and one with a price.", REMEDY
        )


def _row(path: Path, line: int, cells: Mapping[str, str]) -> Row:
    return Row(path, line, {**dict.fromkeys(COLUMNS, ""), **cells})
