"""Published load sweeps: what the serving simulation reaches, anchored on one point of each."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def benchmark(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("serving_sweeps")


@pytest.fixture(scope="module")
def simulated(benchmark: ModuleType) -> Any:
    return benchmark.simulate_published()


def test_time_per_token_and_throughput_keep_the_bar(benchmark: ModuleType, simulated: Any) -> None:
    plain, _, _ = simulated
    found = benchmark.summary(plain, "lowest")
    assert found["predicted_points"] == 140
    assert found["mean_absolute_error"]["tpot"] < benchmark.BAR
    assert found["mean_absolute_error"]["tokens_per_s"] < benchmark.BAR


def test_first_tokens_are_foretold_without_bias_where_clients_are_simulated_as_they_ran(
    benchmark: ModuleType, simulated: Any
) -> None:
    """Fitted to nothing: 28 % as documented, against 39 % with places spread evenly."""
    plain, _, _ = simulated
    assert benchmark.summary(plain, "lowest")["mean_absolute_error"]["ttft"] < 0.30
    off = [point.simulated_ttft_s / point.ttft_s - 1.0 for point in plain if point.ttft_s]
    assert abs(sum(off) / len(off)) < 0.05


def test_speculative_throughput_keeps_the_bar(benchmark: ModuleType, simulated: Any) -> None:
    _, speculative, _ = simulated
    for which in benchmark.ANCHORS:
        found = benchmark.summary(speculative, which)
        assert found["predicted_points"] == 72
        assert found["mean_absolute_error"]["tokens_per_s"] < benchmark.BAR


def test_every_row_is_used_or_left_out_with_a_reason(
    benchmark: ModuleType, simulated: Any
) -> None:
    plain, speculative, left_out = simulated
    throughput = sum(n for why, n in left_out.items() if why.startswith("throughput"))
    assert throughput + len(speculative) == 200
    serving = sum(
        n for why, n in left_out.items() if "another engine" in why or "facts unknown" in why
    )
    assert serving + len(plain) == 421


def test_an_anchor_meets_itself(benchmark: ModuleType, simulated: Any) -> None:
    plain, _, _ = simulated
    anchor = benchmark.anchor_of(benchmark.grouped(plain)[0], "lowest")
    assert anchor.anchored_on(anchor).simulated_tpot_s == pytest.approx(anchor.tpot_s)
