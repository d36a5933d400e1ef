"""The target writes: batched, left-padded, seeded a request at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from profiler.backends.torch_cache import SlotCache
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_sampling import choose
from profiler.protocol import Generation, SamplingPoint

COMPACT_BELOW = 0.75
"""Finished rows leave the batch once fewer than this share is still writing: every compaction
copies the cache, every finished row left inside costs its share of each later pass."""


@dataclass
class PaddedBatch:
    """Token rows aligned at their ends."""

    ids: torch.Tensor
    mask: torch.Tensor | None
    positions: torch.Tensor


def left_pad(llm: TorchLlm, rows: Sequence[Sequence[int]]) -> PaddedBatch:
    """Align rows at their last token; the mask is None where no row needs padding."""
    width = max(len(row) for row in rows)
    ids = llm.tensor([[0] * (width - len(row)) + list(row) for row in rows])
    lengths = torch.tensor([len(row) for row in rows], device=llm.device)
    columns = torch.arange(width, device=llm.device)
    positions = columns - (width - lengths)[:, None]
    padded = any(len(row) < width for row in rows)
    return PaddedBatch(ids, positions >= 0 if padded else None, positions.clamp(min=0))


def uniforms(sampling: SamplingPoint, requests: int) -> torch.Tensor:
    """Return the random numbers of every request: row by request, column by token."""
    source = torch.Generator().manual_seed(sampling.seed)
    shape = (requests, sampling.max_tokens)
    return torch.rand(shape, generator=source, dtype=torch.float64)


def generate(
    llm: TorchLlm,
    prompts: Sequence[tuple[int, ...]],
    sampling: SamplingPoint,
    max_batch: int,
) -> list[Generation]:
    """Return what the LLM writes after each prompt, in the order of the prompts.

    Rows of similar length share a batch, which saves padding; the random numbers belong to the
    request, so neither the order nor ``max_batch`` changes the text (but for ties in low
    precision). The end-of-text token is kept, as engines report it.
    """
    numbers = uniforms(sampling, len(prompts))
    by_length = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    texts: dict[int, list[int]] = {}
    for start in range(0, len(prompts), max_batch):
        members = by_length[start : start + max_batch]
        rows = [prompts[index] for index in members]
        written = _write(llm, rows, sampling, numbers[members])
        texts.update(zip(members, written, strict=True))
    return [Generation(prompt, tuple(texts[i])) for i, prompt in enumerate(prompts)]


@torch.inference_mode()
def _write(
    llm: TorchLlm,
    prompts: Sequence[Sequence[int]],
    sampling: SamplingPoint,
    numbers: torch.Tensor,
) -> list[list[int]]:
    batch = left_pad(llm, prompts)
    cache = llm.new_cache(batch.ids.shape[1] + sampling.max_tokens)
    logits = llm.forward(batch.ids, cache, 1, batch.mask, batch.positions)
    numbers = numbers.to(llm.device)
    rows = _Rows(len(prompts), batch, cache)
    for step in range(sampling.max_tokens):
        tokens = choose(logits[:, -1], sampling, numbers[rows.requests, step])
        rows.append(tokens, llm.eos_ids)
        if rows.all_finished or step + 1 == sampling.max_tokens:
            break
        tokens = rows.compact(tokens)
        logits = llm.forward(tokens[:, None], cache, 1, rows.grow_mask(), rows.grow_positions())
    return rows.texts


class _Rows:
    """The rows still in the batch and the texts of all requests."""

    def __init__(self, requests: int, batch: PaddedBatch, cache: SlotCache) -> None:
        self.requests = list(range(requests))
        self.texts: list[list[int]] = [[] for _ in range(requests)]
        self._finished: set[int] = set()
        self._mask = batch.mask
        self._positions = batch.positions[:, -1:]
        self._cache = cache

    @property
    def all_finished(self) -> bool:
        return len(self._finished) == len(self.texts)

    def append(self, tokens: torch.Tensor, eos_ids: frozenset[int]) -> None:
        for request, token in zip(self.requests, tokens.tolist(), strict=True):
            if request not in self._finished:
                self.texts[request].append(token)
                if token in eos_ids:
                    self._finished.add(request)

    def compact(self, tokens: torch.Tensor) -> torch.Tensor:
        """Drop finished rows where it pays, and return the tokens of the rows that stay."""
        kept = [row for row, request in enumerate(self.requests) if request not in self._finished]
        if len(kept) > COMPACT_BELOW * len(self.requests):
            return tokens
        index = torch.tensor(kept, device=tokens.device)
        self.requests = [self.requests[row] for row in kept]
        self._mask = None if self._mask is None else self._mask[index]
        self._positions = self._positions[index]
        self._cache.select(index)
        return tokens[index]

    def grow_mask(self) -> torch.Tensor | None:
        if self._mask is not None:
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=True)
        return self._mask

    def grow_positions(self) -> torch.Tensor:
        self._positions = self._positions + 1
        return self._positions
