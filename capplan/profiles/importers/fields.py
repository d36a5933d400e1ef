"""Values of a file that nobody promised anything about: absent, negative, text, infinite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from capplan.schema.observation import Spread

_NOT_FINITE = frozenset({"", "nan", "inf", "-inf", "infinity", "-infinity", "none", "null", "n/a"})


def as_number(value: object) -> float | None:
    """Return a finite number, also from its text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = value.strip().replace(",", "")
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def is_unbounded(value: object) -> bool:
    """Return whether a rate means "as fast as possible": ``inf``, ``"inf"``."""
    if isinstance(value, str):
        return value.strip().lower() in {"inf", "infinity"}
    return isinstance(value, float) and math.isinf(value) and value > 0


class Fields:
    """Read access to a mapping of an untrusted file.

    Parameters
    ----------
    content
        What was parsed; anything but a mapping counts as an empty one.
    where
        Its place in the file, for messages.
    odd
        Shared list of places where a number was expected and something else stood.
    """

    def __init__(self, content: object, where: str = "", odd: list[str] | None = None) -> None:
        self._content: Mapping[Any, Any] = content if isinstance(content, Mapping) else {}
        self._where = where
        self.odd: list[str] = odd if odd is not None else []

    def __contains__(self, key: object) -> bool:
        return key in self._content

    def __iter__(self) -> Iterator[str]:
        return (str(key) for key in self._content)

    def raw(self, key: str) -> Any:
        """Return the value as it stands, None if absent."""
        return self._content.get(key)

    def count(self, *keys: str) -> float | None:
        """Return the first number >= 0 under these keys; note what is there and is none."""
        for key in keys:
            value = self._content.get(key)
            number = as_number(value)
            if number is not None and number >= 0:
                return number
            if not _says_nothing(value):
                self.odd.append(f"{self._where}{key}={str(value)[:40]}")
        return None

    def positive(self, *keys: str) -> float | None:
        """Return the first number > 0 under these keys."""
        return next((n for key in keys if (n := self.count(key)) is not None and n > 0), None)

    def whole(self, *keys: str) -> int | None:
        """Return the first whole number >= 1 under these keys."""
        number = self.positive(*keys)
        if number is None:
            return None
        if not 1 <= number < _LARGEST:
            self.odd.append(f"{self._where}{keys[0]}={number:g}")
            return None
        return int(number)

    def text(self, *keys: str) -> str:
        """Return the first non-empty text under these keys, cut to a line."""
        for key in keys:
            value = self._content.get(key)
            if isinstance(value, str) and value.strip():
                return value.strip().splitlines()[0][:_LONGEST]
        return ""

    def section(self, *keys: str) -> Fields:
        """Return a mapping inside this one, empty if it is not there."""
        found = self
        for key in keys:
            found = Fields(found.raw(key), f"{found._where}{key}.", self.odd)
        return found

    def sections(self) -> list[Fields]:
        """Return every mapping inside this one."""
        return [self.section(key) for key, value in self._content.items() if _is_map(value)]

    def first(self, *paths: str) -> Fields:
        """Return the first non-empty section of these dotted paths."""
        sections = (self.section(*path.split(".")) for path in paths)
        return next(
            (one for one in sections if any(True for _ in one)), Fields(None, "", self.odd)
        )

    def items(self, key: str) -> Sequence[Any]:
        """Return a list under the key, empty if there is none."""
        value = self._content.get(key)
        return value if isinstance(value, list) else ()

    def counts(self, key: str) -> tuple[float, ...]:
        """Return the numbers >= 0 of a list; empty if one of them is not."""
        numbers = [as_number(value) for value in self.items(key)]
        good = tuple(n for n in numbers if n is not None and n >= 0)
        if len(good) < len(numbers):
            self.odd.append(f"{self._where}{key}")
            return ()
        return good


_LARGEST = 1e12
_LONGEST = 300


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def _says_nothing(value: object) -> bool:
    if value is None or isinstance(value, list | Mapping):
        return True
    if isinstance(value, str):
        return value.strip().lower() in _NOT_FINITE
    return isinstance(value, float) and not math.isfinite(value)


def spread(fields: Fields, keys: Mapping[str, Sequence[str]], seconds: float) -> Spread | None:
    """Return a distribution in seconds.

    Parameters
    ----------
    fields
        Where the values stand.
    keys
        Names under which each part (``mean``, ``p50`` ...) may be found.
    seconds
        Length of the file's unit in seconds.
    """
    found = {part: fields.count(*names) for part, names in keys.items()}
    known = {part: value * seconds for part, value in found.items() if value is not None}
    return Spread(**known) if known else None


def scaled(value: Spread | None, factor: float) -> Spread | None:
    """Return a distribution times a factor."""
    if value is None:
        return None
    parts = {name: part for name, part in value.model_dump().items() if part is not None}
    return Spread(**{name: part * factor for name, part in parts.items()})


def spread_of(values: Sequence[float]) -> Spread | None:
    """Return the distribution of raw values in seconds; None of an empty list."""
    if not values:
        return None
    ordered = sorted(values)
    # the nearest rank: a value that was measured, not one between two
    ranks = {
        f"p{q}": ordered[min(len(ordered) - 1, len(ordered) * q // 100)] for q in (90, 95, 99)
    }
    return Spread(mean=sum(ordered) / len(ordered), p50=_median(ordered), **ranks)


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


UNIT_SECONDS: Mapping[str, float] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-9),
}
"""Length of a unit by the names that tools write."""
