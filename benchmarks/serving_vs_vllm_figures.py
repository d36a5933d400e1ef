"""What users see of a load: of one that was served, and of one that was simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.serving_results import SimulatedLoad
from profiler.backends.live_http import Served

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """What users see of one load."""

    ttft_mean_ms: float
    ttft_p50_ms: float
    ttft_p90_ms: float
    tpot_mean_ms: float
    tpot_p50_ms: float
    tpot_p90_ms: float
    output_tokens_per_s: float
    tokens_per_round: float


@dataclass(frozen=True)
class Compared:
    """One load, measured and simulated."""

    load: str
    requests: int
    late: int
    """Requests that the client sent late: it was short of the machine itself."""
    requests_per_s: float
    measured: Figures
    from_profile: Figures
    anchored: Figures


def steady_rate(ends_s: Floats, places: int) -> float:
    """Return requests a second between the ends that had every place taken."""
    ends = np.sort(ends_s)[: len(ends_s) - places]
    first = places - 1
    return (len(ends) - 1 - first) / float(ends[-1] - ends[first])


def measured_figures(served: Sequence[Served]) -> Figures:
    """Summarise what the client saw."""
    tokens = sum(one.output_tokens or 0 for one in served)
    span_s = max(one.ended_s for one in served) - min(one.sent_s for one in served)
    steps = sum(max(len(one.event_s) - 1, 0) for one in served)
    return _figures(
        np.array([one.ttft_s for one in served if one.ttft_s is not None]),
        np.array([one.tpot_s for one in served if one.tpot_s is not None]),
        tokens / span_s,
        (tokens - len(served)) / max(steps, 1),
    )


def simulated_figures(run: SimulatedLoad) -> Figures:
    """Summarise what was simulated."""
    engine = run.engine
    return _figures(
        run.ttft_s, run.tpot_s, run.output_tokens_per_s, engine.emitted / max(engine.rounds, 1)
    )


def _figures(ttft_s: Floats, tpot_s: Floats, rate: float, tokens: float) -> Figures:
    first, each = ttft_s * 1e3, tpot_s * 1e3
    return Figures(
        ttft_mean_ms=float(first.mean()),
        ttft_p50_ms=float(np.percentile(first, 50)),
        ttft_p90_ms=float(np.percentile(first, 90)),
        tpot_mean_ms=float(each.mean()),
        tpot_p50_ms=float(np.percentile(each, 50)),
        tpot_p90_ms=float(np.percentile(each, 90)),
        output_tokens_per_s=rate,
        tokens_per_round=tokens,
    )


def mean_error(
    compared: Sequence[Compared], figure: str, of: Callable[[Compared], Figures]
) -> float:
    """Return the mean absolute relative error over the open loads."""
    errors = [
        getattr(of(one), figure) / getattr(one.measured, figure) - 1.0
        for one in compared
        if not one.load.startswith("closed")
    ]
    return float(np.mean(np.abs(errors)))
