"""Lengths of simulated requests: drawn as stated, together, by service, and reproducibly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capplan.estimate.length_distributions import quantile_tokens
from capplan.estimate.queueing import wait_mg1_s
from capplan.estimate.request_lengths import (
    RequestKind,
    copula_correlation,
    draw_requests,
    request_kinds,
)
from capplan.estimate.serving_clocks import constant_clock
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import traffic
from capplan.schema.lengths import EmpiricalLength, FixedLength, Lengths, LognormalLength
from capplan.schema.workload import TrafficPart, Workload

HEAVY = LognormalLength.model_validate({"mean_tokens": 1500, "p95_tokens": 5000})
ANSWERS = LognormalLength.model_validate({"mean_tokens": 400, "p95_tokens": 1200})
UNIFORM = EmpiricalLength(probabilities=(0, 1), tokens=(1, 1001))


def test_two_lognormals_correlate_as_their_closed_form_says() -> None:
    both = math.sqrt(math.expm1(HEAVY.sigma**2) * math.expm1(ANSWERS.sigma**2))
    expected = math.log(1 + 0.3 * both) / (HEAVY.sigma * ANSWERS.sigma)
    assert copula_correlation(HEAVY, ANSWERS, 0.3) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("stated", [-0.6, 0.2, 0.9])
def test_two_uniforms_correlate_as_pearson_found(stated: float) -> None:
    """Of uniforms the normals' correlation is ``2 sin(pi r / 6)`` (K. Pearson, 1907)."""
    expected = 2 * math.sin(math.pi * stated / 6)
    assert copula_correlation(UNIFORM, UNIFORM, stated) == pytest.approx(expected, abs=1e-5)


def test_a_correlation_that_tails_cannot_have_takes_the_nearest() -> None:
    assert copula_correlation(HEAVY, ANSWERS, -0.9) == pytest.approx(-1)
    assert copula_correlation(HEAVY, FixedLength(tokens=5), 0.5) == 0


@pytest.mark.parametrize("outputs", [ANSWERS, UNIFORM])
def test_a_run_has_the_means_tails_and_correlation_that_are_stated(outputs: Lengths) -> None:
    drawn = draw_requests([RequestKind(1.0, HEAVY, outputs, 0.4)], 20_000, seed=1)
    for tokens, lengths in ((drawn.prompt_tokens, HEAVY), (drawn.output_tokens, outputs)):
        assert tokens.mean() == pytest.approx(lengths.mean_tokens, rel=0.02)
        wanted = quantile_tokens(lengths, [0.1, 0.5, 0.99])
        assert np.quantile(tokens, [0.1, 0.5, 0.99]) == pytest.approx(wanted, rel=0.03)
    found = np.corrcoef(drawn.prompt_tokens, drawn.output_tokens)[0, 1]
    assert found == pytest.approx(0.4, abs=0.05)


def test_requests_of_several_services_are_each_drawn_from_their_own() -> None:
    chat = Workload(prompt_tokens=800, output_lengths=ANSWERS)
    extract = Workload(prompt_tokens=4000, output_tokens=60)
    drawn = draw_requests(request_kinds([(3.0, chat), (1.0, extract)]), 2000, seed=0)
    long = drawn.prompt_tokens == 4000
    assert long.sum() == pytest.approx(500, abs=1)
    assert set(drawn.output_tokens[long]) == {60}
    assert drawn.output_tokens[~long].mean() == pytest.approx(400, rel=0.02)


def test_parts_of_a_mix_write_answers_of_their_own_length() -> None:
    load = Workload(
        mix=(
            TrafficPart(share=9, output_tokens=100),
            TrafficPart(share=1, output_tokens=3000, thinking=True),
        )
    )
    drawn = draw_requests(request_kinds([(1.0, load)]), 1000, seed=0)
    lengths, counts = np.unique(drawn.output_tokens, return_counts=True)
    assert lengths.tolist() == [100, 3000]
    assert counts.tolist() == pytest.approx([900, 100], abs=1)


def test_the_same_seed_draws_the_same_requests_and_another_seed_others() -> None:
    kinds = [RequestKind(1.0, HEAVY, ANSWERS)]
    first, again, other = (draw_requests(kinds, 200, seed).prompt_tokens for seed in (3, 3, 4))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_what_the_engine_would_not_admit_is_cut_and_counted() -> None:
    kinds = [RequestKind(1.0, EmpiricalLength(probabilities=(0, 1), tokens=(1, 1000)), ANSWERS)]
    free, cut = (draw_requests(kinds, 500, 0, longest) for longest in (None, 900))
    whole = free.prompt_tokens + free.output_tokens
    assert cut.cut == (whole > 900).sum() > 0
    assert (cut.prompt_tokens + cut.output_tokens).max() == 900
    assert min(cut.prompt_tokens.min(), cut.output_tokens.min()) >= 1
    kept = whole <= 900
    assert (cut.output_tokens[kept] == free.output_tokens[kept]).all()


def test_lognormal_prompts_wait_as_in_m_g_1() -> None:
    """One place, a second a token: the mean wait by the second moment, not by the mean alone."""
    service = LognormalLength(median_tokens=20, sigma=0.6)
    drawn = draw_requests([RequestKind(1.0, service, FixedLength(tokens=1))], 15_000, seed=0)
    prompts = drawn.prompt_tokens
    mean, second = float(prompts.mean()), float((prompts**2).mean())
    limits, clock = EngineLimits(1, 100_000, 10_000_000), constant_clock(0.0, 1.0)
    waits = [
        simulate_load(traffic(15_000, prompts, 1).at_rate(0.6 / mean, seed), limits, clock).wait_s
        for seed in range(4)
    ]
    foretold = wait_mg1_s(0.6 / mean, mean, second)
    assert np.mean(waits) == pytest.approx(foretold, rel=0.06)
    assert foretold > 1.3 * wait_mg1_s(0.6 / mean, mean, mean**2)


def test_the_last_long_answers_do_not_count_as_throughput_that_is_missing() -> None:
    """Answers of ten tokens, a few of a thousand: the run ends long after the last request came.

    A step takes 10 ms for whatever is in the batch, so 100 requests/s of 60 tokens are 6,000
    tokens/s while requests come, and 60 tokens at 10 ms each keep 60 sequences in the batch.
    """
    answers = EmpiricalLength(probabilities=(0, 0.95, 0.95 + 1e-9, 1), tokens=(10, 10, 1010, 1010))
    assert answers.mean_tokens == pytest.approx(60)
    drawn = draw_requests([RequestKind(1.0, FixedLength(tokens=5), answers)], 4000, seed=0)
    load = traffic(4000, drawn.prompt_tokens, drawn.output_tokens)
    limits, clock = EngineLimits(512, 8192, 10_000_000), constant_clock(0.01)
    run = simulate_load(load.at_rate(100.0, 3), limits, clock)
    assert run.steady.output_tokens_per_s == pytest.approx(6000, rel=0.08)
    assert run.steady.mean_batch == pytest.approx(60, rel=0.08)
    assert run.whole.output_tokens_per_s < 0.85 * run.steady.output_tokens_per_s
    closed = simulate_load(load.closed(8), limits, clock)
    assert closed.steady == closed.whole
    alone = simulate_load(traffic(1, 10, 5).at_rate(1.0, 3), limits, clock)
    assert alone.steady == alone.whole
