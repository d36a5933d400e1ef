"""A month's bill, exact: nodes, hours, idle GPUs, electricity (``docs/method/economics.md``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from capplan.economics.decimals import Number, exact, positive, to_cents, to_storable
from capplan.errors import RequestError
from capplan.schema.price import BillItem, BillLine, MonthlyBill
from capplan.units import HOURS_PER_MONTH

MONTH_HOURS = exact(HOURS_PER_MONTH).normalize() + 0
WATTS_PER_KW = Decimal(1000)


@dataclass(frozen=True)
class Tariff:
    """How one offer is paid for during a month."""

    usd_per_node_hour: Decimal
    gpus_per_node: int
    serving_hours: Decimal = MONTH_HOURS
    """Hours of the month in which the load arrives."""
    always_on: bool = False
    """A reservation: every hour of the month is paid for, used or not."""
    share_node: bool = False
    """Somebody else pays for the GPUs of a node that no replica uses."""
    energy_usd_per_gpu_hour: Decimal = Decimal(0)
    """Electricity of owned hardware; zero where the price has it in it."""
    term_months: int | None = None
    upfront_share: Decimal = Decimal(0)

    @property
    def paid_hours(self) -> Decimal:
        """Hours of the month on the bill."""
        return max(self.serving_hours, MONTH_HOURS) if self.always_on else self.serving_hours

    def gpus_paid(self, replicas: int, gpus_per_replica: int) -> int:
        """Return the GPUs on the bill: those of whole nodes, unless nodes are shared.

        Raises
        ------
        RequestError
            If a replica does not fit a node.
        """
        if self.share_node:
            return replicas * gpus_per_replica
        return nodes_for(replicas, gpus_per_replica, self.gpus_per_node) * self.gpus_per_node

    @property
    def usd_per_gpu_hour(self) -> Decimal:
        """What a GPU on the bill costs a paid hour, electricity included."""
        return self.usd_per_node_hour / self.gpus_per_node + self.energy_usd_per_gpu_hour

    @property
    def usd_per_serving_gpu_hour(self) -> Decimal:
        """The same over the hours in which it serves: idle hours of a reservation are in it."""
        return self.usd_per_gpu_hour * self.paid_hours / self.serving_hours


def nodes_for(replicas: int, gpus_per_replica: int, gpus_per_node: int) -> int:
    """Return whole nodes for the replicas; a replica never spans two nodes.

    Raises
    ------
    RequestError
        If a replica does not fit a node.
    """
    per_node = gpus_per_node // gpus_per_replica
    if per_node < 1:
        raise RequestError(
            f"A replica of {gpus_per_replica} GPUs does not fit a node of {gpus_per_node}."
        )
    return math.ceil(replicas / per_node)


def node_hours(nodes: int, hours_per_month: Number = MONTH_HOURS) -> Decimal:
    """Return the hours on the bill of so many nodes: two for a whole month are 1,460."""
    return nodes * positive(hours_per_month, "Hours a month")


def rent_usd(
    nodes: int, usd_per_node_hour: Number, hours_per_month: Number = MONTH_HOURS
) -> Decimal:
    """Return nodes * price * hours, exactly."""
    return node_hours(nodes, hours_per_month) * exact(usd_per_node_hour)


def energy_usd_per_gpu_hour(watts: Number, usd_per_kwh: Number, pue: Number = 1) -> Decimal:
    """Return what a GPU's electricity costs an hour.

    Parameters
    ----------
    watts
        Mean power of the GPU while it serves; its rated power is an upper bound.
    usd_per_kwh
        Price of electricity.
    pue
        Energy of the whole site over that of its computers, >= 1.
    """
    return exact(watts) / WATTS_PER_KW * exact(usd_per_kwh) * exact(pue)


def monthly_bill(replicas: int, gpus_per_replica: int, tariff: Tariff) -> MonthlyBill:
    """Return the bill of a month; its lines add up to its total exactly.

    The rent is nodes * price * hours, to eight decimals. Shares of it (GPUs in use, electricity)
    are rounded to the cent and the idle GPUs take what is left, so that the lines also add up
    when they are shown in cents.

    Raises
    ------
    RequestError
        If a replica does not fit a node.
    """
    in_use = replicas * gpus_per_replica
    paid = tariff.gpus_paid(replicas, gpus_per_replica)
    rent = to_storable(tariff.usd_per_node_hour * paid * tariff.paid_hours / tariff.gpus_per_node)
    used = rent if in_use == paid else to_cents(rent * in_use / paid)
    electricity = to_cents(tariff.energy_usd_per_gpu_hour * paid * tariff.paid_hours)
    amounts = {
        BillItem.GPUS_IN_USE: used,
        BillItem.IDLE_GPUS: rent - used,
        BillItem.ELECTRICITY: electricity,
    }
    return MonthlyBill(
        nodes=None if tariff.share_node else paid // tariff.gpus_per_node,
        gpus_paid=paid,
        gpus_in_use=in_use,
        gpus_per_node=tariff.gpus_per_node,
        usd_per_node_hour=tariff.usd_per_node_hour,
        paid_hours=tariff.paid_hours,
        serving_hours=tariff.serving_hours,
        lines=tuple(BillLine(item=item, usd=usd) for item, usd in amounts.items() if usd),
        total_usd=rent + electricity,
        upfront_usd=to_cents(rent * (tariff.term_months or 0) * tariff.upfront_share),
    )
