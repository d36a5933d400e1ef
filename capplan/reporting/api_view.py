"""A GPU bill beside an API's, in words: both sides of the inequality, never a verdict alone."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from capplan.reporting import formatting as fmt
from capplan.schema.price import ApiComparison, ApiPrice
from capplan.schema.provenance import Kind

_MILLION = 1e6
CAVEAT = (
    "An API may serve other weights, another quantisation or other limits under the same name; "
    "only the bills are compared."
)


@dataclass(frozen=True)
class ApiView:
    """One comparison as text."""

    api: str
    price: str
    gpu_side: str
    sign: str
    api_side: str
    outcome: str
    crossing: str
    capacity: str
    api_usd_per_million: str
    gpu_usd_per_million: str
    source: str
    api_is_dearer: bool
    units: str
    """What the plan rents: ``GPUs`` or ``CPU hosts``."""

    @property
    def inequality(self) -> str:
        """Return both bills and how they compare."""
        return f"{self.units} {self.gpu_side} USD {self.sign} API {self.api_side} USD"


def build_api_view(found: ApiComparison, units: str = "GPUs") -> ApiView:
    """Return the words for one comparison; ``units`` is what the plan rents."""
    gpu, api = found.gpu_usd_per_month, found.api_usd_per_month
    return ApiView(
        api=f"{found.price.provider}: {found.price.model}",
        price=price_text(found.price, found.cached_input_share),
        gpu_side=fmt.cents(gpu),
        sign="<" if gpu < api else ">" if gpu > api else "=",
        api_side=fmt.cents(api),
        outcome=_outcome(gpu, api, units),
        crossing=_crossing(found, units),
        capacity=_tokens(found.capacity_output_tokens_per_month),
        api_usd_per_million=fmt.usd(found.api_usd_per_million_output_tokens),
        gpu_usd_per_million=fmt.usd(found.gpu_usd_per_million_output_tokens),
        source=_source(found.price),
        api_is_dearer=found.api_is_dearer,
        units=units,
    )


def _source(price: ApiPrice) -> str:
    undated = "" if price.source.date or price.source.kind is Kind.ASSUMED else ", undated"
    return f"{price.source}{undated}"


def price_text(price: ApiPrice, cached_share: Decimal) -> str:
    """Return the price list and how much of the prompt is charged at which price."""
    parts = [
        f"{fmt.usd(price.input_usd_per_million_tokens)} prompt",
        f"{fmt.usd(price.output_usd_per_million_tokens)} output",
    ]
    if cached_share:
        cached = price.cached_input_usd_per_million_tokens
        listed = (
            "at the full price (no other is listed)" if cached is None else f"at {fmt.usd(cached)}"
        )
        parts.insert(1, f"{fmt.fine_percent(float(cached_share))} of it cached {listed}")
    steps = "; dearer for long prompts" if price.tiered else ""
    return f"{', '.join(parts)}{steps}"


def _outcome(gpu: Decimal, api: Decimal, units: str) -> str:
    if gpu == api:
        return "both cost the same"
    cheaper, low, high = (f"{units} are", gpu, api) if gpu < api else ("the API is", api, gpu)
    saved = fmt.percent(float(1 - low / high)) if high else ""
    return f"{cheaper} cheaper by {fmt.cents(high - low)} USD ({saved} less)"


def _tokens(count: Decimal | None) -> str:
    return "unknown" if count is None else f"{fmt.number(float(count) / _MILLION)} M"


def _crossing(found: ApiComparison, units: str) -> str:
    """Say at which volume the bills meet, and whether what is rented can serve it."""
    crossing = found.break_even_output_tokens_per_month
    if crossing is None:
        return "never: this API is free"
    text = f"{_tokens(crossing)} output tokens a month"
    if found.reachable is None:
        return text
    limit = _tokens(found.capacity_output_tokens_per_month)
    if found.reachable and found.capacity_output_tokens_per_month:
        used = fmt.fine_percent(float(crossing / found.capacity_output_tokens_per_month))
        return f"{text}, {used} of the {limit} that these {units} can make"
    return f"{text}, beyond the {limit} that these {units} can make: never with them"
