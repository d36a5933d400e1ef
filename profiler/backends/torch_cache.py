"""A key-value cache of fixed capacity that can be rewound for nothing.

transformers' own caches either grow by concatenation (a copy of the whole context at every
token) or count their length on the device. Here the length is a plain integer: rejected drafts
are dropped by setting it back, and a timed pass overwrites its own slots again and again, so
that every repetition does the same work and a CUDA graph needs no bookkeeping.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class SlotLayer(CacheLayerMixin):
    """Keys and values of one layer in buffers allocated once.

    Parameters
    ----------
    capacity
        Most tokens a sequence may hold.
    prefilled
        Tokens that count as present from the start; their keys and values are random numbers,
        which cost as much to read as real ones.
    """

    is_sliding = False
    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, capacity: int, prefilled: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # transformers' base is untyped
        self.capacity = capacity
        self.prefilled = prefilled
        self.length = prefilled

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate the buffers in the shape, type and place of the first states."""
        self.keys = self._buffer(key_states)
        self.values = self._buffer(value_states)
        self.is_initialized = True

    def _buffer(self, states: torch.Tensor) -> torch.Tensor:
        batch, heads, _, width = states.shape
        buffer = states.new_empty((batch, heads, self.capacity, width))
        buffer[:, :, : self.prefilled].normal_()
        return buffer

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new states behind the present ones and return views of all of them."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[-2]
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def select(self, rows: torch.Tensor) -> None:
        """Keep these sequences only."""
        if self.is_initialized:
            self.keys = self.keys.index_select(0, rows)
            self.values = self.values.index_select(0, rows)

    def get_seq_length(self, *_args: Any) -> int:
        """Return the tokens present."""
        return self.length

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        """Return the keys a pass sees and the offset of the first."""
        # transformers before 5.3 hands the positions of the queries instead of their number.
        new = query_length if isinstance(query_length, int) else query_length.shape[0]
        return self.length + new, 0

    def get_max_length(self) -> int:
        """Return the capacity (transformers from 5.20)."""
        return self.capacity

    def get_max_cache_shape(self) -> int:
        """Return the capacity (earlier transformers)."""
        return self.capacity


class SlotCache(Cache):
    """The layers of one model, rewound together."""

    def __init__(self, layers: int, capacity: int, prefilled: int = 0) -> None:
        self._slots = [SlotLayer(capacity, prefilled) for _ in range(layers)]
        super().__init__(layers=list(self._slots))

    @property
    def length(self) -> int:
        """Tokens present in each sequence."""
        return self._slots[0].length

    def rewind(self, length: int) -> None:
        """Forget everything behind the first ``length`` tokens."""
        for layer in self._slots:
            layer.length = length

    def select(self, rows: torch.Tensor) -> None:
        """Keep these sequences only."""
        for layer in self._slots:
            layer.select(rows)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token of one sequence takes, all layers."""
        return sum(_token_bytes(layer.keys) + _token_bytes(layer.values) for layer in self._slots)


def _token_bytes(buffer: torch.Tensor) -> int:
    return buffer.shape[1] * buffer.shape[3] * buffer.element_size()
