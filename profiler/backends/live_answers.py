"""Figures out of a server's JSON: what is no token and no finite number is left out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MOST_TOKEN_ID = 2**31


def reported(logprobs: Any) -> tuple[float, ...]:
    """Return the log-probability that came with each token, in either way of asking."""
    if not isinstance(logprobs, Mapping):
        return ()
    values = logprobs.get("token_logprobs")
    if not isinstance(values, list):
        rows = logprobs.get("content")
        rows = rows if isinstance(rows, list) else []
        values = [row.get("logprob") for row in rows if isinstance(row, Mapping)]
    known = [value for value in map(_finite, values) if value is not None]
    return tuple(known) if len(known) == len(values) else ()


def choice(document: Any) -> Mapping[str, Any]:
    """Return the first choice of an answer; an empty one where there is none."""
    choices = document.get("choices") if isinstance(document, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


def ids(values: Any) -> tuple[int, ...]:
    """Return token ids; none where one of them is no token."""
    if not isinstance(values, list) or not all(map(_is_token, values)):
        return ()
    return tuple(values)


def _is_token(value: Any) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and 0 <= value < MOST_TOKEN_ID


def _finite(value: Any) -> float | None:
    """Return a number as one; None for what is none, and for what no double holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def log_probs(row: Any) -> dict[int, float]:
    """Return the log-probabilities listed at one place of a prompt, by token."""
    if not isinstance(row, Mapping):
        return {}
    found: dict[int, float] = {}
    for token, rated_as in row.items():
        value = _finite(rated_as.get("logprob")) if isinstance(rated_as, Mapping) else None
        name = str(token)
        if value is not None and name.isascii() and name.isdigit() and len(name) < 11:
            found[int(name)] = value
    return found
