"""Sizes beyond any LLM are refused before anything is counted with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from capplan.errors import FactsError

_SIZE = re.compile(
    r"hidden|intermediate|vocab|head|size|expert|rank|position|window|dim|width|kernel|ffn|inner"
)
_LAYERS = re.compile(r"layers?$")
_MOST_LAYERS = 2_000
_LARGEST_SIZE = 10**9
_DEEPEST = 4
"""Objects inside objects that are looked into; real configurations nest three deep."""


def check_sizes(config: Mapping[str, object], where: str) -> None:
    """Refuse a configuration whose numbers no LLM can have.

    Raises
    ------
    FactsError
        If a number of layers or a size is absurd; the message names the field.
    """
    for name, value in _numbers(config, 0):
        limit = _MOST_LAYERS if _LAYERS.search(name) else _LARGEST_SIZE
        # written so that a NaN is refused too
        if not value <= limit:
            raise FactsError(
                f"{where}: {name} is {value:.3g}, expected at most {limit:,}.",
                "Correct the field in config.json, or take the file from the checkpoint's own "
                "repository.",
            )


def _numbers(config: Mapping[str, object], depth: int) -> Iterator[tuple[str, float]]:
    for key, value in config.items():
        name = str(key)
        if isinstance(value, Mapping) and depth < _DEEPEST:
            yield from _numbers(value, depth + 1)
        elif _is_number(value) and (_LAYERS.search(name) or _SIZE.search(name)):
            yield name, _as_float(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")
