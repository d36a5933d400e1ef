"""Speculative decoding of three levels: small draft, middle LLM, target.

What the small draft proposes and the middle LLM keeps is proposed to the target. The middle LLM
speculates as a target does (:mod:`profiler.backends.speculative`), and speculation is lossless, so
the tokens that it hands up are its own choice or draws from its own distribution: the target meets
them as it would meet the middle LLM alone. Both levels accept by the same function, hence the text
is the target's, token by token at temperature 0 and in distribution above.

For measuring how levels compose; no engine that capplan writes launch text for runs it (vLLM takes
one draft). Method: TriForce, arXiv:2404.11912, and Cascade Speculative Drafting, arXiv:2312.11462.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from capplan.schema.cells import DraftSampling
from profiler.backends.speculative import (
    Drafter,
    ModelDrafter,
    NoDrafter,
    Proposal,
    RoundCounts,
    accept,
    next_uniforms,
)
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_sampling import distribution
from profiler.protocol import SamplingPoint

_MIDDLE_SEED_STEP = 1_000_003
"""The middle LLM draws from a stream of its own; the target and the small draft take a request's
seed and the next one."""


@dataclass
class PassMeter:
    """Forward passes of one LLM since it was last reset."""

    passes: int = 0
    seconds: float = 0.0

    def reset(self) -> None:
        """Forget everything."""
        self.passes, self.seconds = 0, 0.0


@dataclass(frozen=True)
class MeteredLlm(TorchLlm):
    """An LLM that counts and times its forward passes."""

    meter: PassMeter = field(default_factory=PassMeter)
    clock_s: Callable[[], float] = time.perf_counter

    @classmethod
    def of(cls, llm: TorchLlm, clock_s: Callable[[], float] = time.perf_counter) -> MeteredLlm:
        """Return the same LLM with a meter of its own."""
        own = PassMeter()
        return cls(llm.name, llm.model, llm.device, llm.dtype, llm.tokenizer, own, clock_s)

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Run a pass, timed to its end on the device."""
        start = self.clock_s()
        logits = super().forward(*args, **kwargs)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.meter.seconds += self.clock_s() - start
        self.meter.passes += 1
        return logits


class VerifiedDrafter:
    """A middle LLM that drafts for a target by speculating itself.

    Parameters
    ----------
    middle
        Verifies what ``inner`` proposes; its tokens are the proposal.
    inner
        Drafts for the middle LLM: a smaller LLM, or a lookup.
    inner_num_speculative_tokens
        Drafts a round of the pair, at least 1.
    sampling, mode
        Of the request; greedy drafts are the middle LLM's likeliest tokens whatever the
        temperature, probabilistic ones are drawn from its distribution.
    """

    def __init__(
        self,
        middle: TorchLlm,
        inner: Drafter,
        inner_num_speculative_tokens: int,
        sampling: SamplingPoint,
        mode: DraftSampling,
    ) -> None:
        self._middle, self._inner = middle, inner
        self._n = inner_num_speculative_tokens
        self._samples = mode is DraftSampling.PROBABILISTIC and sampling.temperature > 0
        self._sampling = sampling if self._samples else replace(sampling, temperature=0.0)
        self._source = torch.Generator().manual_seed(sampling.seed + _MIDDLE_SEED_STEP)
        self._cache = middle.new_cache(0)
        self.counts = RoundCounts()
        self.emitted = 0
        """Tokens that the pair's rounds wrote; all are proposed."""

    def start(self, text: Sequence[int], capacity: int) -> None:
        """Prefill the caches of the pair."""
        self._cache = self._middle.new_cache(capacity)
        self._middle.forward(self._middle.tensor([text[:-1]]), self._cache, 1)
        self._inner.start(text, capacity)

    def propose(self, text: Sequence[int], count: int) -> Proposal:
        """Write ``count`` tokens by rounds of the pair."""
        # Of the tokens proposed before, those that the target kept are still cached.
        self._cache.rewind(min(self._cache.length, len(text) - 1))
        written, rows = list(text), []
        end = len(text) + count
        while len(written) < end:
            rows += self._round(written, end - len(written))
        tokens = written[len(text) :]
        # At temperature 0 each token was certain, which is what no distribution says.
        return Proposal(tokens, torch.stack(rows) if self._samples else None)

    def _round(self, written: list[int], wanted: int) -> list[torch.Tensor]:
        """Add the tokens of one round and return the distribution each was drawn from.

        No more is drafted than can be used: a round writes one token beyond its drafts.
        """
        proposal = self._inner.propose(written, min(self._n, wanted - 1))
        drafted = len(proposal.tokens)
        pending = [*written[self._cache.length :], *proposal.tokens]
        logits = self._middle.forward(self._middle.tensor([pending]), self._cache, drafted + 1)[0]
        probs = distribution(logits, self._sampling)
        accepted, token = accept(probs, proposal, next_uniforms(self._source, drafted + 1))
        written += [*proposal.tokens[:accepted], token]
        self._cache.rewind(len(written) - 1)
        self.counts.rounds += 1
        self.counts.drafted += drafted
        self.counts.accepted_lengths.append(accepted)
        self.emitted += accepted + 1
        return list(probs[: accepted + 1])


@dataclass(frozen=True)
class Levels:
    """LLMs from the one that decides the text down to the smallest, and drafts a round of each.

    Attributes
    ----------
    llms
        One to three: alone, with a draft, or with a draft that is drafted for.
    lengths
        N of each level above the smallest, the target's first; one fewer than LLMs.
    """

    llms: tuple[TorchLlm, ...]
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.llms) <= 3 or len(self.lengths) != len(self.llms) - 1:
            msg = f"{len(self.llms)} LLMs with {len(self.lengths)} lengths; expected 1 to 3, N+1"
            raise ValueError(msg)

    @property
    def num_speculative_tokens(self) -> int:
        """N of the outermost level; 0 without a draft."""
        return self.lengths[0] if self.lengths else 0

    def drafter(self, sampling: SamplingPoint, mode: DraftSampling) -> Drafter:
        """Return who proposes to the first LLM, for one request."""
        if len(self.llms) == 1:
            return NoDrafter()
        smallest = ModelDrafter(self.llms[-1], sampling, mode)
        if len(self.llms) == 2:
            return smallest
        return VerifiedDrafter(self.llms[1], smallest, self.lengths[1], sampling, mode)
