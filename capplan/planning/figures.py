"""What a finalist's figures are at its load, each with its interval; no price is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, hypot
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.uncertainty import Z_95
from capplan.planning.candidates import Candidate
from capplan.planning.hardware import Evaluated
from capplan.planning.pricing import at_concurrency
from capplan.schema.plan import AcceptanceFigure, LoadPoint, MemoryFigure, SpreadCause
from capplan.schema.quantity import Quantity
from capplan.units import MS_PER_S, TOKENS_PER_MILLION

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PREFILL_RELATIVE_SE = 0.30
"""TTFT: leave one LLM x GPU out 19 % mean; this much covers 90 % (see the engine's sources)."""


@dataclass(frozen=True)
class Errors:
    """Logarithms of how far 95 % intervals reach; a round reaches further up than down."""

    tokens_per_round: float
    round_down: float
    round_up: float
    decode: float

    def round(self, mid: float) -> Quantity:
        """Return a round ratio."""
        return _interval(mid, exp(-self.round_down), exp(self.round_up))

    @cached_property
    def speedup_factors(self) -> tuple[float, float]:
        """Ends of a speedup, as factors of its middle."""
        tokens = self.tokens_per_round
        return exp(-hypot(tokens, self.round_up)), exp(hypot(tokens, self.round_down))

    @cached_property
    def time_factors(self) -> tuple[float, float]:
        """Ends of what grows with the time a token, as factors of its middle."""
        tokens = (self.tokens_per_round, self.decode)
        return exp(-hypot(*tokens, self.round_down)), exp(hypot(*tokens, self.round_up))

    @cached_property
    def rate_factors(self) -> tuple[float, float]:
        """Ends of what falls with the time a token, as factors of its middle."""
        tokens = (self.tokens_per_round, self.decode)
        return exp(-hypot(*tokens, self.round_up)), exp(hypot(*tokens, self.round_down))

    def speedup(self, mid: float) -> Quantity:
        """Return tokens a round over a round ratio."""
        return _interval(mid, *self.speedup_factors)

    def time(self, mid: float) -> Quantity:
        """Return what grows with the time a token, dollars a token among it."""
        return _interval(mid, *self.time_factors)

    def rate(self, mid: float) -> Quantity:
        """Return what falls with the time a token."""
        return _interval(mid, *self.rate_factors)


def _interval(mid: float, low: float, high: float) -> Quantity:
    return Quantity(low=mid * low, mid=mid, high=mid * high)


@dataclass(frozen=True)
class Figures:
    """Everything of a finalist that does not depend on who rents the GPUs out."""

    evaluated: Evaluated
    hardware_index: int
    n_index: int
    errors: Errors
    tokens_per_s: float
    """Largest throughput of a replica."""
    tpot_ms: Quantity
    ttft_ms: Quantity
    speedup: Quantity
    speedup_spread: dict[SpreadCause, float]
    guide_speedup: float
    cost_ratio: Quantity | None
    round_ratio: Quantity | None
    acceptance: AcceptanceFigure | None
    memory: MemoryFigure

    def curve(self, usd_per_s: float) -> tuple[LoadPoint, ...]:
        """Return the option over the batches that memory allows; limits may be exceeded there.

        Parameters
        ----------
        usd_per_s
            What a replica costs a second of serving.
        """
        grid, errors = self.evaluated.grid, self.errors
        h, n = self.hardware_index, self.n_index
        fits = np.flatnonzero(grid.fits_memory[h, n])
        speedups = grid.speedup[h][:, fits]
        best, most = speedups.argmax(axis=0), speedups.max(axis=0)
        rate = grid.throughput[h, n, fits]
        guide = grid.guide_at(np.array([h]), np.array([n]))[0, fits]
        columns: dict[str, list[Any]] = {
            "concurrency": grid.batches[fits].astype(int).tolist(),
            "tpot_ms": _intervals(grid.tpot_s[h, n, fits] * MS_PER_S, errors.time_factors),
            "baseline_tpot_ms": (grid.baseline_tpot_s[h, n, fits] * MS_PER_S).tolist(),
            "speedup": _intervals(speedups[n], errors.speedup_factors),
            "guide_speedup": guide.tolist(),
            "output_tokens_per_s": _intervals(rate, errors.rate_factors),
            "usd_per_million_output_tokens": _intervals(
                usd_per_s * TOKENS_PER_MILLION / rate, errors.time_factors
            ),
            "best_num_speculative_tokens": np.where(most > 1, grid.lengths[best], 0).tolist(),
            "best_speedup": np.maximum(most, 1.0).tolist(),
        }
        points = zip(*columns.values(), strict=True)
        fields = (dict(zip(columns, point, strict=True)) for point in points)
        # a plan of the whole catalogue has 20,000 points: they are checked together
        if np.isfinite([columns[name] for name in _PLAIN]).all():
            return tuple(LoadPoint.of_checked(fields))
        return tuple(map(LoadPoint.model_validate, fields))


_PLAIN = ("baseline_tpot_ms", "guide_speedup", "best_speedup")
"""Figures of a point without an interval."""


def _intervals(mids: Floats, factors: tuple[float, float]) -> list[Quantity]:
    low, high = mids * factors[0], mids * factors[1]
    ends = zip(low.tolist(), mids.tolist(), high.tolist(), strict=True)
    rows = ({"low": one, "mid": mid, "high": other} for one, mid, other in ends)
    if ((low <= mids) & (mids <= high) & np.isfinite(high)).all():
        return Quantity.of_checked(rows)
    return list(map(Quantity.model_validate, rows))


class FigureCache:
    """Figures of finalists, made once for all offers of the same hardware at the same load."""

    def __init__(self, finalists: Sequence[Candidate]) -> None:
        self._figures: dict[tuple[int, int, int, int, float], Figures] = {}
        by_evaluated: dict[int, list[Candidate]] = {}
        for candidate in finalists:
            by_evaluated.setdefault(id(candidate.evaluated), []).append(candidate)
        for candidates in by_evaluated.values():
            distinct = list({_key(candidate): candidate for candidate in candidates}.values())
            for candidate, figures in zip(distinct, _figures(distinct), strict=True):
                self._figures[_key(candidate)] = figures

    def of(self, candidate: Candidate) -> Figures:
        """Return the figures of one of the finalists."""
        return self._figures[_key(candidate)]


def _key(candidate: Candidate) -> tuple[int, int, int, int, float]:
    place = id(candidate.evaluated), candidate.hardware_index, candidate.n_index
    return *place, candidate.batch_index, candidate.concurrency


def _figures(candidates: Sequence[Candidate]) -> list[Figures]:
    """Return the figures of candidates that share their grid."""
    evaluated = candidates[0].evaluated
    grid = evaluated.grid
    h = np.array([candidate.hardware_index for candidate in candidates])
    n = np.array([candidate.n_index for candidate in candidates])
    concurrency = np.array([candidate.concurrency for candidate in candidates])

    def met(values: Floats) -> list[float]:
        met_at: list[float] = at_concurrency(values, grid.batches, concurrency).tolist()
        return met_at

    found = grid.round_at(h, n)
    down, up = met(found.log_down), met(found.log_up)
    causes = {cause: met(share) for cause, share in found.causes.items()}
    ratio = grid.round_ratio[h, n]
    speedup, ratios = met(grid.tokens_per_round[n][:, None] / ratio), met(ratio)
    guide, ttft = met(grid.guide_at(h, n)), met(grid.ttft_s[h, n])
    cost = [met(np.broadcast_to(end, grid.shape)[h, n]) for end in grid.cost_ratio or ()]
    memory = _memory_figures(evaluated, h, n)
    figures = []
    for at, candidate in enumerate(candidates):
        errors = Errors(
            tokens_per_round=Z_95 * float(grid.tokens_per_round_se[n[at]]),
            round_down=down[at],
            round_up=up[at],
            decode=Z_95 * float(grid.decode_relative_se[h[at]]),
        )
        speculates = candidate.speculates
        figures.append(
            Figures(
                evaluated=evaluated,
                hardware_index=candidate.hardware_index,
                n_index=candidate.n_index,
                errors=errors,
                tokens_per_s=float(grid.throughput[h[at], n[at], candidate.batch_index]),
                tpot_ms=errors.time(candidate.tpot_s * MS_PER_S),
                ttft_ms=Quantity.from_relative_se(ttft[at] * MS_PER_S, PREFILL_RELATIVE_SE),
                speedup=errors.speedup(speedup[at]),
                speedup_spread=(
                    _spread({cause: part[at] for cause, part in causes.items()}, errors)
                    if speculates
                    else {}
                ),
                guide_speedup=guide[at],
                cost_ratio=(
                    Quantity(low=cost[0][at], mid=cost[1][at], high=cost[2][at])
                    if speculates and cost
                    else None
                ),
                round_ratio=errors.round(ratios[at]) if speculates else None,
                acceptance=_acceptance(candidate),
                memory=memory[at],
            )
        )
    return figures


def _spread(shares: dict[SpreadCause, float], errors: Errors) -> dict[SpreadCause, float]:
    """Return the shares of what could make speculation lose, the largest first."""
    found = {cause: errors.round_up**2 * share for cause, share in shares.items()}
    found[SpreadCause.ACCEPTANCE] = errors.tokens_per_round**2
    total = sum(found.values())
    if total <= 0:
        return {}
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return {cause: part / total for cause, part in ordered if part > 0}


def _acceptance(candidate: Candidate) -> AcceptanceFigure | None:
    curve = candidate.evaluated.drafting.acceptance
    n = candidate.num_speculative_tokens
    if curve is None or n == 0:
        return None
    spread = Quantity.from_relative_se(curve.at(n), float(curve.relative_se[n]))
    tokens = Quantity(
        low=max(spread.low, 1.0), mid=max(spread.mid, 1.0), high=min(spread.high, n + 1.0)
    )
    rate = Quantity(low=(tokens.low - 1) / n, mid=(tokens.mid - 1) / n, high=(tokens.high - 1) / n)
    return AcceptanceFigure(
        tokens_per_round=tokens,
        acceptance_rate=rate,
        definition=curve.definition,
        source=curve.source,
        draft_sampling=curve.draft_sampling,
    )


def _memory_figures(evaluated: Evaluated, h: Integers, n: Integers) -> list[MemoryFigure]:
    """Return the bytes of one GPU, and how many requests of the workload they hold."""
    grid, memory = evaluated.grid, evaluated.grid.memory
    shape = (*grid.shape[:2], 1)

    def values(array: Floats) -> list[float]:
        result: list[float] = np.broadcast_to(array, shape)[h, n, 0].tolist()
        return result

    held, tokens = (figure.tolist() for figure in grid.room_at(h, n))
    columns = {
        "gpu_bytes": values(memory.capacity_bytes),
        "usable_bytes": values(memory.usable_bytes),
        "target_weight_bytes": values(memory.target_weight_bytes),
        "draft_weight_bytes": values(memory.draft_weight_bytes),
        "overhead_bytes": values(memory.overhead_bytes),
        "activation_bytes": values(memory.activation_bytes),
        "cuda_graph_bytes": values(memory.cuda_graph_bytes),
        "non_torch_bytes": values(memory.non_torch_bytes),
        "buffer_bytes": values(memory.buffer_bytes),
        "kv_pool_bytes": values(memory.kv_pool_bytes),
        "kv_bytes_per_token": values(memory.kv_bytes_per_token),
        "kv_tokens": [many * length for many, length in zip(held, tokens, strict=True)],
        "request_tokens": [int(length) for length in tokens],
        "max_concurrency": held,
    }
    return [MemoryFigure(**dict(zip(columns, row, strict=True)))
            for row in zip(*columns.values(), strict=True)]  # fmt: skip
