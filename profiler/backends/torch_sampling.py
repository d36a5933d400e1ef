"""From logits to probabilities to a token, in one place for every stage.

Generation, the acceptance trace and the reference decoder must mean the same distribution by
"temperature 0.8, top-p 0.95", or their numbers cannot be compared.
"""

from __future__ import annotations

import torch

from profiler.protocol import SamplingPoint


def distribution(logits: torch.Tensor, sampling: SamplingPoint) -> torch.Tensor:
    """Return the float32 probabilities of the last axis that this sampling draws from.

    Temperature first, then top-k, then top-p of what top-k left, renormalised: vLLM's order.
    Temperature 0 puts everything on the likeliest token.
    """
    if sampling.temperature == 0:
        likeliest = logits.argmax(-1, keepdim=True)
        return torch.zeros_like(logits, dtype=torch.float32).scatter_(-1, likeliest, 1.0)
    scaled = logits.float() / sampling.temperature
    if 0 < sampling.top_k < scaled.shape[-1]:
        kth = scaled.topk(sampling.top_k, dim=-1).values[..., -1:]
        scaled = scaled.masked_fill(scaled < kth, float("-inf"))
    probs = scaled.softmax(-1)
    return _nucleus(probs, sampling.top_p) if sampling.top_p < 1 else probs


def _nucleus(probs: torch.Tensor, top_p: float) -> torch.Tensor:
    # A token stays while the likelier ones together have not reached top_p; the first always does.
    ordered, order = probs.sort(-1, descending=True)
    likelier = ordered.cumsum(-1) - ordered
    kept = torch.where(likelier < top_p, ordered, 0.0)
    return torch.zeros_like(probs).scatter_(-1, order, kept / kept.sum(-1, keepdim=True))


def draw(probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return one token a row by inverting the cumulative distribution at ``uniforms``.

    Unlike ``torch.multinomial`` the outcome of a row depends on its own uniform number alone, so
    a request's text does not change with the requests beside it in the batch. ``probs`` need not
    be normalised; a token of probability 0 is never drawn.
    """
    cumulative = probs.double().cumsum(-1)
    points = uniforms.to(cumulative).unsqueeze(-1) * cumulative[..., -1:]
    return torch.searchsorted(cumulative, points, right=True).squeeze(-1)


def choose(logits: torch.Tensor, sampling: SamplingPoint, uniforms: torch.Tensor) -> torch.Tensor:
    """Return one sampled token a row of logits."""
    if sampling.temperature == 0:
        return logits.argmax(-1)
    return draw(distribution(logits, sampling), uniforms)
