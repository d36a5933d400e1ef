"""The acceptance trace: text the target wrote, scored once by target and draft.

Given that the target emitted ``x`` at a position, a draft token was accepted there with
probability ``min(1, draft_prob(x) / target_prob(x))`` if drafts are sampled, and with certainty
if and only if the draft's likeliest token is ``x`` if drafts are greedy; at temperature 0 both
say the same. From this one pass follow the accepted lengths at every number of draft tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from capplan.schema.cells import AcceptanceCell
from capplan.schema.measured_setup import NgramDraft
from profiler.backends.ngram import replay
from profiler.backends.torch_generate import left_pad
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_sampling import distribution
from profiler.protocol import Generation, SamplingPoint, Trace

LOGITS_BUDGET_BYTES = 256 * 2**20
"""Float32 logits held at once; the distributions made from them take a few times as much."""
MAX_BATCH = 16
MAX_PROPOSED: int = AcceptanceCell.model_fields["max_num_speculative_tokens"].default


def offsets_of(generations: Sequence[Generation]) -> NDArray[np.int64]:
    """Return where each request starts in the concatenated arrays, and the total."""
    lengths = [len(generation.generated_ids) for generation in generations]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def trace_lookup(generations: Sequence[Generation], draft: NgramDraft) -> Trace:
    """Replay the lookup at every position of every text."""
    counts = [
        replay(
            generation.prompt_ids,
            generation.generated_ids,
            draft.prompt_lookup_min,
            draft.prompt_lookup_max,
            MAX_PROPOSED,
        )
        for generation in generations
    ]
    arrays: dict[str, NDArray[np.float32] | NDArray[np.uint8]] = {
        "proposed": np.concatenate([proposed for proposed, _ in counts]),
        "accepted": np.concatenate([accepted for _, accepted in counts]),
    }
    return Trace("per_start", offsets_of(generations), arrays)


@torch.inference_mode()
def trace_draft_model(
    target: TorchLlm,
    draft: TorchLlm,
    generations: Sequence[Generation],
    sampling: SamplingPoint,
) -> Trace:
    """Score every generated token with both LLMs at the request's own sampling."""
    offsets = offsets_of(generations)
    greedy = np.zeros(offsets[-1], dtype=np.float32)
    probabilistic = np.zeros(offsets[-1], dtype=np.float32)
    confidence = np.zeros(offsets[-1], dtype=np.float32)
    by_length = sorted(range(len(generations)), key=lambda i: len(generations[i].generated_ids))
    for start in range(0, len(by_length), MAX_BATCH):
        members = by_length[start : start + MAX_BATCH]
        batch = [generations[index] for index in members]
        drafted, accept = _score(target, draft, batch, sampling)
        for row, index in enumerate(members):
            length = len(generations[index].generated_ids)
            place = slice(offsets[index], offsets[index + 1])
            greedy[place] = drafted.is_likeliest[row, -length:] if length else []
            probabilistic[place] = accept[row, -length:] if length else []
            confidence[place] = drafted.confidence[row, -length:] if length else []
    arrays: dict[str, NDArray[np.float32] | NDArray[np.uint8]] = {
        "accept_greedy": greedy,
        "accept_probabilistic": probabilistic,
        "draft_confidence": confidence,
    }
    return Trace("per_token", offsets, arrays)


@dataclass(frozen=True)
class _Emitted:
    """What one LLM says of the emitted tokens, right-aligned, a row a request."""

    probs: NDArray[np.float32]
    """At the request's own sampling."""
    is_likeliest: NDArray[np.float32]
    """1 where the token is the likeliest one."""
    confidence: NDArray[np.float32]
    """Probability of the likeliest token, whatever the sampling: at temperature 0 the request's
    own distribution is certain of everything."""


def _score(
    target: TorchLlm, draft: TorchLlm, batch: Sequence[Generation], sampling: SamplingPoint
) -> tuple[_Emitted, NDArray[np.float32]]:
    """Return what the draft says, and the probability that a sampled draft is accepted."""
    drafted = _emitted(draft, batch, sampling)
    if sampling.temperature == 0:
        return drafted, drafted.is_likeliest
    target_prob = _emitted(target, batch, sampling).probs
    # The target emitted these tokens, so its probability is 0 only where rounding made it so;
    # such a token is as good as certain to be accepted if the draft gives it any chance at all.
    smallest = np.finfo(np.float32).tiny
    return drafted, np.minimum(1.0, drafted.probs / np.maximum(target_prob, smallest))


def _emitted(llm: TorchLlm, batch: Sequence[Generation], sampling: SamplingPoint) -> _Emitted:
    """Score the emitted tokens of a batch."""
    probs, likeliest, confidence = [], [], []
    for logits, emitted in _teacher_forced(llm, batch):
        chosen = distribution(logits, sampling).gather(-1, emitted[..., None])
        probs.append(chosen.squeeze(-1))
        likeliest.append((logits.argmax(-1) == emitted).float())
        confidence.append((logits.amax(-1) - logits.logsumexp(-1)).exp().float())
    parts = (torch.cat(part, 1).cpu().numpy() for part in (probs, likeliest, confidence))
    return _Emitted(*parts)


def _teacher_forced(
    llm: TorchLlm, batch: Sequence[Generation]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield logits and the tokens that followed, window by window over the generated part."""
    # Left padding aligns the ends, so one window covers the generated part of every row.
    padded = left_pad(llm, [(*one.prompt_ids, *one.generated_ids) for one in batch])
    width = padded.ids.shape[1]
    longest = max(len(one.generated_ids) for one in batch)
    cache = llm.new_cache(width)
    window = max(1, LOGITS_BUDGET_BYTES // (4 * llm.vocab_size * len(batch)))
    # The last prompt token is the first one whose logits matter; everything before it only
    # fills the cache, and the very last token predicts nothing that was written.
    starts = [0, *range(width - longest - 1, width - 1, window)]
    for start, end in zip(starts, [*starts[1:], width - 1], strict=True):
        if start == end:
            continue
        mask = None if padded.mask is None else padded.mask[:, :end]
        scored = start >= width - longest - 1
        keep = end - start if scored else 1
        ids, positions = padded.ids[:, start:end], padded.positions[:, start:end]
        logits = llm.forward(ids, cache, keep, mask, positions)
        if scored:
            yield logits, padded.ids[:, start + 1 : end + 1]
