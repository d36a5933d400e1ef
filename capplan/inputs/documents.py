"""JSON from outside: bounded in size, depth and count, and without what is no number.

Python reads more than JSON: NaN and infinities by name, ``1e999`` as infinity, integers of
thousands of digits, halves of characters. None of these gets through here, but for what a kind of
file really holds: configurations have infinite limits and lengths of 1e30.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from capplan.errors import UnreadableFileError
from capplan.inputs.limits import Limits
from capplan.inputs.reading import read_text

_LARGEST, _LARGEST_FLOAT = 2**64, 10**300
_HALF_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")


def read_json(path: Path, limits: Limits, *, finite: bool = True, bounded: bool = True) -> Any:
    """Return the value of a JSON file; see :func:`parse_json`."""
    return parse_json(read_text(path, limits), str(path), limits, finite=finite, bounded=bounded)


def parse_json(
    text: str,
    name: str,
    limits: Limits,
    *,
    finite: bool = True,
    bounded: bool = True,
    unique: bool = False,
) -> Any:
    """Return the value of a JSON text.

    Parameters
    ----------
    text
        The text, already bounded in size.
    name
        What it is called in messages.
    limits
        How deep and how much of it there may be.
    finite
        Refuse NaN and infinities.
    bounded
        Refuse integers of more than 64 bits; what no float can hold is refused in any case.
    unique
        Refuse an object that has a key twice, of which Python keeps the last.

    Raises
    ------
    UnreadableFileError
        If it is no JSON, is cut off, or exceeds a limit.
    """
    check_groups(text, name, limits)
    try:
        value = json.loads(text, object_pairs_hook=_unique if unique else None)
    except json.JSONDecodeError as error:
        raise UnreadableFileError(name, _syntax(text, error), line=error.lineno) from error
    except RecursionError as error:
        raise UnreadableFileError(name, _too_deep(limits)) from error
    except ValueError as error:  # an integer of thousands of digits, a key that stands there twice
        raise UnreadableFileError(name, _clause(error)) from error
    check_depth(value, name, limits)
    check_numbers(value, name, finite=finite, bounded=bounded)
    if has_halves(text):
        check_texts(value, name)
    return value


def check_groups(text: str, name: str, limits: Limits) -> None:
    """Refuse a text with more lists and objects than the limit; brackets in strings count too."""
    groups = text.count("[") + text.count("{")
    if groups > limits.most_groups:
        raise UnreadableFileError(
            name, f"it has {groups:,} lists and objects, at most {limits.most_groups:,} are read"
        )


def check_depth(value: Any, name: str, limits: Limits) -> None:
    """Refuse what is nested too deeply."""
    for depth, level in enumerate(_levels(value), 1):
        if depth > limits.deepest and any(isinstance(one, dict | list) for one in level):
            raise UnreadableFileError(name, _too_deep(limits))


def check_numbers(value: Any, name: str, *, finite: bool = True, bounded: bool = True) -> None:
    """Refuse NaN, infinities and integers that are too large to reckon with."""
    largest = _LARGEST if bounded else _LARGEST_FLOAT
    for level in _levels(value):
        for one in level:
            kind = type(one)
            if kind is float and finite and one - one != 0.0:
                where = _where(value, one)
                raise UnreadableFileError(name, f"{where} is {one}, expected a finite number")
            if kind is int and not -largest <= one <= largest:
                bits, most = one.bit_length(), largest.bit_length() - 1
                what = f"is an integer of {bits:,} bits, expected at most {most:,}"
                raise UnreadableFileError(name, f"{_where(value, one)} {what}")


def check_texts(value: Any, name: str) -> None:
    """Refuse half of a character, which can be neither shown nor written."""
    for level in _levels(value):
        for one in level:
            texts = one if isinstance(one, dict) else (one,)
            if any(isinstance(text, str) and _HALF.search(text) for text in texts):
                raise UnreadableFileError(name, "it holds half of a character, which is no text")


def without_halves(value: Any) -> Any:
    """Return a value with halves of characters replaced, for texts that only name things.

    The depth of the value must have been checked.
    """
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [without_halves(one) for one in value]
    if isinstance(value, dict):
        return {without_halves(key): without_halves(one) for key, one in value.items()}
    return value


def has_halves(text: str) -> bool:
    """Return whether a JSON text may hold half of a character."""
    return _HALF_ESCAPED.search(text) is not None


def _where(value: Any, wanted: Any) -> str:
    """Return the place of a value within another, as ``timing.0.seconds``."""
    groups = [("", value)] if isinstance(value, dict | list | tuple) else []
    while groups:
        place, group = groups.pop()
        pairs = group.items() if isinstance(group, dict) else enumerate(group)
        for key, one in pairs:
            if one is wanted:
                return f"{place}{key!s:.60}"
            if isinstance(one, dict | list | tuple):
                groups.append((f"{place}{key!s:.60}.", one))
    return "a number"


def _levels(value: Any) -> Iterator[list[Any]]:
    """Yield the values by how deep they lie, without recursion."""
    level = [value]
    while level:
        yield level
        level = _inside(level)


def _inside(level: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for one in level:
        if isinstance(one, dict):
            found.extend(one.values())
        elif isinstance(one, list | tuple):
            found.extend(one)
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"{twice[:60]!r} stands there twice")
    return found


def _syntax(text: str, error: json.JSONDecodeError) -> str:
    whole = text.strip()
    if not whole:
        return "it is empty"
    where = f"line {error.lineno}, column {error.colno}"
    if whole[0] in "{[" and (error.pos >= len(text.rstrip()) or whole[-1] not in "}]"):
        return f"it is not JSON but cut off after {len(text):,} characters (truncated), {where}"
    return f"it is not JSON ({error.msg}), {where}"


def _too_deep(limits: Limits) -> str:
    return (
        f"it is not JSON that can be read: nested too deeply, a {limits.what} has at "
        f"most {limits.deepest} levels"
    )


def _clause(error: ValueError) -> str:
    text = str(error)
    return "it holds a number of thousands of digits" if "digits" in text else text
