"""The most that an engine serves: what it gives where there is always another request waiting."""

from __future__ import annotations

import numpy as np

from capplan.estimate.serving_acceptance import NO_DRAFTS, AcceptedLengths
from capplan.estimate.serving_clocks import StepClock
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic

_WAVES = 6
"""Requests to serve for each place of the engine: fewer and its begin and end would count."""


def capacity_requests_per_s(
    traffic: Traffic,
    limits: EngineLimits,
    clock: StepClock,
    accepted: AcceptedLengths = NO_DRAFTS,
    *,
    seed: int = 0,
) -> float:
    """Return the requests a second that an engine serves when it is never short of them.

    Parameters
    ----------
    traffic
        Requests of the kind to be served; how they arrive does not matter.
    limits, clock, accepted, seed
        As in :func:`simulate_load`.

    Returns
    -------
    float
        Under arrivals at more than this the queue grows without end.
    """
    places = limits.max_num_seqs
    again = np.arange(max(traffic.count, _WAVES * places)) % traffic.count
    enough = Traffic(
        traffic.prompt_tokens[again],
        traffic.output_tokens[again],
        traffic.cached_tokens[again],
        concurrency=places,
    )
    run = simulate_load(enough, limits, clock, accepted, seed=seed)
    return run.steady_requests_per_s()
