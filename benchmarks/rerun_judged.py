"""Whether two ways of counting tokens a round agree, and what each cost.

The statistics of ``trace_vs_rerun.py``; what they are is in docs/method/trace-vs-rerun.md.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.uncertainty import Z_95, ratio_of_sums

LEAST_RATIO = 8.0
SIGN_DRAWS = 20_000

Counts = NDArray[np.float64]
"""Emitted tokens and rounds, shape (requests, 2)."""


@dataclass
class Compute:
    """What one side spent."""

    cpu_s: float = 0.0
    target_passes: int = 0
    draft_passes: int = 0
    target_tokens: int = 0
    draft_tokens: int = 0
    """Tokens run through the LLM, padding included."""

    def __add__(self, other: Compute) -> Compute:
        mine, theirs = asdict(self), asdict(other)
        return Compute(**{key: mine[key] + theirs[key] for key in mine})


@dataclass(frozen=True)
class Comparison:
    """One temperature and N, counted both ways on the same prompts."""

    temperature: float
    num_speculative_tokens: int
    trace: Counts
    rerun: Counts

    @property
    def contributions(self) -> Counts:
        """What each request adds to the relative difference, trace less rerun."""
        both = self.trace + self.rerun
        common = both[:, 0].sum() / both[:, 1].sum()
        sides = [
            (side[:, 0] - common * side[:, 1]) / (common * side[:, 1].sum())
            for side in (self.trace, self.rerun)
        ]
        return np.asarray(sides[0] - sides[1])


@dataclass
class Outcome:
    """All comparisons of one draft, and what they cost."""

    draft: str
    comparisons: list[Comparison] = field(default_factory=list)
    trace_cost: dict[float, Compute] = field(default_factory=dict)
    rerun_cost: dict[float, Compute] = field(default_factory=dict)


def critical_values(contributions: Counts) -> tuple[Counts, float]:
    """Return the limits of |difference| / root of summed squares: one by one, and all at once.

    If a request's trace and rerun differ by chance alone, the sign of its contribution is as
    likely plus as minus. Requests flip theirs together in all comparisons (a wild bootstrap over
    requests), which keeps what the comparisons share: prompts, and the traced text.
    """
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(SIGN_DRAWS, len(contributions)))
    scores = np.abs(signs @ _normalised(contributions))
    return np.quantile(scores, 0.95, axis=0), float(np.quantile(scores.max(axis=1), 0.95))


def _normalised(contributions: Counts) -> Counts:
    length = np.sqrt((contributions**2).sum(axis=0))
    return np.asarray(contributions / np.where(length > 0, length, 1.0))


def side(counts: Counts) -> dict[str, float]:
    """Return tokens a round with the interval that capplan's plans use."""
    mid, relative_error = ratio_of_sums(counts[:, 0], counts[:, 1])
    half = Z_95 * mid * relative_error
    return {"low": mid - half, "mid": mid, "high": mid + half}


def judged(outcome: Outcome) -> dict[str, Any]:
    """Return the rows and the verdict of one draft, ready for JSON."""
    contributions = np.stack([one.contributions for one in outcome.comparisons], axis=1)
    scores = np.abs(_normalised(contributions).sum(axis=0))
    alone, together = critical_values(contributions)
    rows = [
        {
            "temperature": one.temperature,
            "num_speculative_tokens": one.num_speculative_tokens,
            "trace": side(one.trace),
            "rerun": side(one.rerun),
            "identical": bool(np.allclose(one.contributions, 0, atol=1e-6)),
            "difference": side(one.trace)["mid"] / side(one.rerun)["mid"] - 1,
            "within_own_interval": bool(scores[i] <= alone[i] + 1e-9),
            "within_simultaneous_interval": bool(scores[i] <= together + 1e-9),
        }
        for i, one in enumerate(outcome.comparisons)
    ]
    random = [row for row in rows if not row["identical"]]
    costs = {
        temperature: _cost(spent, outcome.rerun_cost[temperature])
        for temperature, spent in outcome.trace_cost.items()
    }
    total = _cost(
        sum(outcome.trace_cost.values(), Compute()), sum(outcome.rerun_cost.values(), Compute())
    )
    return {
        "draft": outcome.draft,
        "requests": len(contributions),
        "rows": rows,
        "identical": len(rows) - len(random),
        "misses_expected": 0.05 * len(random),
        "misses_observed": sum(not row["within_own_interval"] for row in rows),
        "simultaneous_limit": together,
        "largest_score": float(scores.max()),
        "mean_difference": pooled(outcome),
        "agree": all(row["within_simultaneous_interval"] for row in rows),
        "cost": {f"{temperature:g}": cost for temperature, cost in costs.items()},
        "total_cost": total,
        "cheap_enough": total["cpu_ratio"] >= LEAST_RATIO,
    }


def pooled(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Return, a temperature, the mean relative difference over all N with its 95 % interval."""
    means = {}
    for temperature in outcome.trace_cost:
        rows = [one for one in outcome.comparisons if one.temperature == temperature]
        mean = np.mean([one.contributions for one in rows], axis=0)
        half = float(critical_values(mean[:, None])[0][0] * np.sqrt((mean**2).sum()))
        mid = float(mean.sum())
        means[f"{temperature:g}"] = {"low": mid - half, "mid": mid, "high": mid + half}
    return means


def _cost(trace: Compute, reruns: Compute) -> dict[str, Any]:
    return {
        "trace": asdict(trace),
        "rerun": asdict(reruns),
        "cpu_ratio": reruns.cpu_s / trace.cpu_s,
        "target_pass_ratio": reruns.target_passes / trace.target_passes,
        "target_token_ratio": reruns.target_tokens / trace.target_tokens,
    }
