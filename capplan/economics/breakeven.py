"""GPUs of one's own against a price a token: both bills, and where they cross."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from capplan.economics.decimals import MILLION, Number, exact, positive, to_storable
from capplan.errors import RequestError
from capplan.schema.price import ApiComparison, ApiPrice


@dataclass(frozen=True)
class ApiBill:
    """What an API charges for a month's tokens; the parts add up to the total exactly."""

    input_usd: Decimal
    cached_input_usd: Decimal
    output_usd: Decimal

    @property
    def total_usd(self) -> Decimal:
        """The whole bill."""
        return self.input_usd + self.cached_input_usd + self.output_usd


def api_bill(
    price: ApiPrice,
    *,
    prompt_tokens: Number,
    output_tokens: Number,
    cached_input_share: Number = 0,
) -> ApiBill:
    """Return what an API charges.

    Prompt tokens found in the API's cache are charged at its cached price, at the full price
    where it lists none. They change nothing on the GPU bill, which is for hours.

    Raises
    ------
    RequestError
        If the cached share is not 0 to 1 or a number of tokens is negative.
    """
    cached = _share(cached_input_share)
    prompt, output = _not_negative(prompt_tokens), _not_negative(output_tokens)
    full_price = price.input_usd_per_million_tokens
    listed = price.cached_input_usd_per_million_tokens
    cached_price = full_price if listed is None else listed
    return ApiBill(
        input_usd=prompt * (1 - cached) * full_price / MILLION,
        cached_input_usd=prompt * cached * cached_price / MILLION,
        output_usd=output * price.output_usd_per_million_tokens / MILLION,
    )


def break_even_output_tokens(
    gpu_usd_per_month: Number,
    price: ApiPrice,
    *,
    prompt_per_output_token: Number,
    cached_input_share: Number = 0,
) -> Decimal | None:
    """Return the output tokens a month at which the API's bill equals the GPUs'.

    Below, the API is cheaper: GPUs are paid for by the hour, needed or not. None for a free
    API, whose bill never gets there.
    """
    million = api_bill(
        price,
        prompt_tokens=exact(prompt_per_output_token) * MILLION,
        output_tokens=MILLION,
        cached_input_share=cached_input_share,
    ).total_usd
    gpu_usd = positive(gpu_usd_per_month, "The GPU bill of a month")
    return gpu_usd / million * MILLION if million else None


def compare_with_api(
    price: ApiPrice,
    *,
    gpu_usd_per_month: Number,
    output_tokens_per_month: Number,
    capacity_output_tokens_per_month: Number | None,
    prompt_per_output_token: Number,
    cached_input_share: Number = 0,
) -> ApiComparison:
    """Return both bills for the planned tokens and the volume at which they are equal.

    Parameters
    ----------
    price
        The API's prices.
    gpu_usd_per_month
        The whole GPU bill: every hour that is paid for, not the busy ones alone.
    output_tokens_per_month
        Planned output tokens.
    capacity_output_tokens_per_month
        What the GPUs of that bill can make, None if unknown; a crossing beyond it needs more
        of them.
    prompt_per_output_token
        Prompt tokens that come with one output token.
    cached_input_share
        Share of the prompt tokens that the API charges at its cached price.

    Raises
    ------
    RequestError
        If the bill or the output tokens are not positive, or a share or ratio is out of range.
    """
    output = positive(output_tokens_per_month, "Output tokens a month")
    gpu_usd = positive(gpu_usd_per_month, "The GPU bill of a month")
    ratio = exact(prompt_per_output_token)
    bill = api_bill(
        price,
        prompt_tokens=output * ratio,
        output_tokens=output,
        cached_input_share=cached_input_share,
    )
    crossing = break_even_output_tokens(
        gpu_usd, price, prompt_per_output_token=ratio, cached_input_share=cached_input_share
    )
    capacity = capacity_output_tokens_per_month
    return ApiComparison(
        price=price,
        cached_input_share=_share(cached_input_share),
        output_tokens_per_month=to_storable(output),
        prompt_tokens_per_month=to_storable(output * ratio),
        gpu_usd_per_month=to_storable(gpu_usd),
        api_usd_per_month=to_storable(bill.total_usd),
        api_usd_per_million_output_tokens=to_storable(bill.total_usd / output * MILLION),
        gpu_usd_per_million_output_tokens=to_storable(gpu_usd / output * MILLION),
        break_even_output_tokens_per_month=None if crossing is None else to_storable(crossing),
        capacity_output_tokens_per_month=None
        if capacity is None
        else to_storable(exact(capacity)),
    )


def _not_negative(value: Number) -> Decimal:
    tokens = exact(value)
    if not tokens.is_finite() or tokens < 0:
        raise RequestError(f"A number of tokens is {value}, expected 0 or more.")
    return tokens


def _share(value: Number) -> Decimal:
    share = exact(value)
    if not (share.is_finite() and 0 <= share <= 1):
        raise RequestError(f"The cached share of the prompt is {value}, expected 0 to 1.")
    return share
