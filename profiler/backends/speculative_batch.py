"""The reference speculative decoder for many requests side by side.

Each request draws its own random numbers in the order of :mod:`profiler.backends.speculative`
and is settled by the same function, so that its text is the one that it gets alone, but for ties
in low precision. Layers must see the whole context: sliding windows are not served.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch

from capplan.schema.cells import DraftSampling
from capplan.schema.measured_setup import NgramDraft
from profiler.backends.speculative import (
    Decoding,
    LookupDrafter,
    NoDrafter,
    Proposal,
    next_uniforms,
    settle,
)
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_ragged import RaggedCache, forward_ragged
from profiler.backends.torch_sampling import distribution, draw
from profiler.protocol import SamplingPoint

PASS_COST_TOKENS = 12
"""A pass over one token costs about as much as adding this many to another pass (SmolLM2-135M on
a CPU core: 64 ms, and 5.4 ms a token beyond): with more padding than that, two passes are made."""


class BatchDrafter(Protocol):
    """Proposes what may come next, for some of the requests at a time."""

    def start(self, texts: Sequence[Sequence[int]], capacity: int) -> None:
        """Begin the requests whose texts so far are given."""

    def propose(
        self, rows: Sequence[int], texts: Sequence[Sequence[int]], count: int
    ) -> list[Proposal]:
        """Propose up to ``count`` tokens to follow each text of the requests ``rows``."""


class BatchLookupDrafter:
    """Prompt lookup a request."""

    def __init__(self, draft: NgramDraft) -> None:
        self._draft = draft
        self._drafters: list[LookupDrafter] = []

    def start(self, texts: Sequence[Sequence[int]], capacity: int) -> None:
        """Index the prompts."""
        self._drafters = [LookupDrafter(self._draft) for _ in texts]
        for drafter, text in zip(self._drafters, texts, strict=True):
            drafter.start(text, capacity)

    def propose(
        self, rows: Sequence[int], texts: Sequence[Sequence[int]], count: int
    ) -> list[Proposal]:
        """Propose what followed the same n-gram."""
        pairs = zip(rows, texts, strict=True)
        return [self._drafters[row].propose(text, count) for row, text in pairs]


class BatchModelDrafter:
    """A smaller LLM drafts token by token, one pass for all requests."""

    def __init__(
        self, llm: TorchLlm, sampling: SamplingPoint, seeds: Sequence[int], mode: DraftSampling
    ) -> None:
        self._llm = llm
        self._sampling = sampling
        self._samples = mode is DraftSampling.PROBABILISTIC and sampling.temperature > 0
        self._sources = [torch.Generator().manual_seed(seed + 1) for seed in seeds]
        self._cache = RaggedCache.of(llm, 0, 0)

    def start(self, texts: Sequence[Sequence[int]], capacity: int) -> None:
        """Prefill the draft's own cache."""
        self._cache = RaggedCache.of(self._llm, len(texts), capacity)
        _prefill(self._llm, self._cache, [text[:-1] for text in texts])

    def propose(
        self, rows: Sequence[int], texts: Sequence[Sequence[int]], count: int
    ) -> list[Proposal]:
        """Draft ``count`` tokens a request, catching up on what the draft has not read yet."""
        pending = []
        for row, text in zip(rows, texts, strict=True):
            # Its own drafts that were accepted are still cached; the rest is overwritten.
            self._cache.lengths[row] = min(self._cache.lengths[row], len(text) - 1)
            pending.append(list(text[self._cache.lengths[row] :]))
        tokens, probs = [], []
        for _ in range(count):
            logits = forward_ragged(self._llm, self._cache, rows, pending, 1)[:, -1]
            if self._samples:
                probs.append(distribution(logits, self._sampling))
                numbers = torch.cat([next_uniforms(self._sources[row], 1) for row in rows])
                tokens.append(draw(probs[-1], numbers))
            else:
                tokens.append(logits.argmax(-1))
            pending = [[token] for token in tokens[-1].tolist()]
        drafted = torch.stack(tokens, 1).tolist()
        if not self._samples:
            return [Proposal(row) for row in drafted]
        return [Proposal(row, q) for row, q in zip(drafted, torch.stack(probs, 1), strict=True)]


@torch.inference_mode()
def decode_batch(
    target: TorchLlm,
    drafter: BatchDrafter,
    prompts: Sequence[Sequence[int]],
    sampling: SamplingPoint,
    seeds: Sequence[int],
    num_speculative_tokens: int,
) -> list[Decoding]:
    """Decode all prompts and return the finished requests.

    Parameters
    ----------
    sampling
        How text is sampled; its own seed is replaced by that of each request.
    seeds
        One a prompt.
    num_speculative_tokens
        Drafts a round, at least 1.
    """
    n = num_speculative_tokens
    capacity = max(map(len, prompts)) + sampling.max_tokens + n + 1
    cache = RaggedCache.of(target, len(prompts), capacity)
    logits = _prefill(target, cache, prompts)
    requests = []
    for prompt, seed, probs in zip(prompts, seeds, distribution(logits, sampling), strict=True):
        source = torch.Generator().manual_seed(seed)
        text = [*prompt, int(draw(probs, next_uniforms(source, 1)[0]))]
        own = replace(sampling, seed=seed)
        requests.append(Decoding(target, NoDrafter(), own, cache, text, len(prompt), source))
    drafter.start([one.text for one in requests], capacity)
    while live := [row for row, one in enumerate(requests) if not one.finished]:
        proposals = drafter.propose(live, [requests[row].text for row in live], n)
        _verify(target, cache, requests, dict(zip(live, proposals, strict=True)))
    return requests


def _verify(
    target: TorchLlm,
    cache: RaggedCache,
    requests: Sequence[Decoding],
    proposals: dict[int, Proposal],
) -> None:
    """Score the proposals of all live requests, and settle each."""
    tokens = {row: [requests[row].text[-1], *made.tokens] for row, made in proposals.items()}
    for rows in _passes(tokens):
        width = max(len(tokens[row]) for row in rows)
        logits = forward_ragged(target, cache, rows, [tokens[row] for row in rows], width)
        for row, probs in zip(rows, distribution(logits, requests[0].sampling), strict=True):
            known, own = len(requests[row].text), probs[width - len(tokens[row]) :]
            cache.lengths[row] = known + settle(requests[row], proposals[row], own)


def _prefill(llm: TorchLlm, cache: RaggedCache, texts: Sequence[Sequence[int]]) -> torch.Tensor:
    """Cache every text; return the logits after its last token, in the order of the texts."""
    tokens = {row: list(text) for row, text in enumerate(texts)}
    passes = _passes(tokens)
    logits = [forward_ragged(llm, cache, p, [tokens[row] for row in p], 1)[:, -1] for p in passes]
    order = torch.tensor([row for rows in passes for row in rows]).argsort()
    return torch.cat(logits)[order.to(llm.device)]


def _passes(tokens: dict[int, list[int]]) -> list[list[int]]:
    """Split requests into passes wherever padding would cost more than another pass."""
    passes: list[list[int]] = []
    padding = 0
    for row in sorted(tokens, key=lambda row: len(tokens[row])):
        if passes:
            # Rows come by length: one that is longer pads all that are in the pass already.
            grown = len(tokens[row]) - len(tokens[passes[-1][-1]])
            padding += grown * len(passes[-1])
        if not passes or padding > PASS_COST_TOKENS:
            passes.append([])
            padding = 0
        passes[-1].append(row)
    return passes
