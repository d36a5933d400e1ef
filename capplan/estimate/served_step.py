"""Step times as traffic meets them: lengths that vary, prompts of which a part is cached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.length_distributions import spread_tokens
from capplan.estimate.steptime import StepTime, VerificationExtra
from capplan.estimate.traffic import further_context_tokens
from capplan.schema.lengths import Lengths
from capplan.schema.workload import Workload

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ServedStep:
    """A step time where requests differ in length and prompts begin with cached text.

    Attributes
    ----------
    step
        For requests that are all alike and share nothing.
    further_context
        Tokens by which the mean context of a step exceeds prompt + half the output
        (:func:`~capplan.estimate.traffic.further_context_tokens`).
    prompt_lengths
        Of which the prompt's work is averaged; None where all are of mean length. Attention grows
        with the square of the length, so a few long prompts cost more than their mean.
    cached_share
        Share of a prompt, from its beginning, whose KV is still held. What is left to compute is
        the whole prompt's work less that of its cached beginning: each token that is computed
        still attends to all before it.
    """

    step: StepTime
    further_context: float = 0.0
    prompt_lengths: Lengths | None = None
    cached_share: float = 0.0

    @property
    def relative_se(self) -> float | Floats:
        """That of the step."""
        return self.step.relative_se

    def seconds(self, batch: ArrayLike, tokens: ArrayLike, context: ArrayLike) -> Floats:
        """Return the time of a pass at the context that steps really meet."""
        return self.step.seconds(batch, tokens, self._met(context))

    def extra(self, batch: ArrayLike, tokens: ArrayLike, context: ArrayLike) -> VerificationExtra:
        """Return what further tokens add, at the same context."""
        return self.step.extra(batch, tokens, self._met(context))

    def prompt_seconds(self, prompt_tokens: float) -> Floats:
        """Return the mean time of a prompt by itself."""
        return self._missed(self.step.prompt_seconds, prompt_tokens)

    def interference_seconds(self, prompt_tokens: float) -> Floats:
        """Return what a prompt adds, on average, to the steps of others."""
        return self._missed(self.step.interference_seconds, prompt_tokens)

    def _met(self, context: ArrayLike) -> Floats:
        result: Floats = np.asarray(context, dtype=float) + self.further_context
        return result

    def _missed(self, work: Callable[[float], Floats], prompt_tokens: float) -> Floats:
        lengths = self._lengths(prompt_tokens)
        parts = [work(n) for n in lengths]
        if self.cached_share:
            cached = [work(n * self.cached_share) for n in lengths]
            parts = [whole - known for whole, known in zip(parts, cached, strict=True)]
        result: Floats = sum(parts[1:], start=parts[0]) / len(parts)
        return result

    def _lengths(self, prompt_tokens: float) -> tuple[float, ...]:
        if self.prompt_lengths is None:
            return (prompt_tokens,)
        # a caller may ask for another mean length: the spread about it stays in proportion
        factor = prompt_tokens / self.prompt_lengths.mean_tokens
        return tuple(n * factor for n in spread_tokens(self.prompt_lengths))


def served(step: StepTime, workload: Workload) -> StepTime:
    """Return the step time under a workload; the very same where its requests are all alike."""
    further = further_context_tokens(workload)
    plain = workload.prompt_lengths is None and not further
    if plain and not workload.prefix_cache_hit_rate:
        return step
    return ServedStep(step, further, workload.prompt_lengths, workload.prefix_cache_hit_rate)
