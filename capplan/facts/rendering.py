"""Listings as text: table, CSV, JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from capplan.facts.listing import Listing, Record
from capplan.files.spreadsheets import inert

if TYPE_CHECKING:
    from rich.console import RenderableType

_SCHEMA_VERSION = 1


def to_json(content: Mapping[str, Any]) -> str:
    """Return the content as JSON with the version of its layout."""
    return json.dumps({"schema_version": _SCHEMA_VERSION, **content}, indent=2, ensure_ascii=False)


def to_csv(listing: Listing) -> str:
    """Return whole records as CSV; the source has columns of its own."""
    records = [_flat(record) for record in listing.records]
    columns = list(dict.fromkeys(name for record in records for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in record.items()} for record in records)
    return text.getvalue().rstrip("\n")


def _cell(value: object) -> object:
    return inert(value) if isinstance(value, str) else value


def _flat(record: Record) -> Record:
    source = {f"source_{key}": text for key, text in record["source"].items()}
    plain = {key: value for key, value in record.items() if key != "source"}
    return {**plain, **source}


def to_plain_table(listing: Listing) -> str:
    """Return aligned columns, for pipes and files: nothing is cut off."""
    lines: Sequence[Sequence[str]] = (listing.headers, *listing.rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(listing.headers))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def to_rich_table(listing: Listing) -> RenderableType:
    """Return the table for a terminal, wrapped to its width."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*listing.headers)
    for row in listing.rows:
        # Text, not markup: an id may hold square brackets.
        table.add_row(*map(Text, row))
    return table


def to_lines(record: Record) -> str:
    """Return one fact as ``name: value`` lines; unknown values are left out."""
    return "\n".join(
        f"{name}: {_in_words(value)}" for name, value in record.items() if _is_known(value)
    )


def _is_known(value: object) -> bool:
    return value is not None and value != ""


def _in_words(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{text}" for text in value.values() if _is_known(text))
    if isinstance(value, int | float) and not isinstance(value, bool):
        # a whole number keeps all its digits: 1,978,000,000,000,000, not 1.978e+15
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.15g}"
    return ", ".join(value) if isinstance(value, list | tuple) else str(value)
