"""Turn a finalist into a full plan option: every figure with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, hypot

import numpy as np

from capplan.economics.cost import replicas_for, usd_per_million_tokens
from capplan.estimate.uncertainty import Z_95
from capplan.planning.candidates import (
    Candidate,
    at_concurrency,
    required_tokens_per_s,
    usd_per_month_for,
)
from capplan.schema.llm import LlmSpec
from capplan.schema.plan import AcceptanceFigure, LoadPoint, MemoryFigure, PlanOption, SpreadCause
from capplan.schema.price import BillItem
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Workload
from capplan.units import MS_PER_S, SECONDS_PER_HOUR, TOKENS_PER_MILLION

PREFILL_RELATIVE_SE = 0.30
"""TTFT: leave one LLM x GPU out 19 % mean; this much covers 90 % (see the engine's sources)."""


@dataclass(frozen=True)
class _Errors:
    """Logarithms of how far 95 % intervals reach; a round reaches further up than down."""

    tokens_per_round: float
    round_down: float
    round_up: float
    decode: float

    def round(self, mid: float) -> Quantity:
        """Return a round ratio."""
        return _interval(mid, self.round_down, self.round_up)

    def speedup(self, mid: float) -> Quantity:
        """Return tokens a round over a round ratio."""
        tokens = self.tokens_per_round
        return _interval(mid, hypot(tokens, self.round_up), hypot(tokens, self.round_down))

    def time(self, mid: float) -> Quantity:
        """Return what grows with the time a token, dollars a token among it."""
        tokens = (self.tokens_per_round, self.decode)
        return _interval(mid, hypot(*tokens, self.round_down), hypot(*tokens, self.round_up))

    def rate(self, mid: float) -> Quantity:
        """Return what falls with the time a token."""
        tokens = (self.tokens_per_round, self.decode)
        return _interval(mid, hypot(*tokens, self.round_up), hypot(*tokens, self.round_down))


def _interval(mid: float, log_down: float, log_up: float) -> Quantity:
    return Quantity(low=mid * exp(-log_down), mid=mid, high=mid * exp(log_up))


def _errors(candidate: Candidate) -> _Errors:
    grid = candidate.evaluated.grid
    h, n = candidate.hardware_index, candidate.n_index
    down, up = (
        at_concurrency(candidate.evaluated, reach[h, n], candidate.concurrency)
        for reach in (grid.round_log_down, grid.round_log_up)
    )
    return _Errors(
        tokens_per_round=Z_95 * float(grid.tokens_per_round_se[n]),
        round_down=down,
        round_up=up,
        decode=Z_95 * float(grid.decode_relative_se[h]),
    )


def _spread(candidate: Candidate, errors: _Errors) -> dict[SpreadCause, float]:
    """Return the shares of what could make speculation lose, the largest first."""
    if not candidate.speculates:
        return {}
    grid, h, n = candidate.evaluated.grid, candidate.hardware_index, candidate.n_index
    found = {
        cause: errors.round_up**2
        * at_concurrency(candidate.evaluated, share[h, n], candidate.concurrency)
        for cause, share in grid.round_causes.items()
    }
    found[SpreadCause.ACCEPTANCE] = errors.tokens_per_round**2
    total = sum(found.values())
    if total <= 0:
        return {}
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return {cause: part / total for cause, part in ordered if part > 0}


def build_option(
    candidate: Candidate, target: LlmSpec, workload: Workload, *, with_curve: bool
) -> PlanOption:
    """Fill in every figure of a candidate; the curve over the load only where asked for."""
    evaluated, price = candidate.evaluated, candidate.price
    grid, drafting = evaluated.grid, evaluated.drafting
    h, n = candidate.hardware_index, candidate.n_index
    choice = evaluated.choices[h]
    errors = _errors(candidate)
    rate = float(grid.throughput[h, n, candidate.batch_index])
    capacity = rate * candidate.replicas
    month, million = _money(candidate, rate, errors, workload)
    total_share = workload.output_tokens / (workload.output_tokens + workload.prompt_tokens)
    bill = candidate.bill

    def here(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return at_concurrency(evaluated, values, candidate.concurrency)

    return PlanOption(
        id=_option_id(candidate, target),
        target=target.id,
        draft=drafting.draft_id,
        method=drafting.method,
        num_speculative_tokens=candidate.num_speculative_tokens,
        gpu=choice.gpu_id,
        gpu_name=choice.gpu_name,
        tensor_parallel=choice.tensor_parallel,
        replicas=candidate.replicas,
        gpus_rented=bill.gpus_paid,
        provider=price.provider,
        instance=price.instance,
        region=price.region,
        purchase=price.purchase,
        price_tier=price.tier,
        price_source=price.source,
        usd_per_gpu_hour=float(price.usd_per_gpu_hour),
        concurrency=max(round(candidate.concurrency), 1),
        max_concurrency=int(grid.batches[candidate.batch_index]),
        utilisation=candidate.planned_tokens_per_s / capacity,
        usd_per_month=month,
        usd_per_month_idle=float(bill.usd(BillItem.IDLE_GPUS)),
        bill=bill,
        term_months=price.term_months,
        usd_per_million_output_tokens=million,
        usd_per_million_total_tokens=million.scaled(total_share),
        usd_per_thousand_requests=million.scaled(
            workload.output_tokens * 1e3 / TOKENS_PER_MILLION
        ),
        output_tokens_per_s=errors.rate(capacity),
        planned_output_tokens_per_s=candidate.planned_tokens_per_s,
        tpot_ms=errors.time(candidate.tpot_s * MS_PER_S),
        ttft_ms=Quantity.from_relative_se(here(grid.ttft_s[h, n]) * MS_PER_S, PREFILL_RELATIVE_SE),
        speedup=errors.speedup(here(grid.speedup[h, n])),
        speedup_spread=_spread(candidate, errors),
        guide_speedup=here(grid.guide_speedup[h, n]),
        cost_ratio=_cost_ratio(candidate),
        round_ratio=(errors.round(here(grid.round_ratio[h, n])) if candidate.speculates else None),
        acceptance=_acceptance(candidate),
        memory=_memory(candidate),
        tier=evaluated.tier,
        tier_note=evaluated.tier_note,
        load_curve=_load_curve(candidate, errors) if with_curve else (),
    )


def _option_id(candidate: Candidate, target: LlmSpec) -> str:
    choice = candidate.evaluated.choices[candidate.hardware_index]
    drafting, price = candidate.evaluated.drafting, candidate.price
    parts = [
        target.id.rsplit("/", 1)[-1],
        (drafting.draft_id or "no-speculation").rsplit("/", 1)[-1],
        f"n{candidate.num_speculative_tokens}",
        f"{choice.gpu_id}-tp{choice.tensor_parallel}",
        price.provider,
        price.instance,
        price.region,
        price.purchase.value,
        *([f"{price.term_months}-months"] if price.term_months else []),
    ]
    return "/".join(part.replace(" ", "-") for part in parts)


def _money(
    candidate: Candidate, replica_rate: float, errors: _Errors, workload: Workload
) -> tuple[Quantity, Quantity]:
    """Return the monthly bill and dollars a million output tokens, with intervals.

    With a load, a slower replica means more replicas: the bill moves in whole nodes. Without one
    the bill is exact and the tokens it buys move.
    """
    tariff, usd = candidate.tariff, float(candidate.bill.total_usd)
    serving_hours = float(tariff.serving_hours)
    required = required_tokens_per_s(workload, tariff.serving_hours)
    if required is None:
        mid = float(usd_per_million_tokens(usd, candidate.planned_tokens_per_s, serving_hours))
        return Quantity.exact(usd), errors.time(mid)
    ends = errors.rate(replica_rate)
    rates = np.array([ends.high, ends.low])
    replicas = replicas_for(required, rates, workload.utilisation)
    low, high = usd_per_month_for(replicas, candidate.tensor_parallel, tariff)
    # the middle is exact, the ends are not: they must not cross it by a rounding
    month = Quantity(low=min(float(low), usd), mid=usd, high=max(float(high), usd))
    per_dollar = float(usd_per_million_tokens(1.0, required, serving_hours))
    return month, month.scaled(per_dollar)


def _cost_ratio(candidate: Candidate) -> Quantity | None:
    grid = candidate.evaluated.grid
    if not candidate.speculates or grid.cost_ratio is None:
        return None
    h, n = candidate.hardware_index, candidate.n_index
    values = [
        at_concurrency(
            candidate.evaluated,
            np.broadcast_to(part, grid.speedup.shape)[h, n],
            candidate.concurrency,
        )
        for part in grid.cost_ratio
    ]
    return Quantity(low=values[0], mid=values[1], high=values[2])


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
    )


def _memory(candidate: Candidate) -> MemoryFigure:
    """Return the bytes of one GPU, and how many requests of the workload's length they hold."""
    grid, h = candidate.evaluated.grid, candidate.hardware_index
    memory, tokens = grid.memory, float(grid.request_tokens[candidate.n_index])

    def value(array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return float(array[h, candidate.n_index if array.shape[1] > 1 else 0, 0])

    concurrency = value(memory.kv_pool_bytes) / value(grid.request_bytes)
    return MemoryFigure(
        gpu_bytes=value(memory.capacity_bytes),
        usable_bytes=value(memory.usable_bytes),
        target_weight_bytes=value(memory.target_weight_bytes),
        draft_weight_bytes=value(memory.draft_weight_bytes),
        overhead_bytes=value(memory.overhead_bytes),
        activation_bytes=value(memory.activation_bytes),
        cuda_graph_bytes=value(memory.cuda_graph_bytes),
        non_torch_bytes=value(memory.non_torch_bytes),
        buffer_bytes=value(memory.buffer_bytes),
        kv_pool_bytes=value(memory.kv_pool_bytes),
        kv_bytes_per_token=value(memory.kv_bytes_per_token),
        kv_tokens=concurrency * tokens,
        request_tokens=int(tokens),
        max_concurrency=concurrency,
    )


def _load_curve(candidate: Candidate, errors: _Errors) -> tuple[LoadPoint, ...]:
    """Follow the option over the batches that memory allows; limits may be exceeded there."""
    evaluated = candidate.evaluated
    grid, h, n = evaluated.grid, candidate.hardware_index, candidate.n_index
    tp = candidate.tensor_parallel
    usd_per_s = float(candidate.tariff.usd_per_serving_gpu_hour) * tp / SECONDS_PER_HOUR
    points = []
    for b in np.flatnonzero(grid.fits_memory[h, n]):
        best = int(grid.speedup[h, :, b].argmax())
        best_speedup = float(grid.speedup[h, best, b])
        rate = float(grid.throughput[h, n, b])
        points.append(
            LoadPoint(
                concurrency=int(grid.batches[b]),
                tpot_ms=errors.time(float(grid.tpot_s[h, n, b]) * MS_PER_S),
                baseline_tpot_ms=float(grid.baseline_tpot_s[h, n, b]) * MS_PER_S,
                speedup=errors.speedup(float(grid.speedup[h, n, b])),
                guide_speedup=float(grid.guide_speedup[h, n, b]),
                output_tokens_per_s=errors.rate(rate),
                usd_per_million_output_tokens=errors.time(usd_per_s * TOKENS_PER_MILLION / rate),
                best_num_speculative_tokens=int(grid.lengths[best]) if best_speedup > 1 else 0,
                best_speedup=max(best_speedup, 1.0),
            )
        )
    return tuple(points)
