"""Token prices of hosted APIs: what self-hosting competes with."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from capplan.facts.rows import build, read_family
from capplan.schema.base import Value
from capplan.schema.provenance import Kind, Source

API_PRICE_COLUMNS = (
    *("model", "family", "provider", "input_usd_per_million_tokens"),
    *("output_usd_per_million_tokens", "cached_input_usd_per_million_tokens"),
    *("context_window", "tiered", "source", "as_of"),
)


class ApiPrice(Value):
    """Price of one hosted LLM at one provider."""

    model: str
    """Name at the provider; not always a Hugging Face id."""
    family: str
    provider: str
    input_usd_per_million_tokens: float = Field(ge=0)
    output_usd_per_million_tokens: float = Field(ge=0)
    cached_input_usd_per_million_tokens: float | None = Field(default=None, ge=0)
    context_window: int | None = None
    tiered: bool
    """Whether the price rises with the prompt's length; the lowest step is given."""
    source: Source


def load_api_prices(folder: Path) -> tuple[ApiPrice, ...]:
    """Load the snapshot of API prices.

    Raises
    ------
    FactsError
        If the file is missing or a row is wrong; the message names file and line.
    """
    prices: list[ApiPrice] = []
    for row in read_family(folder, API_PRICE_COLUMNS):
        source = Source(
            kind=Kind.CITED, reference=row.required("source"), date=row.required("as_of")
        )
        figures = {k: v for k, v in row.cells.items() if v and k not in ("source", "as_of")}
        prices.append(build(ApiPrice, row, {**figures, "source": source}))
    return tuple(prices)
