"""What the planner works from: facts, engine constants and what profiles showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from capplan.errors import UnknownIdError
from capplan.planning.terms import OWN_PRICE_TIER, discounted, sized
from capplan.schema.engine import EngineConstants
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Pairing
from capplan.schema.plan import PlanRequest
from capplan.schema.price import PriceRow, Purchase
from capplan.schema.provenance import Kind, Source

if TYPE_CHECKING:
    from capplan.estimate.evidence import ProfileEvidence
    from capplan.schema.calibration import Calibration
    from capplan.schema.measured_setup import Device

PROFILE_PRICE_KEY = "profile"


@dataclass(frozen=True)
class ProfiledMachine:
    """A profile with the hardware it was taken on."""

    evidence: ProfileEvidence
    gpu: GpuSpec | None
    """The catalogue's GPU, where the device name is known; None for a CPU or an unknown GPU."""

    @property
    def gpu_id(self) -> str:
        """Id under which plans name the hardware."""
        return self.gpu.id if self.gpu is not None else f"profile:{self.device.name}"

    @property
    def device(self) -> Device:
        """The device as measured."""
        return self.evidence.profile.environment.device

    @property
    def max_batch(self) -> float:
        """Largest batch measured: the fit is not stretched beyond it."""
        return float(max(cell.batch for cell in self.evidence.profile.timing))


@dataclass(frozen=True)
class NamedCalibration:
    """A calibration under the name that plans cite it by: its file."""

    calibration: Calibration
    name: str


@dataclass(frozen=True)
class PlanInputs:
    """Facts and evidence, already loaded."""

    gpus: Mapping[str, GpuSpec]
    llms: Mapping[str, LlmSpec]
    pairings: Sequence[Pairing]
    acceptance: Sequence[AcceptanceFact]
    prices: Sequence[PriceRow]
    engine: EngineConstants
    machines: Sequence[ProfiledMachine]
    calibrations: Sequence[NamedCalibration] = ()
    """At most one a GPU, all of ``engine``."""

    def calibrated(self, gpu_id: str) -> bool:
        """Whether the engine's constants were fitted on this GPU."""
        return any(one.calibration.gpu == gpu_id for one in self.calibrations)

    def target(self, target_id: str) -> LlmSpec:
        """Return a target's spec, from a profile of it or from the catalogue.

        Raises
        ------
        UnknownIdError
            If neither knows it.
        """
        for machine in self.machines:
            if machine.evidence.target.id == target_id:
                return machine.evidence.target
        if target_id in self.llms:
            return self.llms[target_id]
        raise UnknownIdError(
            f"Unknown target {target_id!r}: neither models_db nor a profile has it.",
            "List known ones with: capplan facts models",
        )

    def machines_for(self, target_id: str) -> list[ProfiledMachine]:
        """Return the profiled machines that ran this target."""
        return [machine for machine in self.machines if machine.evidence.target.id == target_id]


def usable_prices(inputs: PlanInputs, request: PlanRequest) -> list[PriceRow]:
    """Return the price rows that the request allows, its own prices included."""
    rows = [row for row in inputs.prices if _allowed(row, inputs, request)]
    rows = discounted(rows, request.list_discount)
    return [*sized(rows, request.tensor_parallel), *_own_rows(inputs, request)]


def _allowed(row: PriceRow, inputs: PlanInputs, request: PlanRequest) -> bool:
    return (
        row.gpu in inputs.gpus
        and row.purchase in request.purchases
        and row.tier in request.price_tiers
        and (not request.gpus or row.gpu in request.gpus)
        and (not request.providers or row.provider in request.providers)
        and row.gpu not in request.gpu_price_usd_per_hour
    )


def _own_rows(inputs: PlanInputs, request: PlanRequest) -> list[PriceRow]:
    rows: list[PriceRow] = []
    source = Source(kind=Kind.ASSUMED, reference="stated with the request (--gpu-price)")
    for key, usd in request.gpu_price_usd_per_hour.items():
        if key == PROFILE_PRICE_KEY:
            continue
        if key not in inputs.gpus:
            raise UnknownIdError(
                f"--gpu-price names an unknown GPU {key!r}.",
                f"Use a GPU id (capplan facts gpus) or {PROFILE_PRICE_KEY!r}.",
            )
        if request.gpus and key not in request.gpus:
            continue
        rows.extend(
            _own_row(key, inputs.gpus[key].name, count, usd * count, source)
            for count in request.tensor_parallel
        )
    return rows


def _own_row(
    gpu_id: str, name: str, count: int, usd_per_hour: Decimal, source: Source
) -> PriceRow:
    return PriceRow(
        provider="own",
        instance=f"{count} x {name}" if count > 1 else name,
        gpu=gpu_id,
        gpu_count=count,
        region="own",
        purchase=Purchase.ON_DEMAND,
        tier=OWN_PRICE_TIER,
        any_count=True,
        usd_per_hour=usd_per_hour,
        source=source,
    )


def machine_prices(
    machine: ProfiledMachine, prices: Sequence[PriceRow], request: PlanRequest
) -> list[PriceRow]:
    """Return the offers of the profiled hardware: the stated price, else catalogue rows."""
    usd = request.gpu_price_usd_per_hour.get(PROFILE_PRICE_KEY)
    device = machine.device
    if usd is not None:
        source = Source(kind=Kind.ASSUMED, reference="stated with the request (--gpu-price)")
        return [_own_row(machine.gpu_id, device.name, device.count, usd * device.count, source)]
    return [row for row in prices if row.gpu == machine.gpu_id]


def column(values: Sequence[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return values along the hardware axis of (hardware, N, batch)."""
    return np.array(values, dtype=float).reshape(-1, 1, 1)
