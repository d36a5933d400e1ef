"""A plan's month as a FOCUS-shaped estimate: one row a charge, exact amounts.

FOCUS describes what was billed; it has no data set for a forecast. So an estimate borrows its
columns, bills nothing (``BilledCost`` 0) and says what it is (``x_EstimateType``). Never add such
rows to real ones by anything but ``BilledCost``. The mapping is in ``docs/focus.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from capplan.economics.focus_charges import OWN, electricity, rent
from capplan.economics.focus_columns import COLUMNS, FocusRow, FocusValue
from capplan.errors import RequestError
from capplan.schema.paid_parts import PaidPart, paid_parts
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.price import BillItem

__all__ = ["FocusRow", "FocusValue", "focus_rows"]

_CURRENCY = "USD"
_ACCOUNT = "capplan-estimate"
_ANYWHERE = ("any", OWN, "")
"""Regions that are none: the price holds wherever, or the hardware is the caller's."""


def focus_rows(plan: Plan, month: str | None = None, *, rank: int = 1) -> tuple[FocusRow, ...]:
    """Return the month of all that is paid for as rows, a row a charge; none where no plan fits.

    Of services on replicas of their own every part has its rows, with ``ResourceName`` and
    ``Tags`` saying whose; together they are the fleet's bill.

    Parameters
    ----------
    plan
        A plan. Its options are alternatives: only one is exported at a time.
    month
        ``2027-01``; the month after the plan was made by default.
    rank
        Which option, 1 for the recommended one; of a fleet in several parts that of the largest.

    Raises
    ------
    RequestError
        If the month is none, or the plan has no such option, or an option has no bill.
    """
    start, end = _period(plan, month)
    if not plan.verdict.feasible and rank == 1:
        return ()
    if not 1 <= rank <= len(plan.options):
        raise RequestError(
            f"The plan has {len(plan.options)} options, no option {rank}.",
            "See them with: capplan report PLAN",
        )
    period: FocusRow = {
        "BillingPeriodStart": start,
        "BillingPeriodEnd": end,
        "ChargePeriodStart": start,
        "ChargePeriodEnd": end,
    }
    return tuple(
        _ordered(_account() | period | _resource(part) | charge)
        for part in paid_parts(plan, rank)
        for charge in _charges(plan, part.option)
    )


def _charges(plan: Plan, option: PlanOption) -> Iterator[FocusRow]:
    """Yield what one option is charged for."""
    if option.bill is None:
        raise RequestError(
            f"Option {option.id} has no bill line by line: an older capplan wrote this plan.",
            "Make the plan again with: capplan recommend",
        )
    common = _place(option) | _own(plan, option)
    yield common | rent(plan, option, option.bill)
    if option.bill.usd(BillItem.ELECTRICITY):
        yield common | electricity(plan, option, option.bill)


def _resource(part: PaidPart) -> FocusRow:
    """Return whose replicas a row is for; nothing of a plan of one service, which has no name."""
    if not part.services:
        return {}
    return {
        "ResourceId": f"{_ACCOUNT}/{part.label}",
        "ResourceName": part.label,
        "ResourceType": "Replicas",
        "Tags": json.dumps({"service": part.label}, ensure_ascii=False),
    }


def _ordered(row: FocusRow) -> FocusRow:
    return {name: row.get(name) for name in COLUMNS}


def _period(plan: Plan, month: str | None) -> tuple[datetime, datetime]:
    if month is None:
        made = _moment(plan.created_at)
        start = _next_month(datetime(made.year, made.month, 1, tzinfo=UTC))
    else:
        try:
            start = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
        except ValueError:
            raise RequestError(f"{month!r} is no month.", "Write it as 2027-01.") from None
    return start, _next_month(start)


def _next_month(start: datetime) -> datetime:
    years, months = divmod(start.month, 12)
    return start.replace(year=start.year + years, month=months + 1)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RequestError(f"The plan says it was made at {text!r}, which is no time.") from None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _account() -> FocusRow:
    return {
        "BillingAccountId": _ACCOUNT,
        "BillingAccountName": "capplan estimate, nothing was billed",
        "BillingAccountType": "Estimate",
        "BillingCurrency": _CURRENCY,
        "PricingCurrency": _CURRENCY,
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
    }


def _place(option: PlanOption) -> FocusRow:
    region = None if option.region in _ANYWHERE else option.region
    return {
        "ProviderName": option.provider,
        "PublisherName": option.provider,
        "InvoiceIssuerName": option.provider,
        "RegionId": region,
        "RegionName": region,
    }


def _own(plan: Plan, option: PlanOption) -> FocusRow:
    term = option.term_months
    return {
        "x_EstimateType": "Forecast",
        "x_OptionId": option.id,
        "x_PlanCreated": _moment(plan.created_at),
        "x_ToolVersion": f"capplan {plan.capplan_version}",
        "x_TargetModel": option.target,
        "x_DraftModel": option.draft,
        "x_SpeculationMethod": option.method.value,
        "x_SpeculationLength": Decimal(option.num_speculative_tokens),
        "x_PurchaseType": option.purchase.value,
        "x_TermMonths": None if term is None else Decimal(term),
        "x_PriceTier": option.price_tier,
        "x_PriceSource": str(option.price_source),
        "x_PriceDate": option.price_source.date,
        "x_GpuModel": option.gpu_name,
        "x_Replicas": Decimal(option.replicas),
        "x_PaidHours": option.bill.paid_hours if option.bill is not None else None,
        "x_ServingHours": option.bill.serving_hours if option.bill is not None else None,
    }
