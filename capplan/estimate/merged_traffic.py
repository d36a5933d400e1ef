"""Several services served by the same replicas, as one workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from capplan.errors import RequestError
from capplan.estimate.length_distributions import quantile_tokens, variance_tokens2
from capplan.estimate.traffic import (
    mean_requests_per_s,
    output_distribution,
    peak_requests_per_s,
    prompt_distribution,
    requests_per_s_of_week,
)
from capplan.schema.arrival import Arrival
from capplan.schema.lengths import EmpiricalLength, FixedLength, Lengths
from capplan.schema.services import NamedWorkload, Services
from capplan.schema.workload import TrafficPart, Workload
from capplan.units import HOURS_PER_MONTH

Floats = NDArray[np.float64]

_POINTS = 2000
"""Equally likely lengths that stand for a service's distribution."""
_STEP = 1e-9
"""Width of a step between two lengths, in probability: quantiles must rise."""
PROBABILITIES = (*(round(i / 100, 2) for i in range(100)), 0.995, 0.999, 1.0)


def merged(services: Services, serving_hours: float = HOURS_PER_MONTH) -> Workload:
    """Return the traffic of all services together.

    Rates add up; lengths are the mixture by requests; a service's task, temperature and thinking
    become parts of the mix, with its own output length; the prefix cache's hit rate is the mean
    over prompt tokens. The peak is the busiest hour of the sum where every service's hours are
    known, plus what each one's busiest minutes exceed its own busiest hour by; peaks of services
    without a shape are taken to fall together, which is the safe side.

    Raises
    ------
    RequestError
        If a service has no rate, or the services plan for different utilisations.
    """
    named = services.services
    if len(named) == 1:
        return named[0].workload
    rates = [_rate(one, serving_hours) for one in named]
    loads = [one.workload for one in named]
    total = sum(rates)
    peak = _peak(loads, total, serving_hours)
    shares = [rate / total for rate in rates]
    prompts = _mixture(loads, shares, prompt_distribution)
    outputs = _mixture(loads, shares, output_distribution)
    prompt_tokens = _mean([load.prompt_tokens for load in loads], shares)
    cached = _mean([load.prompt_tokens * load.prefix_cache_hit_rate for load in loads], shares)
    return Workload(
        requests_per_s=total,
        utilisation=_one_utilisation(named),
        arrival=Arrival(peak_requests_per_s=peak) if peak > total else None,
        prompt_lengths=prompts,
        output_lengths=outputs,
        length_correlation=_correlation(loads, shares, prompts, outputs),
        mix=_parts(loads, shares),
        prefix_cache_hit_rate=cached / prompt_tokens,
    )


def _rate(one: NamedWorkload, serving_hours: float) -> float:
    rate = mean_requests_per_s(one.workload, serving_hours)
    if rate is None:
        raise RequestError(
            f"Service {one.name!r} has no rate, so its part of the fleet is not known.",
            "Give it requests_per_s or output_tokens_per_month.",
        )
    return rate


def _one_utilisation(named: Sequence[NamedWorkload]) -> float:
    found = {one.workload.utilisation for one in named}
    if len(found) > 1:
        raise RequestError(
            f"The services plan for utilisations of {', '.join(f'{u:g}' for u in sorted(found))}; "
            "replicas that serve them all have one.",
            "Give every service the same utilisation, or none.",
        )
    return found.pop()


def _mean(values: Sequence[float], shares: Sequence[float]) -> float:
    return sum(value * share for value, share in zip(values, shares, strict=True))


def _peak(loads: Sequence[Workload], total: float, serving_hours: float) -> float:
    """Return the peak of the sum."""
    weeks = [requests_per_s_of_week(load, serving_hours) for load in loads]
    peaks = [peak_requests_per_s(load, serving_hours) for load in loads]
    known = [week for week in weeks if week is not None]
    excess = sum(
        peak - float(week.max())
        for peak, week in zip(peaks, weeks, strict=True)
        if peak is not None and week is not None
    )
    return max(float(np.sum(known, axis=0).max()) + excess, total)


def _mixture(
    loads: Sequence[Workload],
    shares: Sequence[float],
    distribution: Callable[[Workload], Lengths],
) -> Lengths:
    """Return the lengths of all requests; one length if they are all alike."""
    parts = [distribution(load) for load in loads]
    fixed = [part.tokens for part in parts if isinstance(part, FixedLength)]
    if len(fixed) == len(parts):
        return _steps(fixed, shares)
    middles = (np.arange(_POINTS) + 0.5) / _POINTS
    # the ends are the shortest and longest length that a service states
    values = np.concatenate([quantile_tokens(part, middles) for part in parts])
    weights = np.repeat(np.asarray(shares) / _POINTS, _POINTS)
    order = np.argsort(values, kind="stable")
    at = np.cumsum(weights[order]) - weights[order] / 2.0
    # no request is shorter than a token, though a lognormal's tail goes there
    tokens = np.maximum(np.interp(PROBABILITIES, at, values[order]), 1.0)
    found = EmpiricalLength(probabilities=PROBABILITIES, tokens=tuple(map(float, tokens)))
    mean = _mean([part.mean_tokens for part in parts], shares)
    return _with_mean(found, mean)


def _steps(tokens: Sequence[float], shares: Sequence[float]) -> Lengths:
    """Return the distribution of a few lengths, each of which has its share."""
    if len(set(tokens)) == 1:
        return FixedLength(tokens=tokens[0])
    probabilities, values, upto = [0.0], [min(tokens)], 0.0
    ordered = sorted(zip(tokens, shares, strict=True))
    for (value, share), (following, _) in pairwise(ordered):
        upto += share
        if following > value:
            probabilities += [upto, upto + _STEP]
            values += [value, following]
    return EmpiricalLength(probabilities=(*probabilities, 1.0), tokens=(*values, ordered[-1][0]))


def _with_mean(lengths: EmpiricalLength, mean: float) -> EmpiricalLength:
    """Scale quantiles to the mean that is known exactly."""
    factor = mean / lengths.mean_tokens
    scaled = tuple(max(value * factor, 1.0) for value in lengths.tokens)
    return EmpiricalLength(probabilities=lengths.probabilities, tokens=scaled)


def _correlation(
    loads: Sequence[Workload], shares: Sequence[float], prompts: Lengths, outputs: Lengths
) -> float:
    """Return the correlation over all requests: within the services and between them."""
    both = float(np.sqrt(variance_tokens2(prompts) * variance_tokens2(outputs)))
    if both <= 0:
        return 0.0
    pairs = [(prompt_distribution(load), output_distribution(load)) for load in loads]
    means = [(p.mean_tokens, o.mean_tokens) for p, o in pairs]
    prompt, output = (_mean([pair[k] for pair in means], shares) for k in (0, 1))
    within = [
        load.length_correlation * float(np.sqrt(variance_tokens2(p) * variance_tokens2(o)))
        for load, (p, o) in zip(loads, pairs, strict=True)
    ]
    between = [(p - prompt) * (o - output) for p, o in means]
    covariance = _mean([a + b for a, b in zip(within, between, strict=True)], shares)
    return float(np.clip(covariance / both, -1.0, 1.0))


def _parts(loads: Sequence[Workload], shares: Sequence[float]) -> tuple[TrafficPart, ...]:
    """Return every part of every service, with its share of all requests."""
    parts: list[TrafficPart] = []
    for load, share in zip(loads, shares, strict=True):
        own = load.mix or (TrafficPart(share=1.0, task=load.task, temperature=load.temperature),)
        total = sum(part.share for part in own)
        parts.extend(
            part.model_copy(
                update={
                    "share": share * part.share / total,
                    "output_tokens": part.output_tokens or float(load.output_tokens),
                }
            )
            for part in own
        )
    return tuple(parts)
