"""Numbers of parameters that carry how they came about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sum:
    """A number of parameters and the sum behind it, written in numbers."""

    value: int = 0
    text: str = ""

    def __add__(self, other: Sum) -> Sum:
        """Add two; nothing is not written."""
        if not self.value or not other.value:
            return other if not self.value else self
        return Sum(self.value + other.value, f"{self.text} + {other.text}")

    def times(self, count: int) -> Sum:
        """Return so many of it."""
        if count == 1 or not self.value:
            return self
        if not count:
            return Sum()
        inner = f"({self.text})" if " " in self.text else self.text
        return Sum(self.value * count, f"{count} x {inner}")

    def when(self, present: bool) -> Sum:
        """Return itself, or nothing."""
        return self if present else Sum()


def size(*dims: int) -> Sum:
    """Return a matrix or vector of this shape: ``4096 x 1024``."""
    return Sum(math.prod(dims), " x ".join(map(str, dims)))


def add(sums: Iterable[Sum]) -> Sum:
    """Add up, with equal terms written once and counted."""
    total = Sum()
    for one, count in Counter(sums).items():
        total = total + one.times(count)
    return total
