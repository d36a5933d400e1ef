"""A reference speculative decoder for one request at a time, made to be read.

Draft up to N tokens, let the target score them all in one pass, keep the longest accepted
prefix, add one token of the target's own, and set both caches back to what was kept. Plain
decoding is the same loop with a drafter that proposes nothing, so that the two differ in
nothing but speculation.

Method: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding",
arXiv 2211.17192, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from capplan.schema.cells import DraftSampling
from capplan.schema.measured_setup import NgramDraft
from profiler.backends.ngram import LookupIndex
from profiler.backends.torch_cache import SlotCache
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_sampling import distribution, draw
from profiler.protocol import SamplingPoint


@dataclass(frozen=True)
class Proposal:
    """Draft tokens, and the distribution each was drawn from: (tokens, vocabulary)."""

    tokens: list[int]
    draft_probs: torch.Tensor | None = None
    """None if each token was certain: greedy and looked-up drafts."""


class Drafter(Protocol):
    """Proposes what may come next."""

    def start(self, text: Sequence[int], capacity: int) -> None:
        """Begin a request whose text so far is given."""

    def propose(self, text: Sequence[int], count: int) -> Proposal:
        """Propose up to ``count`` tokens to follow the text, all of which is final."""


class NoDrafter:
    """Plain decoding."""

    def start(self, text: Sequence[int], capacity: int) -> None:
        """Nothing to prepare."""

    def propose(self, text: Sequence[int], count: int) -> Proposal:  # noqa: ARG002 - protocol
        """Propose nothing."""
        return Proposal([])


class LookupDrafter:
    """Prompt lookup (see :mod:`profiler.backends.ngram`)."""

    def __init__(self, draft: NgramDraft) -> None:
        self._draft = draft
        self._index = LookupIndex(draft.prompt_lookup_min, draft.prompt_lookup_max)
        self._seen = 0

    def start(self, text: Sequence[int], capacity: int) -> None:  # noqa: ARG002 - protocol
        """Index the prompt."""
        self._index = LookupIndex(self._draft.prompt_lookup_min, self._draft.prompt_lookup_max)
        self._index.extend(text)
        self._seen = len(text)

    def propose(self, text: Sequence[int], count: int) -> Proposal:
        """Propose what followed the same n-gram."""
        self._index.extend(text[self._seen :])
        self._seen = len(text)
        return Proposal(self._index.propose(count))


class ModelDrafter:
    """A smaller LLM drafts token by token."""

    def __init__(self, llm: TorchLlm, sampling: SamplingPoint, mode: DraftSampling) -> None:
        self._llm = llm
        self._sampling = sampling
        self._samples = mode is DraftSampling.PROBABILISTIC and sampling.temperature > 0
        self._source = torch.Generator().manual_seed(sampling.seed + 1)
        self._cache: SlotCache = llm.new_cache(0)

    def start(self, text: Sequence[int], capacity: int) -> None:
        """Prefill the draft's own cache."""
        self._cache = self._llm.new_cache(capacity)
        self._llm.forward(self._llm.tensor([text[:-1]]), self._cache, 1)

    def propose(self, text: Sequence[int], count: int) -> Proposal:
        """Draft ``count`` tokens, catching up on what it has not read yet."""
        # What it drafted itself and saw accepted is still in the cache; the rest is overwritten.
        self._cache.rewind(min(self._cache.length, len(text) - 1))
        pending, tokens, rows = list(text[self._cache.length :]), [], []
        for _ in range(count):
            logits = self._llm.forward(self._llm.tensor([pending]), self._cache, 1)[0, -1]
            if self._samples:
                rows.append(distribution(logits, self._sampling))
                token = draw(rows[-1], next_uniforms(self._source, 1)[0])
            else:
                token = logits.argmax(-1)
            tokens.append(int(token))
            pending = tokens[-1:]
        return Proposal(tokens, torch.stack(rows) if rows else None)


@dataclass
class RoundCounts:
    """What the rounds of one request did."""

    rounds: int = 0
    drafted: int = 0
    accepted_lengths: list[int] = field(default_factory=list)


@dataclass
class Decoding:
    """One request in progress: the prefill is done and its first token drawn."""

    target: TorchLlm
    drafter: Drafter
    sampling: SamplingPoint
    cache: SlotCache
    text: list[int]
    prompt_length: int
    source: torch.Generator
    counts: RoundCounts = field(default_factory=RoundCounts)

    @property
    def generated(self) -> list[int]:
        """The tokens written so far, end-of-text token included."""
        return self.text[self.prompt_length :]

    @property
    def finished(self) -> bool:
        """Whether the request wrote all it may, or ended its text."""
        length = len(self.text) - self.prompt_length
        return length >= self.sampling.max_tokens or self.text[-1] in self.target.eos_ids


@torch.inference_mode()
def begin(
    target: TorchLlm,
    drafter: Drafter,
    prompt: Sequence[int],
    sampling: SamplingPoint,
    num_speculative_tokens: int,
) -> Decoding:
    """Prefill target and drafter and draw the first token, which no round is counted for."""
    capacity = len(prompt) + sampling.max_tokens + num_speculative_tokens + 1
    cache = target.new_cache(capacity)
    source = torch.Generator().manual_seed(sampling.seed)
    logits = target.forward(target.tensor([prompt]), cache, 1)[0, -1]
    first = draw(distribution(logits, sampling), next_uniforms(source, 1)[0])
    text = [*prompt, int(first)]
    drafter.start(text, capacity)
    return Decoding(target, drafter, sampling, cache, text, len(prompt), source)


@torch.inference_mode()
def run_round(state: Decoding, num_speculative_tokens: int) -> None:
    """Draft, verify, accept or resample, roll back.

    Every round asks for the full number of drafts, near the end of the text too, and counts
    what was accepted before cutting the text at the end token or the limit: vLLM's counting.
    """
    known = len(state.text)
    proposal = state.drafter.propose(state.text, num_speculative_tokens)
    drafted = len(proposal.tokens)
    # The target has cached everything but the last token; one pass scores it and all drafts.
    passed = state.target.tensor([[state.text[-1], *proposal.tokens]])
    logits = state.target.forward(passed, state.cache, drafted + 1)
    accepted = settle(state, proposal, distribution(logits[0], state.sampling))
    state.cache.rewind(known + accepted)


def settle(state: Decoding, proposal: Proposal, target_probs: torch.Tensor) -> int:
    """Enter what the target made of a proposal, and return how many drafts were kept.

    ``target_probs`` has one row a draft and one more.
    """
    drafted = len(proposal.tokens)
    accepted, token = accept(target_probs, proposal, next_uniforms(state.source, drafted + 1))
    state.text.extend(_until_end(state, [*proposal.tokens[:accepted], token]))
    state.counts.rounds += 1
    state.counts.drafted += drafted
    state.counts.accepted_lengths.append(accepted)
    return accepted


def accept(
    target_probs: torch.Tensor, proposal: Proposal, uniforms: torch.Tensor
) -> tuple[int, int]:
    """Return how many drafts are kept and the token that follows them.

    ``target_probs`` has one row a draft and one more for the token after the last. Draft ``x`` is
    kept with probability ``min(1, target_prob(x) / draft_prob(x))``; the first one refused is
    replaced by a draw from ``max(0, target_prob - draft_prob)``, renormalised, which makes every
    token's distribution the target's own.
    """
    uniforms = uniforms.to(target_probs.device)
    drafted = len(proposal.tokens)
    if drafted == 0:
        return 0, int(draw(target_probs[0], uniforms[0]))
    tokens = torch.tensor(proposal.tokens, device=target_probs.device)[:, None]
    draft_probs = proposal.draft_probs
    if draft_probs is None:
        draft_probs = torch.zeros_like(target_probs[:-1]).scatter_(-1, tokens, 1.0)
    ratio = target_probs[:-1].gather(-1, tokens) / draft_probs.gather(-1, tokens)
    kept = uniforms[:-1] < ratio.squeeze(-1)
    accepted = int(kept.int().cumprod(0).sum())
    last = target_probs[accepted]
    if accepted < drafted:
        last = (last - draft_probs[accepted]).clamp(min=0)
    return accepted, int(draw(last, uniforms[-1]))


def decode(state: Decoding, num_speculative_tokens: int) -> list[int]:
    """Run rounds until the text is finished and return what was generated."""
    while not state.finished:
        run_round(state, num_speculative_tokens)
    return state.generated


def _until_end(state: Decoding, tokens: list[int]) -> list[int]:
    room = state.sampling.max_tokens - (len(state.text) - state.prompt_length)
    for place, token in enumerate(tokens[:room]):
        if token in state.target.eos_ids:
            return tokens[: place + 1]
    return tokens[:room]


def next_uniforms(source: torch.Generator, count: int) -> torch.Tensor:
    """Return the next random numbers of a request."""
    return torch.rand(count, generator=source, dtype=torch.float64)
