"""One loaded causal LLM and its forward pass."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from capplan.errors import DeviceError
from profiler.backends.torch_cache import SlotCache


@dataclass(frozen=True)
class TorchLlm:
    """A transformers causal LLM on its device."""

    name: str
    model: Any
    device: torch.device
    dtype: torch.dtype
    tokenizer: Any | None = None

    @property
    def text_config(self) -> Any:
        """The configuration of the language part (multimodal checkpoints nest it)."""
        return self.model.config.get_text_config()

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return int(self.text_config.vocab_size)

    @cached_property
    def _cache_keyword(self) -> str:
        # transformers 5.24 renamed ``past_key_values`` and warns about the old name.
        accepted = inspect.signature(self.model.forward).parameters
        return "cache" if "cache" in accepted else "past_key_values"

    @cached_property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a text."""
        found: set[int | None] = set()
        for holder in (self.model.generation_config, self.text_config, self.tokenizer):
            value = getattr(holder, "eos_token_id", None)
            found.update(value if isinstance(value, list) else [value])
        return frozenset(token for token in found if token is not None)

    def new_cache(self, capacity: int, prefilled: int = 0) -> SlotCache:
        """Return an empty cache for ``capacity`` tokens a sequence."""
        return SlotCache(self.text_config.num_hidden_layers, capacity, prefilled)

    def forward(
        self,
        ids: torch.Tensor,
        cache: SlotCache,
        keep: int,
        mask: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Run new tokens behind the cached ones and return the last ``keep`` logits of each row.

        ``mask`` marks the real tokens among cached and new ones; None where nothing is padded.
        """
        if positions is None:
            start, end = cache.length, cache.length + ids.shape[1]
            positions = torch.arange(start, end, device=self.device).expand(ids.shape[0], -1)
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=keep,
            **{self._cache_keyword: cache},
        )
        logits: torch.Tensor = output.logits
        return logits

    def tensor(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return token ids of equal length on the device."""
        return torch.tensor(rows, dtype=torch.long, device=self.device)


@contextmanager
def memory_errors(what: str) -> Iterator[None]:
    """Turn an allocation that failed into a :class:`DeviceError` that names ``what``."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise _too_small(what) from error
    except RuntimeError as error:
        # The CPU allocator raises a plain RuntimeError and says so in words only.
        if "allocate memory" in str(error) or "not enough memory" in str(error):
            raise _too_small(what) from error
        raise


def _too_small(what: str) -> DeviceError:
    return DeviceError(
        f"Not enough memory for {what}.",
        "Use a smaller batch or context, a smaller LLM, or a device with more memory.",
    )
