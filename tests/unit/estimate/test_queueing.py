"""Waiting times of theory, and the simulation held to them where theory has an answer."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.errors import RequestError
from capplan.estimate.queueing import (
    sojourn_processor_sharing_s,
    wait_md1_s,
    wait_mg1_s,
    wait_mmc_s,
)
from capplan.estimate.serving_clocks import constant_clock
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_results import SimulatedLoad
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import traffic

ROOMY = 10_000_000


def one_at_a_time(prompts: np.ndarray, rate_per_s: float, seed: int) -> SimulatedLoad:
    """One place; a request is its prompt, a second a token, and a single token of answer."""
    load = traffic(len(prompts), prompts, 1).at_rate(rate_per_s, seed)
    limits = EngineLimits(1, 100_000, ROOMY)
    return simulate_load(load, limits, constant_clock(0.0, 1.0))


def test_constant_service_waits_as_in_m_d_1() -> None:
    waits = [one_at_a_time(np.ones(40_000), 0.7, seed).wait_s.mean() for seed in range(3)]
    assert np.mean(waits) == pytest.approx(wait_md1_s(0.7, 1.0), rel=0.05)


def test_random_service_waits_as_in_m_g_1() -> None:
    random = np.random.default_rng(7)
    prompts = random.choice([1, 2, 9], size=40_000, p=[0.5, 0.3, 0.2])
    mean, second = float(prompts.mean()), float((prompts**2).mean())
    waits = [one_at_a_time(prompts, 0.6 / mean, seed).wait_s.mean() for seed in range(3)]
    assert np.mean(waits) == pytest.approx(wait_mg1_s(0.6 / mean, mean, second), rel=0.06)


def test_places_that_do_not_slow_one_another_wait_as_in_m_m_c() -> None:
    answers = np.random.default_rng(3).geometric(1 / 25, size=12_000)
    step_s, rate = 0.04, 0.75 * 4 / 1.0
    load = traffic(len(answers), 1, answers).at_rate(rate, 5)  # a step a token, prefill's too
    run = simulate_load(load, EngineLimits(4, 100_000, ROOMY), constant_clock(step_s))
    service_s = float(answers.mean()) * step_s
    # a request that comes within a step waits for its end, half a step on average
    foretold = wait_mmc_s(rate, service_s, 4) + step_s / 2
    assert run.wait_s.mean() == pytest.approx(foretold, rel=0.1)


def test_places_that_share_one_processor_take_as_long_as_in_processor_sharing() -> None:
    answers = np.random.default_rng(4).geometric(1 / 30, size=6_000)
    load = traffic(len(answers), 1, answers + 1)
    token_s = 0.02
    service_s = float(answers.mean()) * token_s
    rate = 0.6 / service_s

    def clock(batch: int, tokens: int, context: float, prefill_tokens: int) -> float:
        return batch * token_s

    run = simulate_load(load.at_rate(rate, 6), EngineLimits(500, 100_000, ROOMY), clock)
    assert run.e2e_s.mean() == pytest.approx(
        sojourn_processor_sharing_s(rate, service_s), rel=0.12
    )


def test_one_server_of_erlang_is_m_m_1() -> None:
    assert wait_mmc_s(0.5, 1.0, 1) == pytest.approx(wait_mg1_s(0.5, 1.0, 2.0))
    assert wait_mmc_s(0.5, 1.0, 1) == pytest.approx(2 * wait_md1_s(0.5, 1.0))


def test_a_hundred_servers_hardly_ever_make_anybody_wait() -> None:
    assert 0 < wait_mmc_s(60.0, 1.0, 100) < 1e-5


@pytest.mark.parametrize("rate", [1.0, 3.0, -0.1])
def test_a_queue_that_grows_without_end_has_no_mean(rate: float) -> None:
    with pytest.raises(RequestError, match="grows without"):
        wait_md1_s(rate, 1.0)
