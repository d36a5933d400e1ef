"""API prices: one table at a time, and which one is said."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from importlib.util import find_spec

import pytest

from capplan.errors import UnknownIdError
from capplan.facts import api_prices
from capplan.facts.api_prices import (
    current_api_prices,
    family_of,
    find_api_prices,
    hosted_as,
)
from capplan.facts.catalog import load_catalog

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SNAPSHOT = load_catalog().api_prices


def test_without_the_package_the_snapshot_is_used_and_its_day_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api_prices, "find_spec", lambda _name: None)
    table = current_api_prices(SNAPSHOT, NOW)
    assert table.prices is SNAPSHOT
    assert "2026-11-29" in table.origin
    assert "snapshot" in table.origin


@pytest.mark.skipif(find_spec("genai_prices") is None, reason="needs genai-prices")
def test_the_installed_package_is_used_alone() -> None:
    table = current_api_prices(SNAPSHOT, NOW)
    assert "installed genai-prices" in table.origin
    assert len(table.prices) > len(SNAPSHOT)
    assert all("installed package" in price.source.reference for price in table.prices)
    groq = find_api_prices(table.prices, "groq:llama-3.1-8b-instant")
    assert [price.input_usd_per_million_tokens for price in groq] == [Decimal("0.05")]


def test_amounts_are_those_in_the_file() -> None:
    (price,) = find_api_prices(SNAPSHOT, "cloudflare:@cf/meta/llama-3.1-8b-instruct-fp8")
    assert price.output_usd_per_million_tokens == Decimal("0.287")


def test_a_name_finds_every_provider_cheapest_first() -> None:
    found = find_api_prices(SNAPSHOT, "meta-llama/llama-3.1-8b-instruct")
    assert len({price.provider for price in found}) > 2
    costs = [price.output_usd_per_million_tokens for price in found]
    assert costs == sorted(costs)


def test_a_name_nobody_serves_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UnknownIdError) as caught:
        find_api_prices(SNAPSHOT, "llama-3.1-8b-instrukt")
    assert "llama-3.1-8b-instruct" in caught.value.remedy.lower()


def test_hosted_under_the_same_name_means_the_whole_name() -> None:
    found = hosted_as(SNAPSHOT, "meta-llama/Llama-3.1-8B-Instruct")
    assert {price.model.lower().rpartition("/")[2] for price in found} == {"llama-3.1-8b-instruct"}
    assert hosted_as(SNAPSHOT, "somebody/an-llm-of-mine") == []


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("meta.llama3-1-70b-instruct-v1:0", "llama-3.1"),
        ("qwen/qwen3.5-27b", "qwen3.5"),
        ("qwen3-32b", "qwen3"),
        ("somebody/else", "other"),
    ],
)
def test_a_family_is_read_off_the_name(model: str, family: str) -> None:
    families = sorted({price.family for price in SNAPSHOT}, key=len, reverse=True)
    assert family_of(model, families) == family
