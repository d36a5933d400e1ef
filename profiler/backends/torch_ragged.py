"""A key-value cache whose requests have different lengths, and a pass over some of them.

In a batch that speculates every request keeps another number of drafts, so that lengths part
after the first round. The column of a token is its position: what a request rejected is forgotten
by setting back its own length, and no row waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache

from profiler.backends.torch_cache import SlotCache, SlotLayer
from profiler.backends.torch_generate import left_pad
from profiler.backends.torch_llm import TorchLlm


@dataclass(frozen=True)
class Place:
    """Where the tokens of one pass belong."""

    rows: torch.Tensor
    """Requests that take part, shape (batch,)."""
    columns: torch.Tensor
    """Column of each token, shape (batch, tokens); padding goes to the last column."""
    end: int
    """Columns that the pass reads."""


class RaggedLayer(SlotLayer):
    """Keys and values of one layer, a row a request."""

    place: Place

    def __init__(self, requests: int, capacity: int) -> None:
        super().__init__(capacity)
        self.requests = requests

    def _buffer(self, states: torch.Tensor) -> torch.Tensor:
        _, heads, _, width = states.shape
        # Zeros, because masked columns are read too; one column more takes the padding.
        return states.new_zeros((self.requests, heads, self.capacity + 1, width))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new states to their places and return what the rows of the pass hold."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        rows, columns, end = self.place.rows, self.place.columns, self.place.end
        self.keys[rows[:, None], :, columns] = key_states.transpose(1, 2)
        self.values[rows[:, None], :, columns] = value_states.transpose(1, 2)
        return self.keys[:, :, :end][rows], self.values[:, :, :end][rows]


class RaggedCache(SlotCache):
    """The layers of one model; ``lengths`` says how much each request holds."""

    def __init__(self, layers: int, requests: int, capacity: int) -> None:
        self.lengths = [0] * requests
        self.capacity = capacity
        self._ragged = [RaggedLayer(requests, capacity) for _ in range(layers)]
        Cache.__init__(self, layers=list(self._ragged))

    @classmethod
    def of(cls, llm: TorchLlm, requests: int, capacity: int) -> RaggedCache:
        """Return an empty cache for an LLM whose layers see the whole context."""
        return cls(llm.text_config.num_hidden_layers, requests, capacity)

    def put(self, place: Place) -> None:
        """Tell every layer where the next pass writes."""
        for layer in self._ragged:
            layer.place = place


def forward_ragged(
    llm: TorchLlm,
    cache: RaggedCache,
    rows: Sequence[int],
    tokens: Sequence[Sequence[int]],
    keep: int,
) -> torch.Tensor:
    """Run new tokens of some requests behind what each has cached.

    Returns
    -------
    Tensor
        Logits of the last ``keep`` tokens, shape (rows, keep, vocabulary), aligned at the right:
        a row with fewer tokens has padding on its left.
    """
    batch = left_pad(llm, tokens)
    lengths = [cache.lengths[row] for row in rows]
    positions = torch.tensor(lengths, device=llm.device)[:, None] + batch.positions
    columns = positions
    if batch.mask is not None:
        columns = positions.masked_fill(~batch.mask, cache.capacity)
    ends = [length + len(new) for length, new in zip(lengths, tokens, strict=True)]
    cache.put(Place(torch.tensor(rows, device=llm.device), columns, max(ends)))
    visible = torch.arange(max(ends), device=llm.device) <= positions[:, :, None]
    logits = llm.forward(batch.ids, cache, keep, visible[:, None], positions)
    for row, end in zip(rows, ends, strict=True):
        cache.lengths[row] = end
    return logits
