"""Columns of a FOCUS-shaped estimate: all of FOCUS 1.2, then ours.

Listed by hand, so that no change elsewhere changes the file. ``models_db/focus`` has the same
list with types and rules, and its source; a test compares them.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

FocusValue = str | Decimal | datetime | None
FocusRow = dict[str, FocusValue]

FOCUS_VERSION = "1.2"

FOCUS_COLUMNS: tuple[str, ...] = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingCurrency",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
)

OWN_COLUMNS: tuple[str, ...] = (
    "x_EstimateType",
    "x_OptionId",
    "x_PlanCreated",
    "x_ToolVersion",
    "x_TargetModel",
    "x_DraftModel",
    "x_SpeculationMethod",
    "x_SpeculationLength",
    "x_PurchaseType",
    "x_TermMonths",
    "x_PriceTier",
    "x_PriceSource",
    "x_PriceDate",
    "x_GpuModel",
    "x_Replicas",
    "x_GpusPaid",
    "x_GpusInUse",
    "x_PaidHours",
    "x_ServingHours",
    "x_IdleCost",
    "x_IdleShare",
    "x_CostLow",
    "x_CostHigh",
    "x_UpfrontCost",
    "x_OutputTokens",
    "x_CostPerMillionOutputTokens",
    "x_Utilization",
)

COLUMNS = (*FOCUS_COLUMNS, *OWN_COLUMNS)

DECIMAL_COLUMNS = frozenset(
    {
        "BilledCost",
        "CommitmentDiscountQuantity",
        "ConsumedQuantity",
        "ContractedCost",
        "ContractedUnitPrice",
        "EffectiveCost",
        "ListCost",
        "ListUnitPrice",
        "PricingCurrencyContractedUnitPrice",
        "PricingCurrencyEffectiveCost",
        "PricingCurrencyListUnitPrice",
        "PricingQuantity",
        "x_SpeculationLength",
        "x_TermMonths",
        "x_Replicas",
        "x_GpusPaid",
        "x_GpusInUse",
        "x_PaidHours",
        "x_ServingHours",
        "x_IdleCost",
        "x_IdleShare",
        "x_CostLow",
        "x_CostHigh",
        "x_UpfrontCost",
        "x_OutputTokens",
        "x_CostPerMillionOutputTokens",
        "x_Utilization",
    }
)
MOMENT_COLUMNS = frozenset(
    {
        "BillingPeriodEnd",
        "BillingPeriodStart",
        "ChargePeriodEnd",
        "ChargePeriodStart",
        "x_PlanCreated",
    }
)
"""All other columns are text."""
