"""Token prices of hosted APIs: what self-hosting competes with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from capplan.facts.lookup import resolve
from capplan.facts.rows import build, read_family
from capplan.schema.price import ApiPrice
from capplan.schema.provenance import Kind, Source

API_PRICE_COLUMNS = (
    *("model", "family", "provider", "input_usd_per_million_tokens"),
    *("output_usd_per_million_tokens", "cached_input_usd_per_million_tokens"),
    *("context_window", "tiered", "source", "as_of"),
)
_PACKAGE = "genai_prices"


@dataclass(frozen=True)
class ApiPriceTable:
    """API prices with the one place that all of them come from."""

    prices: tuple[ApiPrice, ...]
    origin: str
    """Which table this is, and of when."""


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


def current_api_prices(snapshot: tuple[ApiPrice, ...], now: datetime) -> ApiPriceTable:
    """Return the prices of the installed genai-prices, else the shipped snapshot.

    The two are never mixed. genai-prices knows prices that change by date or hour; those of
    ``now`` are taken. Nothing is downloaded.
    """
    if find_spec(_PACKAGE) is None:
        dates = sorted({price.source.date or "undated" for price in snapshot})
        return ApiPriceTable(snapshot, f"capplan's snapshot of {' and '.join(dates)}")
    return _installed(snapshot, now)


def _installed(snapshot: tuple[ApiPrice, ...], now: datetime) -> ApiPriceTable:
    package = import_module(_PACKAGE)
    table = import_module(f"{_PACKAGE}.data_snapshot").get_snapshot()
    # the bundled table has no date of its own; one that was updated does
    updated = table.timestamp.date().isoformat() if table.from_auto_update else None
    release = f"genai-prices {package.__version__}"
    source = Source(kind=Kind.CITED, reference=f"{release} (installed package)", date=updated)
    families = sorted({price.family for price in snapshot}, key=len, reverse=True)
    prices = (
        price
        for provider in table.providers
        for model in provider.models
        if (price := _from_package(provider.id, model, now, families, source)) is not None
    )
    when = updated or "its release is undated"
    return ApiPriceTable(
        tuple(prices), f"the installed {release} ({when}), at the prices of {now.date()}"
    )


def _from_package(
    provider: str, model: Any, now: datetime, families: Iterable[str], source: Source
) -> ApiPrice | None:
    """Return a model's prices by the token; None where prompt or answer has none."""
    listed = model.get_prices(now)
    steps = [
        getattr(listed, name, None) for name in ("input_mtok", "output_mtok", "cache_read_mtok")
    ]
    fresh, output, cached = (_lowest_step(step) for step in steps)
    if fresh is None or output is None:
        return None
    return ApiPrice(
        model=model.id,
        family=family_of(model.id, families),
        provider=provider,
        input_usd_per_million_tokens=fresh,
        output_usd_per_million_tokens=output,
        cached_input_usd_per_million_tokens=cached,
        context_window=model.context_window,
        tiered=any(hasattr(step, "tiers") for step in steps),
        source=source,
    )


def _lowest_step(price: Any) -> Decimal | None:
    value: Decimal | None = getattr(price, "base", price)
    return value


def family_of(model_id: str, families: Iterable[str]) -> str:
    """Return the family that the id names, ``other`` for none; longer names are tried first."""
    text = _joined(model_id)
    return next((name for name in families if _joined(name) in text), "other")


def _joined(name: str) -> str:
    """Return ``llama3-1`` for ``llama-3.1`` and ``llama3.1`` alike."""
    return re.sub(r"([a-z])-(\d)", r"\1\2", _normal(name))


def _normal(name: str) -> str:
    """Return an id without its organisation, with one hyphen between words and digits."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().rpartition("/")[2]).strip("-")


def find_api_prices(prices: Iterable[ApiPrice], name: str) -> tuple[ApiPrice, ...]:
    """Return every provider's price of the hosted LLM of this name, cheapest output first.

    Parameters
    ----------
    prices
        Where to look.
    name
        The model's id at the provider, with or without its organisation; ``provider:model``
        keeps one provider.

    Raises
    ------
    UnknownIdError
        If no provider lists it; the nearest names are offered.
    """
    known = tuple(prices)
    provider, colon, model = name.partition(":")
    if colon and any(price.provider == provider.lower() for price in known):
        known = tuple(price for price in known if price.provider == provider.lower())
    else:
        model = name
    wanted = model.lower()
    found = [price for price in known if price.model.lower() == wanted]
    found = found or hosted_as(known, model)
    if not found:
        only = resolve(model, (price.model for price in known), "API model")
        found = [price for price in known if price.model == only]
    return tuple(sorted(found, key=_by_cost))


def hosted_as(prices: Iterable[ApiPrice], llm_id: str) -> list[ApiPrice]:
    """Return prices of hosted LLMs that bear the name of this one.

    The name alone says nothing of revision or quantisation: a provider may serve another one.
    """
    wanted = _normal(llm_id)
    return sorted((price for price in prices if _normal(price.model) == wanted), key=_by_cost)


def _by_cost(price: ApiPrice) -> tuple[Decimal, Decimal, str]:
    return (
        price.output_usd_per_million_tokens,
        price.input_usd_per_million_tokens,
        price.provider,
    )
