"""Timestamps of a trace: ISO text, or numbers in seconds down to nanoseconds."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.errors import WorkloadError
from capplan.estimate.request_trace import Clock

Floats = NDArray[np.float64]

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_EPOCH_FROM = 5e8
"""Seconds since 1970 that a log may have: from 1985 on. Less counts from the trace's begin."""
_YEAR_2286_S = 1e10
"""Numbers above are no seconds since 1970; each unit below seconds is 1,000 times larger."""
_UTC_SUFFIX = "+00:00"
_NS_PER_S = 1e9
_DASHES = 2
"""In an ISO date; a third one begins a negative offset."""
_YEARS_OF_NS = (1678, 2261)
"""Whole years that nanoseconds of 64 bits hold; numpy wraps others around without a word."""
_OFFSETS = "other offsets than UTC, or no times"


@dataclass(frozen=True)
class TimeForm:
    """How a file writes its times.

    Attributes
    ----------
    scale
        Seconds of one unit; None for ISO text.
    clock
        What they count from.
    words
        The same for people, and whether it was guessed.
    """

    scale: float | None
    clock: Clock
    words: str


def time_form(first: Any, column: str, layout: str, file: str, unit: str | None) -> TimeForm:
    """Judge the form by a first value, the column's name and the layout.

    Raises
    ------
    WorkloadError
        If the value is neither a number nor an ISO time.
    """
    value = _number(first)
    if value is None:
        if _iso_seconds(first) is None:
            raise WorkloadError(
                f"{file}: the timestamp {str(first)[:40]!r} in column {column!r} is neither a "
                "number nor an ISO time such as 2026-05-10 00:00:00.25.",
                "Write ISO times, or seconds; or name another column: --column timestamp=NAME.",
            )
        return TimeForm(None, "calendar", "ISO times, in UTC where they state no offset")
    named = unit or _unit_in(column) or ("ms" if layout == "Mooncake" else None)
    chosen = named or _likely_unit(value)
    how = "" if named else ", judged by their size"
    if value * UNITS[chosen] >= _EPOCH_FROM:
        return TimeForm(UNITS[chosen], "calendar", f"{chosen} since 1970{how}")
    if layout == "BurstGPT":
        return TimeForm(UNITS[chosen], "from midnight", "s since the first day's midnight")
    how = "" if named else ", as nothing says otherwise"
    return TimeForm(UNITS[chosen], "relative", f"{chosen} since the trace's begin{how}")


def is_time(value: Any) -> bool:
    """Whether a value is a number or an ISO time."""
    return _number(value) is not None or _iso_seconds(value) is not None


def _unit_in(column: str) -> str | None:
    found = re.search(r"[_ (\[](s|sec|seconds|ms|us|ns)[)\]]?$", column.lower())
    if found is None:
        return None
    return "s" if found[1].startswith("s") else found[1]


def _likely_unit(value: float) -> str:
    for name, scale in UNITS.items():
        if value * scale < _YEAR_2286_S:
            return name
    return "ns"


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _iso_seconds(value: Any) -> float | None:
    if isinstance(value, datetime):
        moment = value
    else:
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except (ValueError, OverflowError):
            return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def seconds_of_one(value: Any, form: TimeForm) -> float | None:
    """Return one time; None if it is none."""
    if form.scale is None:
        return _iso_seconds(value)
    number = _number(value)
    return None if number is None else number * form.scale


def seconds_of_many(values: Sequence[Any], form: TimeForm) -> Floats:
    """Return many times at once.

    Raises
    ------
    ValueError, TypeError
        If any of them is not plainly of the form: they are then read one by one.
    """
    if form.scale is not None:
        return np.array(values).astype(float) * form.scale
    texts = _without_utc(values)
    # numpy knows no offsets; such times are read one by one
    if any("+" in text or text.endswith("Z") or text.count("-") > _DASHES for text in texts):
        raise ValueError(_OFFSETS)
    return seconds_of_texts(np.array(texts))


def seconds_of_texts(texts: NDArray[np.str_] | NDArray[np.bytes_]) -> Floats:
    """Return ISO times without an offset.

    Raises
    ------
    ValueError
        If numpy does not read every one as a time, or reads one with a warning.
    """
    if not _have_plain_years(texts):
        raise ValueError(_OFFSETS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what it takes for a time zone, and then leaves out
        try:
            moments = texts.astype("datetime64[ns]")
        except Warning as warning:
            raise ValueError(_OFFSETS) from warning
    if np.isnat(moments).any():
        raise ValueError(_OFFSETS)
    return moments.astype(np.int64) / _NS_PER_S


def _have_plain_years(texts: NDArray[np.str_] | NDArray[np.bytes_]) -> bool:
    """Whether all begin with four digits of a year that nanoseconds hold, and a dash."""
    begins = np.ascontiguousarray(texts.astype("S5")).view(np.uint8).reshape(-1, 5)
    digits, dashes = begins[:, :4].astype(np.int32) - ord("0"), begins[:, 4]
    years = digits @ (1000, 100, 10, 1)
    first, last = _YEARS_OF_NS
    are_digits = ((digits >= 0) & (digits <= 9)).all()
    return bool(are_digits and ((years >= first) & (years <= last) & (dashes == ord("-"))).all())


def _without_utc(values: Sequence[Any]) -> Sequence[Any]:
    """Cut a suffix for UTC that all values have."""
    for suffix in (_UTC_SUFFIX, "Z"):
        if all(value.endswith(suffix) for value in values):
            return [value[: -len(suffix)] for value in values]
    return values
