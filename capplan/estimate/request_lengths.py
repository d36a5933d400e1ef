"""Lengths of simulated requests, drawn from what a workload states.

Prompt and output of a request are drawn together: a Gaussian copula whose parameter makes
Pearson's correlation of the lengths the one that the workload states. Requests of several
services, and of parts of a mix that write different lengths, are drawn each from their own.
docs/method/serving-simulation.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.length_distributions import quantile_tokens
from capplan.estimate.traffic import output_distribution, prompt_distribution
from capplan.schema.lengths import FixedLength, Lengths, LognormalLength
from capplan.schema.workload import Workload

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TERMS = 64
"""Of the Hermite series: enough for a lognormal of sigma 4, the widest that is taken."""
_NODES = 4001
_REACH = 8.0
"""Standard deviations of a normal within which the series is summed up."""
_HALVINGS = 50
_STREAM = 5
"""Of the seed; 1 to 4 are those of observed lengths, arrivals, accepted drafts and kinds."""


@dataclass(frozen=True)
class RequestKind:
    """Requests that are alike in what their lengths are drawn from.

    Attributes
    ----------
    share
        Of the requests; only proportions count.
    correlation
        Pearson's, of the lengths themselves.
    """

    share: float
    prompts: Lengths
    outputs: Lengths
    correlation: float = 0.0


@dataclass(frozen=True)
class DrawnRequests:
    """Lengths of requests, >= 1 token each, and how many of them had to be cut."""

    prompt_tokens: Integers
    output_tokens: Integers
    cut: int = 0


def request_kinds(loads: Sequence[tuple[float, Workload]]) -> tuple[RequestKind, ...]:
    """Return what the requests of some loads are drawn from.

    Parameters
    ----------
    loads
        Requests a second, or any weight in proportion to them, and the workload. Where it knows
        output lengths only by the parts of its mix, each part is a kind.
    """
    return tuple(kind for weight, load in loads for kind in _kinds(weight, load))


def _kinds(weight: float, load: Workload) -> Iterator[RequestKind]:
    prompts, outputs = prompt_distribution(load), output_distribution(load)
    stated = [(part.share, part.output_tokens) for part in load.mix if part.output_tokens]
    if load.output_lengths is not None or not stated:
        yield RequestKind(weight, prompts, outputs, load.length_correlation)
        return
    total = sum(share for share, _ in stated)
    for share, tokens in stated:
        yield RequestKind(weight * share / total, prompts, FixedLength(tokens=tokens))


def draw_requests(
    kinds: Sequence[RequestKind], count: int, seed: int, longest: int | None = None
) -> DrawnRequests:
    """Draw the lengths of requests.

    Every sample is stratified: of so many requests one lies in each equal slice of probability,
    in random order. A run of a thousand thereby has the mean and the tail that are stated, which
    independent draws of heavy tails miss by several per cent.

    Parameters
    ----------
    kinds
        At least one.
    count
        Requests.
    seed
        The same seed gives the same requests.
    longest
        Tokens of prompt and output that the engine admits: longer ones are cut, the output first.
    """
    rng = np.random.default_rng([seed, _STREAM])
    shares = np.array([kind.share for kind in kinds])
    upto = np.cumsum(shares / shares.sum())[:-1]
    kind_of = np.searchsorted(upto, _slices(rng.permutation(count), rng), side="right")
    prompts, outputs = np.empty(count, np.int64), np.empty(count, np.int64)
    for place, kind in enumerate(kinds):
        chosen = np.flatnonzero(kind_of == place)
        prompts[chosen], outputs[chosen] = _pairs(kind, len(chosen), rng)
    return _within(prompts, outputs, longest)


def _pairs(kind: RequestKind, count: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    between = copula_correlation(kind.prompts, kind.outputs, kind.correlation)
    first = rng.standard_normal(count)
    apart = math.sqrt(max(1.0 - between**2, 0.0))
    second = between * first + apart * rng.standard_normal(count)
    return (
        _whole(quantile_tokens(kind.prompts, _slices(_ranks(first), rng))),
        _whole(quantile_tokens(kind.outputs, _slices(_ranks(second), rng))),
    )


def _ranks(values: Floats) -> Integers:
    result: Integers = np.argsort(np.argsort(values))
    return result


def _slices(ranks: Integers, rng: np.random.Generator) -> Floats:
    """Return a probability anywhere in each one's slice."""
    result: Floats = (ranks + rng.random(len(ranks))) / len(ranks) if len(ranks) else np.empty(0)
    return result


def _whole(tokens: Floats) -> Integers:
    return np.maximum(np.rint(tokens), 1.0).astype(np.int64)


def _within(prompts: Integers, outputs: Integers, longest: int | None) -> DrawnRequests:
    if longest is None:
        return DrawnRequests(prompts, outputs)
    cut = int((prompts + outputs > longest).sum())
    kept = np.clip(prompts, 1, max(longest - 1, 1))
    return DrawnRequests(kept, np.clip(outputs, 1, np.maximum(longest - kept, 1)), cut)


def copula_correlation(prompts: Lengths, outputs: Lengths, correlation: float) -> float:
    """Return the correlation of normals whose lengths correlate as stated.

    Lengths are rising functions of normals, ``f(X)`` and ``g(Y)``. With the coefficients ``a_k``
    and ``b_k`` of their normalised Hermite series (Mehler)::

        cov(f(X), g(Y)) = sum_k a_k b_k rho^k,    k >= 1

    which rises with ``rho``; the one that gives the stated correlation is found by halving. Where
    tails are long no ``rho`` reaches a correlation near 1, or far below 0: the nearest is taken.
    """
    if correlation == 0.0:
        return 0.0
    a, b = _hermite(prompts), _hermite(outputs)
    both = float(np.sqrt((a**2).sum() * (b**2).sum()))
    if both == 0.0:
        return 0.0
    terms, powers = a * b / both, np.arange(1, _TERMS + 1)
    low, high = -1.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if float((terms * middle**powers).sum()) < correlation:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def _hermite(lengths: Lengths) -> Floats:
    """Return the coefficients 1 .. ``_TERMS``; those of a lognormal are known exactly."""
    if isinstance(lengths, FixedLength):
        return np.zeros(_TERMS)
    if isinstance(lengths, LognormalLength):
        steps = lengths.sigma / np.sqrt(np.arange(1, _TERMS + 1))
        return np.asarray(lengths.mean_tokens * np.cumprod(steps))
    z = np.linspace(-_REACH, _REACH, _NODES)
    weights = np.exp(-(z**2) / 2.0)
    weights /= weights.sum()
    upto = np.cumsum(weights) - weights / 2.0
    values = quantile_tokens(lengths, upto) * weights
    before, this = np.zeros_like(z), np.ones_like(z)
    found = np.empty(_TERMS)
    for k in range(_TERMS):
        before, this = this, (z * this - math.sqrt(k) * before) / math.sqrt(k + 1.0)
        found[k] = float((values * this).sum())
    return found
