"""A plan's month as a FOCUS-shaped estimate: one row a charge, exact amounts.

FOCUS describes what was billed; it has no data set for a forecast. So an estimate borrows its
columns, bills nothing (``BilledCost`` 0) and says what it is (``x_EstimateType``). Never add such
rows to real ones by anything but ``BilledCost``. The mapping is in ``docs/focus.md``.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

from capplan.economics.decimals import exact, to_cents, to_storable
from capplan.economics.focus_columns import COLUMNS
from capplan.errors import RequestError
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.price import BillItem, MonthlyBill, Purchase

FocusValue = str | Decimal | datetime | None
FocusRow = dict[str, FocusValue]

_CURRENCY = "USD"
_ACCOUNT = "capplan-estimate"
_OWN = "own"
_ANYWHERE = ("any", _OWN, "")
"""Regions that are none: the price holds wherever, or the hardware is the caller's."""
_DISCOUNTED_TIER = "list"
"""Tier that a stated discount is taken off; see ``capplan.planning.terms``."""
_CATEGORIES = {Purchase.ON_DEMAND: "Standard", Purchase.SPOT: "Dynamic"}
"""A planned reservation is ``Other``: ``Committed`` asks for a commitment that exists."""
_SECONDS_PER_HOUR = Decimal(3600)
_SHARE = Decimal("0.0001")
_PRICE = Decimal("1e-12")
"""Finest price that every reader takes: Parquet keeps 14 decimals, and a third has no end."""


def focus_rows(plan: Plan, month: str | None = None, *, rank: int = 1) -> tuple[FocusRow, ...]:
    """Return one option's month as rows, a row a charge; none where no plan fits.

    Parameters
    ----------
    plan
        A plan. Its options are alternatives: only one is exported at a time.
    month
        ``2027-01``; the month after the plan was made by default.
    rank
        Which option, 1 for the recommended one.

    Raises
    ------
    RequestError
        If the month is none, or the plan has no such option, or the option has no bill; if several
        services are placed apart, as one option is not all that is paid for.
    """
    start, end = _period(plan, month)
    if not plan.verdict.feasible and rank == 1:
        return ()
    if not 1 <= rank <= len(plan.options):
        raise RequestError(
            f"The plan has {len(plan.options)} options, no option {rank}.",
            "See them with: capplan report PLAN",
        )
    if plan.fleet is not None and len(plan.fleet.ways[0].parts) > 1:
        raise RequestError(
            "The plan places several services on replicas of their own, and its options are of "
            "the largest part alone: rows of one option would leave the others out.",
            "Plan each part by itself and export that.",
        )
    option = plan.options[rank - 1]
    if option.bill is None:
        raise RequestError(
            f"Option {rank} has no bill line by line: an older capplan wrote this plan.",
            "Make the plan again with: capplan recommend",
        )
    period: FocusRow = {
        "BillingPeriodStart": start,
        "BillingPeriodEnd": end,
        "ChargePeriodStart": start,
        "ChargePeriodEnd": end,
    }
    charges = [_rent(plan, option, option.bill)]
    if option.bill.usd(BillItem.ELECTRICITY):
        charges.append(_electricity(plan, option, option.bill))
    common = _account() | period | _place(option) | _own(plan, option)
    return tuple(_ordered(common | charge) for charge in charges)


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


def _rent(plan: Plan, option: PlanOption, bill: MonthlyBill) -> FocusRow:
    """Return the charge for GPUs: nodes by the hour, those that no replica uses included."""
    usd = bill.total_usd - bill.usd(BillItem.ELECTRICITY)
    node_hours = to_storable(bill.gpus_paid * bill.paid_hours / bill.gpus_per_node)
    owned = option.provider == _OWN
    sku = f"{option.provider}/{option.instance}"
    idle = bill.usd(BillItem.IDLE_GPUS)
    tokens = exact(option.planned_output_tokens_per_s) * bill.serving_hours * _SECONDS_PER_HOUR
    own: FocusRow = {
        "x_GpusPaid": Decimal(bill.gpus_paid),
        "x_GpusInUse": Decimal(bill.gpus_in_use),
        "x_IdleCost": idle,
        "x_IdleShare": (idle / usd).quantize(_SHARE) if usd else None,
        "x_UpfrontCost": bill.upfront_usd,
        "x_OutputTokens": tokens.to_integral_value(),
        "x_CostPerMillionOutputTokens": to_storable(
            exact(option.usd_per_million_output_tokens.mid)
        ),
        "x_Utilization": exact(option.utilisation).quantize(_SHARE),
    }
    words: FocusRow = {
        "ChargeDescription": (
            f"Estimate: {option.instance or option.gpu_name} at {option.provider}, "
            f"{bill.gpus_paid} x {option.gpu_name} for {bill.paid_hours.normalize():f} hours"
        ),
        "ServiceCategory": "Compute",
        "ServiceSubcategory": "Other (Compute)" if owned else "Virtual Machines",
        "ServiceName": "Owned GPUs" if owned else "Rented GPUs",
        "PricingCategory": "Other" if owned else _CATEGORIES.get(option.purchase, "Other"),
        "PricingUnit": "Hours",
        "ConsumedQuantity": bill.gpus_paid * bill.paid_hours,
        "ConsumedUnit": "GPU-Hours",
        "SkuId": sku,
        "SkuMeter": "Instance hours",
        "SkuPriceId": "/".join((sku, option.region, option.purchase.value, option.price_tier)),
        "SkuPriceDetails": json.dumps(
            {"GpuCount": bill.gpus_per_node, "InstanceType": option.instance}
        ),
    }
    price = bill.usd_per_node_hour.quantize(_PRICE).normalize() + 0
    return words | own | _costs(plan, option, usd, node_hours, price)


def _electricity(plan: Plan, option: PlanOption, bill: MonthlyBill) -> FocusRow:
    """Return the charge for the energy of owned hardware, by the kilowatt-hour."""
    if plan.request.electricity is None:
        raise RequestError(
            "The plan bills electricity, but its request states no price of it.",
            "Make the plan again with: capplan recommend --electricity-usd-per-kwh USD",
        )
    usd = bill.usd(BillItem.ELECTRICITY)
    price = plan.request.electricity.usd_per_kwh
    kwh = to_storable(usd / price)
    words: FocusRow = {
        "ChargeDescription": f"Estimate: electricity of {bill.gpus_paid} x {option.gpu_name}",
        "ServiceCategory": "Other",
        "ServiceSubcategory": "Other (Other)",
        "ServiceName": "Electricity",
        "PricingCategory": "Standard",
        "PricingUnit": "kWh",
        "ConsumedQuantity": kwh,
        "ConsumedUnit": "kWh",
        "SkuId": f"{option.provider}/electricity",
        "SkuMeter": "Energy",
        "SkuPriceId": f"{option.provider}/electricity/stated",
    }
    return words | _costs(plan, option, usd, kwh, price)


def _costs(
    plan: Plan, option: PlanOption, usd: Decimal, quantity: Decimal, price: Decimal
) -> FocusRow:
    """Return the money columns: nothing billed, the estimate everywhere else."""
    listed, list_price = usd, price
    if _is_discounted(plan, option):
        list_price = to_storable(price / (1 - plan.request.list_discount))
        listed = to_storable(list_price * quantity)
    total = option.bill.total_usd if option.bill is not None else usd
    share = usd / total if total else Decimal(0)
    return {
        "BilledCost": Decimal("0.00"),
        "ListCost": listed,
        "ListUnitPrice": list_price,
        "ContractedCost": usd,
        "ContractedUnitPrice": price,
        "EffectiveCost": usd,
        "PricingQuantity": quantity,
        "PricingCurrencyListUnitPrice": list_price,
        "PricingCurrencyContractedUnitPrice": price,
        "PricingCurrencyEffectiveCost": usd,
        "x_CostLow": to_cents(exact(option.usd_per_month.low) * share),
        "x_CostHigh": to_cents(exact(option.usd_per_month.high) * share),
    }


def _is_discounted(plan: Plan, option: PlanOption) -> bool:
    listed = option.purchase is Purchase.ON_DEMAND and option.price_tier == _DISCOUNTED_TIER
    return listed and plan.request.list_discount > 0


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
