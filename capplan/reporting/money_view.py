"""What one option costs, line by line, and what a token costs when less of it is used."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from capplan.economics.decimals import exact
from capplan.economics.tokens import UTILISATIONS, utilisation_curve
from capplan.reporting import formatting as fmt
from capplan.schema.plan import PlanOption
from capplan.schema.price import BillItem, MonthlyBill


def _label(item: BillItem, units: str) -> str:
    return {
        BillItem.GPUS_IN_USE: f"{units} in use",
        BillItem.IDLE_GPUS: f"Idle {units}",
        BillItem.ELECTRICITY: "Electricity",
    }[item]


@dataclass(frozen=True)
class BillRow:
    """One line of the bill, to the cent."""

    label: str
    note: str
    usd: str

    @property
    def inline(self) -> str:
        """The label within a sentence: ``idle GPUs``."""
        first, rest = self.label[0], self.label[1:]
        return f"{first.lower() if rest[0].islower() else first}{rest}"


@dataclass(frozen=True)
class UtilisationRow:
    """The price of a token when so much of the throughput is used."""

    utilisation: str
    usd_per_million: str
    share: float
    usd: float
    planned: bool


@dataclass(frozen=True)
class MoneyView:
    """The bill of one option and its price of a token by utilisation."""

    hours: str
    """Hours paid for, and those served where they differ."""
    rows: tuple[BillRow, ...]
    total: str
    rate: str
    """Nodes, price and hours that the rent is the product of."""
    upfront: str
    idle: str
    """Of the total, what GPUs cost that no replica uses; empty for none."""
    utilisation: tuple[UtilisationRow, ...]

    @property
    def sum_text(self) -> str:
        """Return the bill as one sum."""
        parts = " + ".join(f"{row.usd} for {row.inline} ({row.note})" for row in self.rows)
        return f"{parts} = {self.total} USD: {self.rate}"


def build_money(option: PlanOption) -> MoneyView | None:
    """Return the words for an option's bill; None for a plan of an older version."""
    bill = option.bill
    if bill is None:
        return None
    return MoneyView(
        hours=_hours(bill),
        rows=tuple(
            BillRow(_label(line.item, option.units), _note(line.item, bill), fmt.cents(line.usd))
            for line in bill.lines
        ),
        total=fmt.cents(bill.total_usd),
        rate=_rate(bill, option),
        upfront=fmt.cents(bill.upfront_usd) if bill.upfront_usd else "",
        idle=fmt.usd(bill.usd(BillItem.IDLE_GPUS)) if bill.usd(BillItem.IDLE_GPUS) else "",
        utilisation=_by_utilisation(option, bill),
    )


def hours_text(bill: MonthlyBill) -> str:
    """Return ``730``: hours without needless decimals."""
    return f"{float(bill.paid_hours):,.10g}"


def _hours(bill: MonthlyBill) -> str:
    paid = f"{hours_text(bill)} hours paid for"
    if bill.paid_hours == bill.serving_hours:
        return paid
    return f"{paid}, {float(bill.serving_hours):,.10g} of them served"


def _note(item: BillItem, bill: MonthlyBill) -> str:
    if item is BillItem.IDLE_GPUS:
        return f"{bill.gpus_paid - bill.gpus_in_use} of {bill.gpus_paid}"
    count = bill.gpus_in_use if item is BillItem.GPUS_IN_USE else bill.gpus_paid
    return f"{count:,}" if count == bill.gpus_paid else f"{count:,} of {bill.gpus_paid:,}"


def _rate(bill: MonthlyBill, option: PlanOption) -> str:
    price = f"{_unrounded(bill.usd_per_node_hour)} USD/h, {hours_text(bill)} h"
    if bill.nodes is None:
        noun = option.unit if bill.gpus_paid == 1 else option.units
        shared = f" of shared nodes of {bill.gpus_per_node}" if bill.gpus_per_node > 1 else ""
        return f"{bill.gpus_paid:,} {noun}{shared} at {price}{' a node' if shared else ''}"
    noun = "node" if bill.nodes == 1 else "nodes"
    size = (
        f" of {bill.gpus_per_node} {option.units}"
        if bill.gpus_per_node > 1
        else f" of one {option.unit}"
    )
    return f"{bill.nodes:,} {noun}{size} at {price}"


def _unrounded(usd: Decimal) -> str:
    """Return an amount with all its digits, cents at least: ``16.80``, ``21.957642``."""
    return fmt.cents(usd) if usd == round(usd, 2) else f"{usd.normalize():,f}"


def _by_utilisation(option: PlanOption, bill: MonthlyBill) -> tuple[UtilisationRow, ...]:
    """Hold the bill and vary what is asked of it; the plan's own point stands among the rest."""
    per_hour = bill.total_usd / bill.serving_hours
    planned = exact(round(option.utilisation, 6))
    shares = {fmt.fine_percent(float(share)): share for share in UTILISATIONS}
    if 0 < planned <= 1:
        shares[fmt.fine_percent(float(planned))] = planned
    curve = utilisation_curve(per_hour, option.output_tokens_per_s.mid, tuple(shares.values()))
    return tuple(
        UtilisationRow(
            utilisation=fmt.fine_percent(float(share)),
            usd_per_million=fmt.usd_unit(usd),
            share=float(share),
            usd=float(usd),
            planned=share == planned,
        )
        for share, usd in sorted(curve)
    )
