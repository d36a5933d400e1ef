"""Priced ways to serve the load: as columns while searching, one by one for the finalists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from capplan.economics.bill import Tariff, monthly_bill
from capplan.planning.hardware import Evaluated
from capplan.planning.offers import Offer
from capplan.schema.price import MonthlyBill, PriceRow

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Candidate:
    """One priced way to serve the load; enough to rank, details are filled for finalists."""

    target_index: int
    evaluated: Evaluated
    hardware_index: int
    n_index: int
    offer: Offer
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
    def price(self) -> PriceRow:
        """The offer's price row."""
        return self.offer.row

    @property
    def tariff(self) -> Tariff:
        """How the offer is paid for."""
        return self.offer.tariff

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


@dataclass(frozen=True)
class CandidateColumns:
    """Figures of candidates, one entry each."""

    target: Integers
    """Place of the target in the request."""
    length: Integers
    """N."""
    usd_month: Floats
    usd_per_million: Floats
    tpot_s: Floats
    concurrency: Floats
    planned_tokens_per_s: Floats
    replicas: Floats
    hardware_index: Integers
    n_index: Integers
    batch_index: Integers

    def __len__(self) -> int:
        return len(self.target)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the entries of all parts, one after the other."""
        return cls(
            **{
                field.name: np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(cls)
            }
        )


@dataclass(frozen=True)
class Candidates:
    """What a search found: columns, and where each entry comes from."""

    columns: CandidateColumns
    sources: tuple[tuple[Evaluated, Offer], ...]

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates | None:
        """Return all parts as one; None where there is nothing."""
        if not parts:
            return None
        columns = CandidateColumns.joined([part.columns for part in parts])
        return cls(columns, tuple(source for part in parts for source in part.sources))

    def candidate(self, at: int) -> Candidate:
        """Return one entry by itself."""
        evaluated, offer = self.sources[at]
        columns = self.columns
        return Candidate(
            target_index=int(columns.target[at]),
            evaluated=evaluated,
            hardware_index=int(columns.hardware_index[at]),
            n_index=int(columns.n_index[at]),
            offer=offer,
            batch_index=int(columns.batch_index[at]),
            replicas=int(columns.replicas[at]),
            planned_tokens_per_s=float(columns.planned_tokens_per_s[at]),
            usd_month=float(columns.usd_month[at]),
            usd_per_million=float(columns.usd_per_million[at]),
            tpot_s=float(columns.tpot_s[at]),
            concurrency=float(columns.concurrency[at]),
        )
