"""Dollars a million tokens: the utilisation is seen, the denominator has a name."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from capplan.economics.tokens import token_prices, usd_per_million_tokens, utilisation_curve
from capplan.errors import RequestError

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=80)
settings.load_profile("repeatable")

rates = st.floats(0.5, 1e5)
shares = st.floats(0.01, 1.0)


@pytest.mark.parametrize(("utilisation", "usd"), [(1, 0.9921), (0.1, 9.921), ("0.5", 1.984)])
def test_a_gpu_at_2_50_an_hour_and_700_tokens_a_second(utilisation: float, usd: float) -> None:
    # the "0.99 USD a million" of self-hosting posts holds for a GPU that is never idle
    found = usd_per_million_tokens(2.5, 700, utilisation)
    assert float(found) == pytest.approx(usd, rel=1e-3)


def test_one_run_of_long_prompts_priced_by_each_denominator() -> None:
    # 8 GPUs at 31.45833 USD/h; 10,000 in, 500 out (kubernetes-sigs/inference-perf issue 139)
    run = token_prices(31.45833, output_tokens_per_s=475.1, input_tokens_per_s=9977.05 - 475.1)
    assert float(run.usd_per_million_output) == pytest.approx(18.393, rel=1e-3)
    assert float(run.usd_per_million_total) == pytest.approx(0.8759, rel=1e-3)
    assert float(run.usd_per_million_output / run.usd_per_million_total) == pytest.approx(21, 1e-3)


def test_whole_bill_prices_charge_it_twice_if_added_and_split_ones_do_not() -> None:
    run = token_prices(36, output_tokens_per_s=10, input_tokens_per_s=40, input_share="0.25")
    hour_out, hour_in = Decimal("0.036"), Decimal("0.144")  # millions of tokens an hour
    assert run.usd_per_million_input is not None
    assert run.usd_per_million_output * hour_out + run.usd_per_million_input * hour_in == 72
    assert run.split_usd_per_million_input is not None
    assert run.split_usd_per_million_output is not None
    split = run.split_usd_per_million_output * hour_out + run.split_usd_per_million_input * hour_in
    assert split == 36


def test_without_prompts_there_is_no_price_of_a_prompt() -> None:
    run = token_prices(1, output_tokens_per_s=10)
    assert run.usd_per_million_input is None
    assert run.usd_per_million_total == run.usd_per_million_output


@pytest.mark.parametrize(
    "figures",
    [
        {"output_tokens_per_s": 0},
        {"output_tokens_per_s": 1, "utilisation": 0},
        {"output_tokens_per_s": 1, "utilisation": 1.01},
        {"output_tokens_per_s": 1, "input_tokens_per_s": -1},
        {"output_tokens_per_s": 1, "input_share": 0.5},
        {"output_tokens_per_s": 1, "input_tokens_per_s": 1, "input_share": 1.5},
        {"output_tokens_per_s": "nan"},
    ],
)
def test_figures_out_of_range_are_refused(figures: dict[str, float]) -> None:
    with pytest.raises(RequestError):
        token_prices(1, **figures)  # type: ignore[arg-type] - keywords by name


@given(usd=st.floats(0.1, 200), output=rates, prompt=rates, share=shares, used=shares)
def test_the_split_carries_the_bill_once(
    usd: float, output: float, prompt: float, share: float, used: float
) -> None:
    run = token_prices(
        usd, output_tokens_per_s=output, input_tokens_per_s=prompt, utilisation=used,
        input_share=share,
    )  # fmt: skip
    per_hour = 3600 * used / 1e6
    assert run.split_usd_per_million_input is not None
    assert run.split_usd_per_million_output is not None
    bill = float(run.split_usd_per_million_input) * prompt * per_hour
    bill += float(run.split_usd_per_million_output) * output * per_hour
    assert bill == pytest.approx(usd)
    assert run.usd_per_million_total < run.usd_per_million_output


@given(usd=st.floats(0.1, 200), output=rates)
def test_a_tenth_of_the_use_costs_ten_times_as_much_a_token(usd: float, output: float) -> None:
    curve = utilisation_curve(usd, output)
    assert [used for used, _ in curve] == sorted(used for used, _ in curve)
    assert float(curve[0][1] / curve[-1][1]) == pytest.approx(10)
    assert all(later < earlier for (_, earlier), (_, later) in itertools.pairwise(curve))


@pytest.mark.parametrize("usd_per_hour", [0, -2.5, "nan", "inf"])
def test_an_hour_for_nothing_has_no_price_of_a_token(usd_per_hour: float | str) -> None:
    with pytest.raises(RequestError, match="price of an hour"):
        usd_per_million_tokens(usd_per_hour, 700)
    with pytest.raises(RequestError, match="price of an hour"):
        token_prices(usd_per_hour, output_tokens_per_s=700)


def test_a_whole_node_carries_all_of_its_tokens() -> None:
    # 55.04 USD an hour for 8 GPUs of 3,653 tokens a second: 6.88 / (3,653 * 3,600) * 1e6
    node = usd_per_million_tokens("55.04", 8 * 3653)
    assert node == usd_per_million_tokens("6.88", 3653)
    assert float(node) == pytest.approx(0.52317, rel=1e-4)
    assert float(usd_per_million_tokens("2.69", 3653)) == pytest.approx(0.20455, rel=1e-4)
