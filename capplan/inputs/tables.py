"""CSV from outside, row by row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from capplan.errors import UnreadableFileError
from capplan.inputs.limits import Limits
from capplan.inputs.reading import read_text


def read_table(path: Path, limits: Limits) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file with the lines that they end on.

    Raises
    ------
    UnreadableFileError
        If it cannot be read, or a line is no CSV: a cell of more than 128 KB, for instance.
    """
    yield from parse_table(read_text(path, limits), str(path))


def parse_table(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV text; see :func:`read_table`."""
    reader = csv.reader(io.StringIO(text, newline=""))
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UnreadableFileError(
                name, f"line {reader.line_num} is no CSV ({error})", line=reader.line_num
            ) from error
        yield reader.line_num, cells
