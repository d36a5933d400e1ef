"""A plan's bill beside what hosted LLMs would charge for the same tokens."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from capplan.economics.breakeven import compare_with_api
from capplan.economics.decimals import exact
from capplan.schema.plan import PlanOption, PlanRequest
from capplan.schema.price import ApiComparison, ApiPrice
from capplan.units import SECONDS_PER_HOUR


def compare_option(
    option: PlanOption,
    request: PlanRequest,
    prices: Iterable[ApiPrice],
    cached_input_share: Decimal | None = None,
) -> tuple[ApiComparison, ...]:
    """Return one option's whole monthly bill beside each API's, the cheapest API first.

    The GPU side is every paid hour of the month. Tokens are those of the hours in which the
    load arrives; the prompt comes with them in the workload's proportion.
    """
    bill = option.bill
    usd = exact(option.usd_per_month.mid) if bill is None else bill.total_usd
    seconds = request.hours_per_month * exact(SECONDS_PER_HOUR)
    workload = request.workload
    share = request.cached_input_share if cached_input_share is None else cached_input_share
    compared = (
        compare_with_api(
            price,
            gpu_usd_per_month=usd,
            output_tokens_per_month=exact(option.planned_output_tokens_per_s) * seconds,
            capacity_output_tokens_per_month=exact(option.output_tokens_per_s.mid) * seconds,
            prompt_per_output_token=exact(workload.prompt_tokens) / workload.output_tokens,
            cached_input_share=share,
        )
        for price in prices
    )
    return tuple(sorted(compared, key=lambda found: found.api_usd_per_month))
