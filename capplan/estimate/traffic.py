"""Rates of a workload over the week, its peak, and what varying lengths mean for a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.length_distributions import sample_pairs, variance_tokens2
from capplan.schema.arrival import DAYS_PER_WEEK, HOURS_PER_DAY, Arrival
from capplan.schema.lengths import FixedLength, Lengths
from capplan.schema.workload import Workload
from capplan.units import HOURS_PER_MONTH, SECONDS_PER_HOUR

Floats = NDArray[np.float64]


def mean_requests_per_s(
    workload: Workload, serving_hours: float = HOURS_PER_MONTH
) -> float | None:
    """Return the mean rate of the hours in which the load arrives; None where none is known.

    Tokens a month are spread over those hours: ``tokens / (hours * 3600 * tokens a request)``.
    """
    if workload.requests_per_s is not None:
        return workload.requests_per_s
    if workload.output_tokens_per_month is None:
        return None
    tokens_per_s = workload.output_tokens_per_month / (serving_hours * SECONDS_PER_HOUR)
    return tokens_per_s / workload.output_tokens


def shape_of_week(arrival: Arrival | None) -> Floats:
    """Return 168 factors on the mean rate, Monday 0:00 first; their mean is 1.

    Day and hour are taken to be independent: every day has the same course of hours.
    """
    hours = _factors(arrival.hour_of_day if arrival is not None else None, HOURS_PER_DAY)
    days = _factors(arrival.day_of_week if arrival is not None else None, DAYS_PER_WEEK)
    return np.outer(days, hours).ravel()


def _factors(weights: tuple[float, ...] | None, count: int) -> Floats:
    if weights is None:
        return np.ones(count)
    values = np.asarray(weights, dtype=float)
    result: Floats = values / values.mean()
    return result


def requests_per_s_of_week(
    workload: Workload, serving_hours: float = HOURS_PER_MONTH
) -> Floats | None:
    """Return the mean rate of each of the week's 168 hours; None without a mean rate."""
    mean = mean_requests_per_s(workload, serving_hours)
    return None if mean is None else mean * shape_of_week(workload.arrival)


def peak_to_mean(workload: Workload, serving_hours: float = HOURS_PER_MONTH) -> float:
    """Return the rate that a fleet is sized for over the mean rate; 1 where no peak is known.

    A stated peak, else the busiest hour of the week's shape. A stated peak below the busiest hour
    is raised to it: an hour's mean is no higher than its busiest minutes.
    """
    if workload.arrival is None:
        return 1.0
    busiest_hour = float(shape_of_week(workload.arrival).max())
    peak = workload.arrival.peak_requests_per_s
    mean = mean_requests_per_s(workload, serving_hours)
    if peak is None or mean is None:
        return busiest_hour
    return max(peak / mean, busiest_hour, 1.0)


def peak_requests_per_s(
    workload: Workload, serving_hours: float = HOURS_PER_MONTH
) -> float | None:
    """Return the rate that a fleet is sized for; None without a mean rate."""
    mean = mean_requests_per_s(workload, serving_hours)
    return None if mean is None else mean * peak_to_mean(workload, serving_hours)


def at_peak(workload: Workload, serving_hours: float = HOURS_PER_MONTH) -> Workload:
    """Return the workload whose plain rate is the peak, without the shape that led there."""
    ratio = peak_to_mean(workload, serving_hours)
    changes: dict[str, object] = {"arrival": None}
    if workload.requests_per_s is not None:
        changes["requests_per_s"] = workload.requests_per_s * ratio
    if workload.output_tokens_per_month is not None:
        changes["output_tokens_per_month"] = workload.output_tokens_per_month * ratio
    return workload.model_copy(update=changes)


def prompt_distribution(workload: Workload) -> Lengths:
    """Return the prompt lengths; one length where only the mean is known."""
    return workload.prompt_lengths or FixedLength(tokens=workload.prompt_tokens)


def output_distribution(workload: Workload) -> Lengths:
    """Return the output lengths; one length where only the mean is known."""
    return workload.output_lengths or FixedLength(tokens=workload.output_tokens)


def further_context_tokens(workload: Workload) -> float:
    """Return by how much the mean context of a decode step exceeds prompt + output / 2.

    A request is in the batch for as many steps as it has output tokens, so a step meets long
    requests more often: the mean context over steps is ``E[O (P + O/2)] / E[O]``, which is
    ``E[P] + E[O]/2`` plus ``(var(O)/2 + r sd(P) sd(O)) / E[O]``, r the correlation. 0 where all
    requests are alike.
    """
    mean = output_distribution(workload).mean_tokens
    variance = _output_variance(workload)
    shared = 0.0
    if workload.prompt_lengths is not None:
        both = variance * variance_tokens2(workload.prompt_lengths)
        shared = workload.length_correlation * float(np.sqrt(both))
    # no prompt is shorter than a token, whatever correlation is stated
    return max((variance / 2.0 + shared) / mean, 1.0 - workload.prompt_tokens)


def _output_variance(workload: Workload) -> float:
    """Return the variance of the output length; of a mix without lengths, between its parts."""
    if workload.output_lengths is not None:
        return variance_tokens2(workload.output_lengths)
    stated = [(part.share, part.output_tokens) for part in workload.mix if part.output_tokens]
    if not stated:
        return 0.0
    shares, tokens = np.array(stated).T
    mean = float(np.average(tokens, weights=shares))
    return float(np.average((tokens - mean) ** 2, weights=shares))


def sample_requests(
    workload: Workload, rng: np.random.Generator, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw prompt and output lengths of requests."""
    prompts, outputs = prompt_distribution(workload), output_distribution(workload)
    return sample_pairs(prompts, outputs, workload.length_correlation, rng, size)
