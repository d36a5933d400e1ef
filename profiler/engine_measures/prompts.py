"""The prompts of an engine's run, cut for what is measured with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from profiler.engine import Served, ServedLoad, TokenIds

SLICES = 2
"""Parts that the prompts are written in, plain and speculative text in turn."""
STRIDE_TOKENS = 97
"""Where in the shipped text the prompt of each further request begins."""


@dataclass(frozen=True)
class EnginePrompts:
    """Prompts as token ids, by task."""

    by_task: Mapping[str, Sequence[TokenIds]]
    sha256: str
    most_at_once: int
    """Requests that may be served at once while text is written."""

    @property
    def at_once(self) -> int:
        """Requests at once while text is written."""
        return min(self.most_at_once, min(map(len, self.parts())))

    def parts(self) -> list[list[TokenIds]]:
        """Return all prompts, tasks mixed, in equal parts."""
        everything = [ids for prompts in self.by_task.values() for ids in prompts]
        count = SLICES if len(everything) >= SLICES * self.most_at_once else 1
        return [everything[start::count] for start in range(count)]

    def of_task(self, served: Sequence[ServedLoad]) -> dict[str, list[Served]]:
        """Return the requests of each task."""
        finished = {one.generation.prompt_ids: one for load in served for one in load.requests}
        return {
            task: [finished[ids] for ids in prompts if ids in finished]
            for task, prompts in self.by_task.items()
        }

    def of_length(self, count: int, tokens: int, period: int | None = None) -> list[TokenIds]:
        """Return prompts of one length, cut from the real ones put end to end.

        Parameters
        ----------
        count, tokens
            How many prompts, and their length.
        period
            Length of a passage that each prompt repeats; None repeats nothing.
        """
        text = [token for prompts in self.by_task.values() for ids in prompts for token in ids]
        made = []
        for number in range(count):
            start = number * STRIDE_TOKENS % len(text)
            turned = text[start:] + text[:start]
            passage = turned[:period] if period else turned
            made.append(tuple(islice(cycle(passage), tokens)))
        return made
