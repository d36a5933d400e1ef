"""Turn finalists into full plan options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.economics.bill import monthly_bill
from capplan.economics.cost import replicas_for, usd_per_million_tokens
from capplan.planning.candidates import Candidate
from capplan.planning.figures import FigureCache, Figures
from capplan.planning.offers import Charges
from capplan.planning.pricing import required_tokens_per_s
from capplan.schema.llm import LlmSpec
from capplan.schema.plan import PlanOption
from capplan.schema.price import BillItem, MonthlyBill
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Workload
from capplan.units import SECONDS_PER_HOUR, TOKENS_PER_MILLION


@dataclass(frozen=True)
class Finalist:
    """A candidate to be written out; its curve over the load only where asked for."""

    candidate: Candidate
    target: LlmSpec
    with_curve: bool = False
    on_pareto_front: bool = False


def build_options(finalists: Sequence[Finalist], workload: Workload) -> tuple[PlanOption, ...]:
    """Fill in every figure of the finalists of one request."""
    if not finalists:
        return ()
    candidates = [finalist.candidate for finalist in finalists]
    cache, bills = FigureCache(candidates), _Bills()
    figures = [cache.of(candidate) for candidate in candidates]
    exact = [bills.of(candidate) for candidate in candidates]
    money = _money(candidates, figures, exact, workload)
    return tuple(
        _option(finalist, found, bill, month, million, workload)
        for finalist, found, bill, (month, million) in zip(
            finalists, figures, exact, money, strict=True
        )
    )


def _option(
    finalist: Finalist,
    figures: Figures,
    bill: MonthlyBill,
    month: Quantity,
    million: Quantity,
    workload: Workload,
) -> PlanOption:
    candidate, errors = finalist.candidate, figures.errors
    evaluated, price = candidate.evaluated, candidate.price
    choice = evaluated.choices[candidate.hardware_index]
    capacity = figures.tokens_per_s * candidate.replicas
    total_share = workload.output_tokens / (workload.output_tokens + workload.prompt_tokens)
    return PlanOption(
        id=_option_id(candidate, finalist.target),
        target=finalist.target.id,
        draft=evaluated.drafting.draft_id,
        method=evaluated.drafting.method,
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
        max_concurrency=int(evaluated.grid.batches[candidate.batch_index]),
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
        output_tokens_per_month=_tokens(candidate, figures, workload),
        tpot_ms=figures.tpot_ms,
        ttft_ms=figures.ttft_ms,
        speedup=figures.speedup,
        speedup_spread=figures.speedup_spread,
        guide_speedup=figures.guide_speedup,
        cost_ratio=figures.cost_ratio,
        round_ratio=figures.round_ratio,
        acceptance=figures.acceptance,
        memory=figures.memory,
        tier=evaluated.tier,
        tier_note=evaluated.tier_note,
        on_pareto_front=finalist.on_pareto_front,
        load_curve=figures.curve(_usd_per_s(candidate)) if finalist.with_curve else (),
        on_cpu=evaluated.on_cpu,
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
    return "/".join(parts).replace(" ", "-")


class _Bills:
    """Exact bills; many finalists are so many replicas of the same size under the same offer."""

    def __init__(self) -> None:
        self._bills: dict[tuple[int, int, int], MonthlyBill] = {}

    def of(self, candidate: Candidate) -> MonthlyBill:
        replicas, size = candidate.replicas, candidate.tensor_parallel
        key = id(candidate.offer), replicas, size
        if key not in self._bills:
            self._bills[key] = monthly_bill(replicas, size, candidate.tariff)
        return self._bills[key]


def _money(
    candidates: Sequence[Candidate],
    figures: Sequence[Figures],
    bills: Sequence[MonthlyBill],
    workload: Workload,
) -> list[tuple[Quantity, Quantity]]:
    """Return the monthly bills and dollars a million output tokens, with intervals.

    With a load, a slower replica means more replicas: the bill moves in whole nodes. Without one
    the bill is exact and the tokens it buys move.
    """
    hours = candidates[0].tariff.serving_hours
    serving_hours = float(hours)
    required = required_tokens_per_s(workload, hours)
    totals = [float(bill.total_usd) for bill in bills]
    if required is None:
        planned = np.array([candidate.planned_tokens_per_s for candidate in candidates])
        mids = usd_per_million_tokens(np.array(totals), planned, serving_hours).tolist()
        return [
            (Quantity.exact(usd), one.errors.time(mid))
            for usd, one, mid in zip(totals, figures, mids, strict=True)
        ]
    ends = np.array([one.errors.rate_factors[::-1] for one in figures])
    rates = np.array([one.tokens_per_s for one in figures])[:, None] * ends
    sizes = np.array([candidate.tensor_parallel for candidate in candidates], dtype=float)
    charges = Charges.of([candidate.offer for candidate in candidates]).each(1)
    replicas = replicas_for(required, rates, workload.utilisation)
    months = charges.usd_per_month(replicas, sizes[:, None]).tolist()
    per_dollar = float(usd_per_million_tokens(1.0, required, serving_hours))
    money = []
    for usd, (low, high) in zip(totals, months, strict=True):
        # the middle is exact, the ends are not: they must not cross it by a rounding
        month = Quantity(low=min(low, usd), mid=usd, high=max(high, usd))
        money.append((month, month.scaled(per_dollar)))
    return money


def _tokens(candidate: Candidate, figures: Figures, workload: Workload) -> Quantity:
    """Return the planned output tokens of a month: a load is exact, what a budget buys is not."""
    hours = candidate.tariff.serving_hours
    tokens = candidate.planned_tokens_per_s * float(hours) * SECONDS_PER_HOUR
    if required_tokens_per_s(workload, hours) is None:
        return figures.errors.rate(tokens)
    return Quantity.exact(tokens)


def _usd_per_s(candidate: Candidate) -> float:
    """Return what a replica costs a second of serving."""
    hourly = float(candidate.tariff.usd_per_serving_gpu_hour) * candidate.tensor_parallel
    return hourly / SECONDS_PER_HOUR
