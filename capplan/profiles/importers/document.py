"""A file of another tool, opened: JSON, JSON lines, or text that is read line by line."""

from __future__ import annotations

import codecs
import glob
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from capplan.errors import ResultsFileError, UnreadableFileError
from capplan.inputs.documents import check_depth, check_groups, has_halves, without_halves
from capplan.inputs.limits import RESULTS, in_words
from capplan.inputs.names import at_home
from capplan.inputs.reading import read_bytes, read_start, why
from capplan.inputs.streams import lines_of, open_stream

LARGEST_BYTES = RESULTS.most_bytes
"""Larger files are traces or server logs of days; nobody's benchmark result."""
_HEAD_BYTES = 65_536
_NAME_IT = "Name the file that the tool wrote."
_MOST_IN_VAIN = 4
"""How often a text may be read over for values that end nowhere."""
_COUNTED_AT_ONCE = 64
_GZIP = b"\x1f\x8b"
_SUFFIXES = frozenset({".json", ".jsonl", ".csv", ".log", ".txt", ".prom", ".out"})
"""What is looked at in a directory; a file that is named itself may have any suffix."""
_SEARCHED_LINES = 100_000
_LONGEST_LINE = 2**20
"""Characters; a longer line comes in pieces."""
_WORD_IN_BRACKETS = re.compile(
    r"\s*\[\s*(?:\d{4}-\d\d-\d\d|\d\d?:\d\d|\d+/\d|\d+\][ \t]*[^\s,\]]"
    r"|(?!true|false|null|NaN|Infinity)[A-Za-z])"
)
"""A log whose lines begin with a date, time, count, rank or name in brackets is no JSON list."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTAINER = re.compile(r"^[\w.-]{1,200}\s{1,40}\| ")
"""What ``docker compose logs`` puts before each line."""


@dataclass(frozen=True)
class Document:
    """The content of one file.

    Attributes
    ----------
    name
        File name, for messages and as the source of observations.
    kind
        How it could be parsed.
    values
        The parsed JSON values: one of a JSON file, one a line of JSON lines.
    head
        The first 64 KiB as text.
    lines
        Opens the file and yields its lines, without keeping them.
    damaged
        What could not be parsed, in words; empty if everything was.
    """

    name: str
    kind: Literal["json", "json lines", "text"]
    values: tuple[Any, ...]
    head: str
    lines: Callable[[], Iterator[str]]
    damaged: str = ""

    @property
    def value(self) -> Any:
        """The first JSON value; None of a text."""
        return self.values[0] if self.values else None

    def as_text(self) -> Document:
        """Return the same file as lines of text, whatever could be parsed of it."""
        return Document(self.name, "text", (), self.head, self.lines)

    def mentions(self, pattern: re.Pattern[str]) -> bool:
        """Whether a line of a text matches, among the first lines of a server's log."""
        if self.kind != "text":
            return False
        return any(pattern.search(line) for line in islice(self.lines(), _SEARCHED_LINES))


def document_from_text(text: str, name: str) -> Document:
    """Parse text that is already in memory.

    Raises
    ------
    ResultsFileError
        If it is JSON that ends in the middle, is nested too deeply, or is empty.
    """
    head = text[:_HEAD_BYTES]
    if not head.strip():
        raise ResultsFileError(f"{name} is empty.", _NAME_IT)

    def lines() -> Iterator[str]:
        return map(_bare, io.StringIO(text))

    if not _is_json(head):
        return Document(name, "text", (), head, lines)
    values, damaged = _parse_json(text, name)
    if not values:
        raise ResultsFileError(
            f"{name} {damaged}.", "Copy the file again, or run the benchmark again."
        )
    kind: Literal["json", "json lines"] = "json lines" if len(values) > 1 else "json"
    return Document(name, kind, values, head, lines, damaged)


def open_document(path: Path) -> Document:
    """Open a file.

    Raises
    ------
    ResultsFileError
        If it cannot be read or unpacked, is too large, binary, empty, or JSON that ends in the
        middle.
    """
    try:
        _check_size(path)
        head = read_start(path, _HEAD_BYTES)
        if head.startswith(_GZIP) and path.suffix.lower() == ".gz":
            return document_from_text(_unpacked(path), path.name)
        _refuse_binary(head, path)
        if _is_json(head.decode("utf-8-sig", errors="replace")):
            whole = read_bytes(path, RESULTS).decode("utf-8-sig", errors="replace")
            return document_from_text(whole, path.name)
    except UnreadableFileError as error:
        raise ResultsFileError(
            f"Cannot read {path}: {error.reason}.",
            "Give the file that the tool wrote: its summary, or the part of a log that covers the "
            "benchmark.",
        ) from error
    if not head.strip():
        raise ResultsFileError(f"{path} is empty.", _NAME_IT)
    text = head.decode("utf-8-sig", errors="replace")
    return Document(path.name, "text", (), text, lambda: map(_bare, lines_of(path, _LONGEST_LINE)))


def _bare(line: str) -> str:
    """Return a line without the colours and the container's name that a terminal shows."""
    return _CONTAINER.sub("", _COLOURS.sub("", line))


def _is_json(head: str) -> bool:
    return head.lstrip()[:1] in {"{", "["} and not _WORD_IN_BRACKETS.match(head)


def _check_size(path: Path) -> None:
    """Refuse what is too large even for a log that is read line by line."""
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise UnreadableFileError(str(path), why(error)) from error
    if size > RESULTS.most_bytes:
        most = in_words(RESULTS.most_bytes)
        reason = f"it has {in_words(size)}; the limit is {most}"
        raise UnreadableFileError(str(path), reason)


def _unpacked(path: Path) -> str:
    with open_stream(path, RESULTS) as stream:
        return stream.read().decode("utf-8-sig", errors="replace")


def _refuse_binary(head: bytes, path: Path) -> None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ResultsFileError(
            f"{path} is text in UTF-16, as PowerShell writes it with '>'.",
            f"Write it as UTF-8: iconv -f utf-16 -t utf-8 {path.name} > {path.stem}-utf8.txt",
        )
    if head.startswith(_GZIP):
        raise ResultsFileError(
            f"{path} is compressed (gzip), and its name does not end in .gz.",
            f"Rename it, or unpack it: gunzip < {path.name}",
        )
    if b"\x00" in head:
        raise ResultsFileError(
            f"{path} is a binary file; results are JSON, CSV or text.",
            "Name the JSON or CSV that the tool wrote beside it.",
        )


def _parse_json(text: str, name: str) -> tuple[tuple[Any, ...], str]:
    """Return every JSON value of a text and what was wrong with the rest."""
    try:
        check_groups(text, name, RESULTS)
        values, damaged = _values(text, name)
        for value in values:
            check_depth(value, name, RESULTS)
        if has_halves(text):
            values = [without_halves(value) for value in values]
    except UnreadableFileError as error:
        raise ResultsFileError(f"{name}: {error.reason}.", _NAME_IT) from error
    except RecursionError as error:
        raise ResultsFileError(
            f"{name} is nested more deeply than any result file.", _NAME_IT
        ) from error
    return tuple(value for value in values if isinstance(value, dict | list)), damaged


def _values(text: str, name: str) -> tuple[list[Any], str]:
    decoder = json.JSONDecoder()
    values: list[Any] = []
    position, damaged, in_vain = 0, "", 0
    while (position := _skip_space(text, position)) < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except ValueError as error:
            damaged = damaged or _damage(text, position, error)
            # the error itself counts the lines before it
            pos = getattr(error, "pos", position)
            in_vain += pos - position + pos // _COUNTED_AT_ONCE
            following = text.find("\n", position)
            if following < 0 or not values:
                break
            if in_vain > _MOST_IN_VAIN * len(text):
                raise UnreadableFileError(name, "it is damaged in too many places") from error
            position = following
        else:
            values.append(value)
    return values, damaged


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n,":
        position += 1
    return position


def _damage(text: str, position: int, error: ValueError) -> str:
    end, line = len(text.rstrip()), text.count("\n", 0, position) + 1
    if isinstance(error, json.JSONDecodeError):
        if error.pos >= end or error.msg.startswith("Unterminated"):
            return f"ends in the middle (truncated in the value that begins on line {line})"
        return f"is not JSON ({error.msg}, line {error.lineno})"
    return f"holds a number that cannot be read ({error})"


def expand(paths: Sequence[str | Path]) -> list[tuple[Path, bool]]:
    """Return the files of paths, folders and patterns, and whether each was named itself.

    Raises
    ------
    ResultsFileError
        If a pattern or a folder holds no file.
    """
    found: list[tuple[Path, bool]] = []
    for given in paths:
        path = at_home(str(given))
        if path.is_dir():
            found += [(file, False) for file in _of_folder(path)]
        elif not path.exists() and glob.has_magic(str(path)):
            found += [(file, True) for file in _of_pattern(path)]
        else:
            found.append((path, True))
    return list(dict.fromkeys(found))


def _of_folder(folder: Path) -> list[Path]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix.lower() in _SUFFIXES)
    if not files:
        raise ResultsFileError(
            f"{folder} holds no file ending in {', '.join(sorted(_SUFFIXES))}.",
            "Name the files themselves.",
        )
    return files


def _of_pattern(pattern: Path) -> list[Path]:
    names = glob.glob(str(pattern), recursive=True)  # noqa: PTH207 - a pattern with a root
    files = sorted(path for name in names if (path := Path(name)).is_file())
    if not files:
        raise ResultsFileError(f"No file matches {pattern}.", "Check the pattern.")
    return files
