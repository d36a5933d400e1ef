"""How many tokens of KV a batch of unlike requests keeps, so that the pool seldom overflows.

A request is in the batch for as many steps as it writes tokens, so a step meets it with a chance
in proportion to its output ``O``, anywhere between its prompt ``P`` and its end::

    L = P + U O,    U uniform on 0 to 1,  (P, O) weighted by O
    m  = E[O (P + O/2)] / E[O]
    s2 = E[O (P^2 + P O + O^2/3)] / E[O] - m^2

``B`` requests at once keep the sum of ``B`` such lengths: mean ``B m``, variance ``B s2``. Its
99th percentile is taken from the lognormal with these two moments (Fenton and Wilkinson), since
sums of a few long-tailed lengths are long-tailed themselves; with many of them it becomes
``B m + 2.33 s sqrt(B)``. docs/method/memory.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.length_distributions import raw_moments
from capplan.estimate.traffic import output_distribution, prompt_distribution
from capplan.schema.workload import Workload

Floats = NDArray[np.float64]

Z_99 = 2.3263478740408408
"""Standard normal quantile at 0.99: share of the time in which the pool holds the batch."""


@dataclass(frozen=True)
class ResidentTokens:
    """Tokens that a request keeps at a step which it is part of: mean and standard deviation."""

    mean: float
    sd: float

    def of_batch(self, batch: ArrayLike) -> Floats:
        """Return the tokens that so many requests keep together, exceeded in 1 % of steps."""
        many = np.asarray(batch, dtype=float)
        log_variance = np.log1p((self.sd / self.mean) ** 2 / many)
        result: Floats = (
            many * self.mean * np.exp(Z_99 * np.sqrt(log_variance) - log_variance / 2.0)
        )
        return result


def resident_tokens(workload: Workload) -> ResidentTokens:
    """Return what a request keeps at a step that meets it.

    The prompt's mean is taken to be linear in the output, with the workload's correlation.
    Lengths beyond the 99.9th percentile of a lognormal count as that: what is launched admits none
    longer.
    """
    first, second, third = _output_moments(workload)
    prompt, prompt_2, _ = raw_moments(prompt_distribution(workload))
    output_var = max(second - first**2, 0.0)
    prompt_var = max(prompt_2 - prompt**2, 0.0)
    correlation = workload.length_correlation
    slope = correlation * math.sqrt(prompt_var / output_var) if output_var else 0.0
    # moments of O and of its distance d from the mean where requests are weighted by O
    met, met_2 = second / first, third / first
    d, d_2, d_met = output_var / first, met_2 - 2.0 * second + first**2, met_2 - second
    prompt_met = prompt + slope * d
    square = (1.0 - correlation**2) * prompt_var + prompt**2
    square += 2.0 * prompt * slope * d + slope**2 * d_2
    mean = max(prompt_met, 1.0) + met / 2.0
    total = square + (prompt * met + slope * d_met) + met_2 / 3.0
    return ResidentTokens(mean, math.sqrt(max(total - (prompt_met + met / 2.0) ** 2, 0.0)))


def room_tokens(workload: Workload, batch: ArrayLike) -> Floats:
    """Return tokens of KV to count for each of so many requests at once.

    A whole request of mean length, which holds requests that began together; where lengths vary,
    what the batch keeps in all but 1 % of its steps, if that is more.

    Returns
    -------
    Floats
        Of the shape of ``batch``; of length one along it where requests are all alike.
    """
    whole = float(workload.prompt_tokens + workload.output_tokens)
    many = np.asarray(batch, dtype=float)
    if _alike(workload):
        return np.full([1] * many.ndim, whole)
    result: Floats = np.maximum(whole, resident_tokens(workload).of_batch(many) / many)
    return result


def _alike(workload: Workload) -> bool:
    first, second, _ = _output_moments(workload)
    prompt, prompt_2, _ = raw_moments(prompt_distribution(workload))
    varies = max(second - first**2, 0.0) + max(prompt_2 - prompt**2, 0.0)
    return varies <= _NOTHING * (second + prompt_2)


_NOTHING = 1e-9
"""Relative: a variance that is rounding and no more."""


def _output_moments(workload: Workload) -> tuple[float, float, float]:
    """Return raw moments of the output; of a mix without lengths, those of its parts' means."""
    stated = [(part.share, part.output_tokens) for part in workload.mix if part.output_tokens]
    if workload.output_lengths is not None or not stated:
        return raw_moments(output_distribution(workload))
    shares, tokens = np.array(stated).T
    first, second, third = (float(np.average(tokens**k, weights=shares)) for k in (1, 2, 3))
    return first, second, third
