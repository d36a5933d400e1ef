"""What may be asked of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

DEFAULT_MOVE = 0.2
DEFAULT_MONTHS = 24


@dataclass(frozen=True)
class Spot:
    """A share of the load on spot GPUs; without a price, that of the option's own provider."""

    share: float
    interruption_overhead: float
    usd_per_gpu_hour: Decimal | None = None


@dataclass(frozen=True)
class Commitment:
    """A share of the nodes committed to; without a price, the provider's lowest one."""

    share: float
    usd_per_gpu_hour: Decimal | None = None


@dataclass(frozen=True)
class Questions:
    """What is asked of a plan; all None: its sensitivity.

    Attributes
    ----------
    move_by
        Each assumption by so much down and up.
    factors
        Factors by name (``load``, ``price``, ...): every combination is a scenario.
    growth_per_month, months
        Of the load, as a fraction, and how many months are listed.
    autoscale, scale_up_lag_minutes
        Replicas that follow the hours of the workload's shape.
    spares
        Up to so many spare replicas.
    spot, commitment
        Other prices for a share of the fleet.
    """

    move_by: float | None = None
    factors: Mapping[str, Sequence[float]] | None = None
    growth_per_month: float | None = None
    months: int = DEFAULT_MONTHS
    autoscale: bool = False
    scale_up_lag_minutes: float = 0.0
    spares: int | None = None
    spot: Spot | None = None
    commitment: Commitment | None = None

    @property
    def keeps_the_option(self) -> bool:
        """Whether anything is asked of the planned option itself."""
        named = (self.growth_per_month, self.spares, self.spot, self.commitment)
        return self.autoscale or any(one is not None for one in named)

    @property
    def nothing_named(self) -> bool:
        """Whether only the default can be meant."""
        return not self.keeps_the_option and self.move_by is None and self.factors is None
