"""Timed passes of LLMs, and the ways to leave some of them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.schema.llm import LlmSpec

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class PassTimings:
    """Timed passes of one LLM on a number of GPUs; arrays of one length."""

    llm: LlmSpec
    tensor_parallel: int
    batch: Floats
    tokens: Floats
    context: Floats
    seconds: Floats

    def where(self, mask: Booleans) -> PassTimings:
        """Return the passes chosen."""
        return PassTimings(
            self.llm,
            self.tensor_parallel,
            self.batch[mask],
            self.tokens[mask],
            self.context[mask],
            self.seconds[mask],
        )

    def __len__(self) -> int:
        """Count the passes."""
        return len(self.seconds)


def chosen(timings: Sequence[PassTimings], masks: Sequence[Booleans]) -> list[PassTimings]:
    """Return what a mask of every LLM's passes keeps; LLMs without a pass left are gone."""
    kept = [t.where(mask) for t, mask in zip(timings, masks, strict=True)]
    return [t for t in kept if len(t)]


def splits(timings: Sequence[PassTimings], by_llm: bool) -> Iterable[tuple[str, list[Booleans]]]:
    """Return what is left out together: a name, and a mask for every LLM's passes."""
    if by_llm:
        for llm_id in dict.fromkeys(t.llm.id for t in timings):
            yield llm_id, [np.full(len(t), t.llm.id == llm_id) for t in timings]
        return
    for axis, word in (("batch", "batch"), ("context", "context"), ("tokens", "tokens a pass")):
        columns = [getattr(t, axis) for t in timings]
        values = np.unique(np.concatenate(columns))
        if len(values) < 2:
            continue
        for value in values:
            yield f"{word} {value:,.0f}", [column == value for column in columns]
