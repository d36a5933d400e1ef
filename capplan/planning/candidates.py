"""Price every evaluated point: replicas, nodes, dollars; keep the best N of each offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capplan.economics.bill import MONTH_HOURS, Tariff, monthly_bill
from capplan.economics.cost import (
    nodes_needed,
    replicas_for,
    usd_per_million_tokens,
    usd_per_month,
)
from capplan.planning.hardware import Evaluated
from capplan.planning.terms import Terms
from capplan.schema.price import MonthlyBill, PriceRow
from capplan.schema.workload import Workload
from capplan.units import SECONDS_PER_HOUR

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """One priced way to serve the load; enough to rank, details are filled for finalists."""

    target_index: int
    evaluated: Evaluated
    hardware_index: int
    n_index: int
    price: PriceRow
    tariff: Tariff
    batch_index: int
    """Batch of the largest throughput within memory and limits."""
    replicas: int
    planned_tokens_per_s: float
    usd_month: float
    """The bill as the search ranks it; :attr:`bill` is exact."""
    usd_per_million: float
    tpot_s: float
    concurrency: float
    """Requests decoded at once by one replica at the planned load."""

    @property
    def tensor_parallel(self) -> int:
        """GPUs of a replica."""
        return self.evaluated.choices[self.hardware_index].tensor_parallel

    @cached_property
    def bill(self) -> MonthlyBill:
        """The month's bill, exact."""
        return monthly_bill(self.replicas, self.tensor_parallel, self.tariff)

    @property
    def num_speculative_tokens(self) -> int:
        """N of this candidate."""
        return int(self.evaluated.grid.lengths[self.n_index])

    @property
    def speculates(self) -> bool:
        """Whether drafts are made at all."""
        return self.num_speculative_tokens > 0

    @property
    def rank_key(self) -> tuple[int, float, float, int]:
        """Best first: target order, dollars a million tokens, latency, shorter drafts."""
        return (
            self.target_index,
            round(self.usd_per_million, 9),
            self.tpot_s,
            self.num_speculative_tokens,
        )


def required_tokens_per_s(
    workload: Workload, serving_hours: Decimal = MONTH_HOURS
) -> float | None:
    """Return the output tokens a second of the serving hours; None without a rate."""
    if workload.requests_per_s is not None:
        return workload.requests_per_s * workload.output_tokens
    if workload.output_tokens_per_month is not None:
        return workload.output_tokens_per_month / (float(serving_hours) * SECONDS_PER_HOUR)
    return None


def capacity(evaluated: Evaluated) -> tuple[Floats, NDArray[np.int64]]:
    """Return the largest feasible throughput a replica, (hardware, N), and its batch index."""
    grid = evaluated.grid
    allowed = np.where(grid.feasible, grid.throughput, 0.0)
    best = allowed.argmax(axis=2)
    return np.take_along_axis(allowed, best[..., None], axis=2)[..., 0], best


def fits_node(row: PriceRow, tensor_parallel: int) -> bool:
    """Whether a replica fits the offer; a price by the GPU is written for exactly one size."""
    if row.any_count:
        return row.gpu_count == tensor_parallel
    return tensor_parallel <= row.gpu_count


def price_candidates(
    target_index: int,
    evaluated: Evaluated,
    prices: Sequence[PriceRow],
    workload: Workload,
    terms: Terms,
) -> list[Candidate]:
    """Return the best N of every (hardware, price row) that is feasible at all."""
    throughput, best_batch = capacity(evaluated)
    by_gpu: dict[str, list[PriceRow]] = {}
    for row in prices:
        by_gpu.setdefault(row.gpu, []).append(row)
    found: list[Candidate] = []
    for h, choice in enumerate(evaluated.choices):
        if not throughput[h].any():
            continue
        found.extend(
            _best_length(
                target_index,
                evaluated,
                h,
                _Offer(row, terms.tariff(row, choice.gpu)),
                (throughput, best_batch),
                workload,
            )
            for row in by_gpu.get(choice.gpu_id, ())
            if fits_node(row, choice.tensor_parallel)
        )
    return found


@dataclass(frozen=True)
class _Offer:
    row: PriceRow
    tariff: Tariff


def usd_per_month_for(replicas: Floats, tensor_parallel: int, tariff: Tariff) -> Floats:
    """Return the bills of so many replicas, in float: what :func:`monthly_bill` says exactly."""
    if tariff.share_node:
        gpus = replicas * tensor_parallel
    else:
        gpus = nodes_needed(replicas, tensor_parallel, tariff.gpus_per_node) * tariff.gpus_per_node
    return usd_per_month(gpus, float(tariff.usd_per_gpu_hour), float(tariff.paid_hours))


def _best_length(
    target_index: int,
    evaluated: Evaluated,
    h: int,
    offer: _Offer,
    capacities: tuple[Floats, NDArray[np.int64]],
    workload: Workload,
) -> Candidate:
    throughput, best_batch = capacities
    tariff = offer.tariff
    lengths = [n for n in range(throughput.shape[1]) if throughput[h, n] > 0]
    tp = evaluated.choices[h].tensor_parallel
    rates = throughput[h, lengths]
    required = required_tokens_per_s(workload, tariff.serving_hours)
    if required is None:
        at_once = 1 if tariff.share_node else tariff.gpus_per_node // tp
        replicas = np.full(len(lengths), float(at_once))
        planned = rates * replicas * workload.utilisation
    else:
        replicas = replicas_for(required, rates, workload.utilisation)
        planned = np.full(len(lengths), required)
    month = usd_per_month_for(replicas, tp, tariff)
    million = usd_per_million_tokens(month, planned, float(tariff.serving_hours))
    options = []
    for i, n in enumerate(lengths):
        concurrency, tpot = operating_point(
            evaluated, h, n, int(best_batch[h, n]), float(planned[i] / replicas[i])
        )
        options.append(
            Candidate(
                target_index=target_index,
                evaluated=evaluated,
                hardware_index=h,
                n_index=n,
                price=offer.row,
                tariff=tariff,
                batch_index=int(best_batch[h, n]),
                replicas=int(replicas[i]),
                planned_tokens_per_s=float(planned[i]),
                usd_month=float(month[i]),
                usd_per_million=float(million[i]),
                tpot_s=tpot,
                concurrency=concurrency,
            )
        )
    return min(options, key=lambda candidate: candidate.rank_key)


def operating_point(
    evaluated: Evaluated, h: int, n: int, batch_index: int, tokens_per_s: float
) -> tuple[float, float]:
    """Return concurrency and TPOT (s) at which one replica makes ``tokens_per_s``.

    Throughput rises with the batch up to ``batch_index``; the fixed point of load and latency is
    where the curve meets the load (Little's law: concurrency = rate * TPOT).
    """
    grid = evaluated.grid
    upto = batch_index + 1
    rate = np.maximum.accumulate(grid.throughput[h, n, :upto])
    concurrency = float(np.interp(tokens_per_s, rate, grid.batches[:upto]))
    return concurrency, at_concurrency(evaluated, grid.tpot_s[h, n], concurrency)


def at_concurrency(evaluated: Evaluated, values: Floats, concurrency: float) -> float:
    """Interpolate a curve over the batch axis."""
    return float(np.interp(concurrency, evaluated.grid.batches, values))
