"""A month's bill, exact: nodes, hours, idle GPUs, electricity (``docs/method/economics.md``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from capplan.economics.decimals import Number, exact, positive, to_cents, to_storable
from capplan.errors import RequestError
from capplan.schema.price import BillItem, BillLine, MonthlyBill, spread_over_term
from capplan.units import HOURS_PER_MONTH

MONTH_HOURS = exact(HOURS_PER_MONTH).normalize() + 0
CALENDAR_MONTHS = frozenset(Decimal(24 * days) for days in (28, 29, 30, 31))
"""Hours of the months of the calendar: whole ones, too."""
LONGEST_MONTH_HOURS = max(CALENDAR_MONTHS)
LARGEST_BILL_USD = Decimal("1e13")
"""Cents of a larger one are beyond the 15 digits that JSON keeps."""
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

    @cached_property
    def paid_hours(self) -> Decimal:
        """Hours of the month on the bill.

        A reservation is paid for in all of them: 730, or those of a whole month of 28 to 31 days
        where the month is stated as one.
        """
        if not self.always_on or self.serving_hours in CALENDAR_MONTHS:
            return self.serving_hours
        return max(self.serving_hours, MONTH_HOURS)

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

    @cached_property
    def usd_per_gpu_hour(self) -> Decimal:
        """What a GPU on the bill costs a paid hour, electricity included."""
        return self.usd_per_node_hour / self.gpus_per_node + self.energy_usd_per_gpu_hour

    @property
    def usd_per_serving_gpu_hour(self) -> Decimal:
        """The same over the hours in which it serves: idle hours of a reservation are in it."""
        return self.usd_per_gpu_hour * self.paid_hours / self.serving_hours


def _upfront_usd(tariff: Tariff, gpus_paid: int) -> Decimal:
    """Return what is due on the first day: of a term of months of 730 hours, however long one is.

    The price an hour was spread over that term.
    """
    hours = (tariff.term_months or 0) * MONTH_HOURS
    rent = tariff.usd_per_node_hour * gpus_paid * hours / tariff.gpus_per_node
    return rent * tariff.upfront_share


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
    price = positive(usd_per_node_hour, "The price of a node and hour")
    return node_hours(nodes, hours_per_month) * price


def spread_usd_per_hour(
    usd_per_hour: Number, upfront_usd: Number, term_months: int
) -> tuple[Decimal, Decimal]:
    """Return a reservation's whole cost an hour of its term, and the share due on the first day.

    Parameters
    ----------
    usd_per_hour
        What each hour costs besides, 0 where all is paid on the first day.
    upfront_usd
        Due on the first day.
    term_months
        Months of 730 hours.

    Raises
    ------
    RequestError
        If an amount is negative or nothing is paid at all.
    """
    positive(term_months, "The term in months")
    hourly, upfront = exact(usd_per_hour), exact(upfront_usd)
    if not (hourly.is_finite() and upfront.is_finite() and min(hourly, upfront) >= 0):
        raise RequestError(f"A reservation of {hourly} USD/h and {upfront} USD is no price.")
    positive(hourly + upfront, "The whole cost of the reservation")
    return spread_over_term(hourly, upfront, term_months)


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

    Raises
    ------
    RequestError
        If a figure is out of its range.
    """
    kilowatts = positive(watts, "Watts a GPU") / WATTS_PER_KW
    site = positive(pue, "Power usage effectiveness")
    if site < 1:
        raise RequestError(f"A power usage effectiveness of {pue} is none, expected 1 or more.")
    return kilowatts * positive(usd_per_kwh, "The price of electricity") * site


def monthly_bill(
    replicas: int, gpus_per_replica: int, tariff: Tariff, *, least_nodes: int = 0
) -> MonthlyBill:
    """Return the bill of a month; its lines add up to its total exactly.

    The rent is nodes * price * hours, to eight decimals. Shares of it (GPUs in use, electricity)
    are rounded to the cent and the idle GPUs take what is left, so that the lines also add up
    when they are shown in cents. ``least_nodes`` are paid for even where the replicas need fewer.

    Raises
    ------
    RequestError
        If a replica does not fit a node, or the bill is no amount of money.
    """
    positive(tariff.usd_per_node_hour, "The price of a node and hour")
    positive(tariff.serving_hours, "Hours a month")
    in_use = int(positive(replicas * gpus_per_replica, "The number of GPUs in use"))
    needed = tariff.gpus_paid(replicas, gpus_per_replica)
    paid = max(needed, least_nodes * tariff.gpus_per_node)
    rent = to_storable(tariff.usd_per_node_hour * paid * tariff.paid_hours / tariff.gpus_per_node)
    if rent > LARGEST_BILL_USD:
        raise RequestError(
            f"A bill of {rent:.3e} USD a month is beyond {LARGEST_BILL_USD:.0e} USD.",
            "Look for a wrong unit among price, nodes and hours.",
        )
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
        upfront_usd=to_cents(_upfront_usd(tariff, paid)),
    )
