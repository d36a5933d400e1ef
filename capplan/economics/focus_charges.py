"""Charges of a FOCUS-shaped estimate: GPUs by the hour, electricity by the kilowatt-hour."""

from __future__ import annotations

import json
from decimal import Decimal

from capplan.economics.decimals import exact, to_cents, to_storable
from capplan.economics.focus_columns import FocusRow
from capplan.errors import RequestError
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.price import BillItem, MonthlyBill, Purchase

OWN = "own"
"""Provider of hardware that is the caller's."""
_DISCOUNTED_TIER = "list"
"""Tier that a stated discount is taken off; see ``capplan.planning.terms``."""
_CATEGORIES = {Purchase.ON_DEMAND: "Standard", Purchase.SPOT: "Dynamic"}
"""A planned reservation is ``Other``: ``Committed`` asks for a commitment that exists."""
_SECONDS_PER_HOUR = Decimal(3600)
_SHARE = Decimal("0.0001")
_PRICE = Decimal("1e-12")
"""Finest price that every reader takes: Parquet keeps 14 decimals, and a third has no end."""


def rent(plan: Plan, option: PlanOption, bill: MonthlyBill) -> FocusRow:
    """Return the charge for GPUs: nodes by the hour, those that no replica uses included."""
    usd = bill.total_usd - bill.usd(BillItem.ELECTRICITY)
    node_hours = to_storable(bill.gpus_paid * bill.paid_hours / bill.gpus_per_node)
    owned = option.provider == OWN
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


def electricity(plan: Plan, option: PlanOption, bill: MonthlyBill) -> FocusRow:
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
