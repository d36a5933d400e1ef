"""GPUs by the hour against an API by the token."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from capplan.economics.breakeven import api_bill, break_even_output_tokens, compare_with_api
from capplan.errors import RequestError
from capplan.schema.price import ApiComparison, ApiPrice
from capplan.schema.provenance import Kind, Source

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=80)
settings.load_profile("repeatable")


def price(fresh: str = "0.10", output: str = "0.40", cached: str | None = "0.02") -> ApiPrice:
    return ApiPrice(
        model="an LLM",
        family="other",
        provider="somebody",
        input_usd_per_million_tokens=Decimal(fresh),
        output_usd_per_million_tokens=Decimal(output),
        cached_input_usd_per_million_tokens=None if cached is None else Decimal(cached),
        tiered=False,
        source=Source(kind=Kind.ASSUMED, reference="an example"),
    )


def compare(gpu: str = "810", output: float = 1e9, cached: float = 0.0) -> ApiComparison:
    return compare_with_api(
        price(),
        gpu_usd_per_month=gpu,
        output_tokens_per_month=output,
        capacity_output_tokens_per_month=1.5e9,
        prompt_per_output_token=4,
        cached_input_share=cached,
    )


def test_an_api_bill_by_hand() -> None:
    bill = api_bill(price(), prompt_tokens=4e9, output_tokens=1e9, cached_input_share="0.5")
    assert (bill.input_usd, bill.cached_input_usd, bill.output_usd) == (200, 40, 400)
    assert bill.total_usd == 640


def test_cached_prompts_lower_the_api_bill_and_leave_the_gpu_bill() -> None:
    cold, warm = compare(), compare(cached=0.5)
    assert (cold.api_usd_per_month, warm.api_usd_per_month) == (800, 640)
    assert cold.gpu_usd_per_month == warm.gpu_usd_per_month == 810
    assert cold.break_even_output_tokens_per_month is not None
    assert warm.break_even_output_tokens_per_month is not None
    assert warm.break_even_output_tokens_per_month > cold.break_even_output_tokens_per_month


def test_an_api_without_a_cached_price_charges_the_full_one() -> None:
    bill = api_bill(price(cached=None), prompt_tokens=4e9, output_tokens=0, cached_input_share=0.5)
    assert bill.total_usd == 400


def test_the_gpu_bill_does_not_shrink_with_the_tokens() -> None:
    assert compare(output=1e3).gpu_usd_per_month == compare(output=1e9).gpu_usd_per_month
    assert compare(output=1e3).api_usd_per_month < Decimal("0.01")


def test_both_sides_cross_where_the_bill_over_a_tokens_price_says() -> None:
    found = compare()
    # 0.40 + 4 * 0.10 = 0.80 USD a million output tokens with their prompts
    assert found.break_even_output_tokens_per_month == Decimal("1012500000")
    assert found.reachable is True
    assert found.api_is_dearer is False


def test_a_crossing_beyond_what_the_gpus_make_is_not_reachable() -> None:
    found = compare(gpu="1300")
    assert found.break_even_output_tokens_per_month == Decimal("1625000000")
    assert found.reachable is False


def test_a_free_api_is_never_dearer() -> None:
    free = price("0", "0", None)
    assert break_even_output_tokens(810, free, prompt_per_output_token=4) is None


@pytest.mark.parametrize("share", [-0.1, 1.1, "nan"])
def test_a_cached_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(RequestError, match="0 to 1"):
        compare(cached=share)


@given(
    gpu=st.decimals("1", "1e6", places=2),
    fresh=st.decimals("0", "20", places=3),
    output=st.decimals("0.001", "80", places=3),
    ratio=st.floats(0, 50),
    cached=st.floats(0, 1),
)
def test_at_the_crossing_both_bills_are_equal(
    gpu: Decimal, fresh: Decimal, output: Decimal, ratio: float, cached: float
) -> None:
    listed = price(str(fresh), str(output), str(fresh / 10))
    volume = break_even_output_tokens(
        gpu, listed, prompt_per_output_token=ratio, cached_input_share=cached
    )
    assert volume is not None
    at = compare_with_api(
        listed,
        gpu_usd_per_month=gpu,
        output_tokens_per_month=volume,
        capacity_output_tokens_per_month=None,
        prompt_per_output_token=ratio,
        cached_input_share=cached,
    )
    assert abs(at.api_usd_per_month - gpu) < Decimal("1e-7")
    assert at.reachable is None


@pytest.mark.parametrize("cached", [None, "0.05"])
def test_one_h100_against_ten_and_forty_cents(cached: str | None) -> None:
    # 2.69 * 730 = 1,963.70; 3 prompt tokens a token: 0.40 + 3 * 0.10 = 0.70 a million,
    # half of the prompts at 0.05: 0.40 + 1.5 * 0.10 + 1.5 * 0.05 = 0.625
    found = break_even_output_tokens(
        "1963.70",
        price(cached=cached),
        prompt_per_output_token=3,
        cached_input_share=0.5,
    )
    assert found is not None
    expected = 1963.70 / (0.70 if cached is None else 0.625) * 1e6
    assert float(found) == pytest.approx(expected)


def test_a_bill_or_tokens_below_nothing_are_refused() -> None:
    with pytest.raises(RequestError, match="GPU bill"):
        break_even_output_tokens(-1, price(), prompt_per_output_token=3)
    with pytest.raises(RequestError, match="GPU bill"):
        compare(gpu="0")
    with pytest.raises(RequestError, match="tokens"):
        break_even_output_tokens(1, price(), prompt_per_output_token=-3)
