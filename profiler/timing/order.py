"""The order of a sweep: mixed, so that a slow drift does not look like an effect of the grid."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def shuffled(items: Iterable[Item], seed: int) -> list[Item]:
    """Return the items in an order that depends on the seed alone."""
    mixed = list(items)
    random.Random(seed).shuffle(mixed)
    return mixed


def with_sentinel(items: Sequence[Item], sentinel: Item) -> list[Item]:
    """Put the sentinel at the start, in the middle and at the end.

    >>> with_sentinel(["a", "b"], "S")
    ['S', 'a', 'S', 'b', 'S']
    """
    middle = len(items) // 2
    return [sentinel, *items[:middle], sentinel, *items[middle:], sentinel]


def merged(*queues: Sequence[Item]) -> list[Item]:
    """Merge queues so that after any time each has had its share; each keeps its own order.

    >>> merged(["a1", "a2", "a3", "a4"], ["b1", "b2"])
    ['a1', 'b1', 'a2', 'a3', 'b2', 'a4']
    """
    placed = [
        ((rank + 0.5) / len(queue), number, item)
        for number, queue in enumerate(queues)
        for rank, item in enumerate(queue)
    ]
    placed.sort(key=lambda entry: entry[:2])
    return [item for _, _, item in placed]
