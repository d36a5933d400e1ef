"""Tokens of KV that a batch keeps: against drawn requests, and at its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capplan.estimate.kv_room import ResidentTokens, resident_tokens, room_tokens
from capplan.estimate.length_distributions import quantile_tokens, raw_moments
from capplan.estimate.traffic import (
    further_context_tokens,
    output_distribution,
    prompt_distribution,
    sample_requests,
)
from capplan.schema.lengths import EmpiricalLength, FixedLength, LognormalLength
from capplan.schema.workload import TrafficPart, Workload

BATCHES = (1, 4, 16, 64, 256)
CUT = 0.999
KINDS: dict[str, dict[str, Any]] = {
    "chat": {
        "prompt_lengths": LognormalLength(median_tokens=820, sigma=1.1),
        "output_lengths": LognormalLength(median_tokens=260, sigma=0.93),
    },
    "long answers": {
        "prompt_lengths": LognormalLength(median_tokens=200, sigma=0.9),
        "output_lengths": LognormalLength(median_tokens=1170, sigma=1.04),
    },
    "alike": {
        "prompt_lengths": LognormalLength(median_tokens=970, sigma=0.25),
        "output_lengths": LognormalLength(median_tokens=290, sigma=0.25),
    },
    "correlated": {
        "prompt_lengths": LognormalLength(median_tokens=890, sigma=0.47),
        "output_lengths": LognormalLength(median_tokens=445, sigma=0.47),
        "length_correlation": 0.5,
    },
    "answers of one length": {
        "prompt_lengths": LognormalLength(median_tokens=820, sigma=1.1),
        "output_tokens": 400,
    },
    "a sample": {
        "prompt_lengths": EmpiricalLength(
            probabilities=(0.0, 0.5, 0.9, 1.0), tokens=(50.0, 700.0, 3000.0, 9000.0)
        ),
        "output_lengths": EmpiricalLength(
            probabilities=(0.0, 0.6, 1.0), tokens=(10.0, 150.0, 1200.0)
        ),
    },
}


def drawn(workload: Workload, batch: int, steps: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return what 1 .. batch requests keep at so many steps, a row a step.

    They are met in proportion to their output, anywhere within it.
    """
    rng = np.random.default_rng(11)
    prompts, outputs = sample_requests(workload, rng, 100_000)
    known = (prompt_distribution(workload), output_distribution(workload))
    longest = [float(quantile_tokens(one, CUT)) for one in known]
    lognormal = [isinstance(one, LognormalLength) for one in known]
    p, o = (
        np.minimum(values, most) if cut else values.astype(float)
        for values, most, cut in zip((prompts, outputs), longest, lognormal, strict=True)
    )
    weights = np.cumsum(o / o.sum())
    at = np.minimum(np.searchsorted(weights, rng.random((steps, batch))), len(o) - 1)
    kept = p[at] + rng.random((steps, batch)) * o[at]
    return np.asarray(kept.cumsum(axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_pool_overflows_in_about_one_step_of_a_hundred(kind: str) -> None:
    workload = Workload.model_validate(KINDS[kind])
    resident, kept = resident_tokens(workload), drawn(workload, max(BATCHES), 6000)
    for batch in BATCHES:
        over = (kept[:, batch - 1] > resident.of_batch(batch)).mean()
        assert 0.004 <= over <= 0.016, batch


@pytest.mark.parametrize("kind", KINDS)
def test_mean_and_spread_are_those_of_drawn_requests(kind: str) -> None:
    workload = Workload.model_validate(KINDS[kind])
    resident, kept = resident_tokens(workload), drawn(workload, 1, 100_000)
    assert resident.mean == pytest.approx(kept.mean(), rel=0.02)
    assert resident.sd == pytest.approx(kept.std(), rel=0.03)


def test_room_for_requests_of_mean_length_would_overflow_every_other_step() -> None:
    workload = Workload.model_validate(KINDS["chat"])
    whole = workload.prompt_tokens + workload.output_tokens
    assert (drawn(workload, 64, 2000)[:, -1] > 64 * whole).mean() > 0.4


def test_a_lone_request_of_known_moments_by_hand() -> None:
    # prompts of 100, outputs of 100 or 300 at even odds: weighted 1 to 3
    outputs = EmpiricalLength(probabilities=(0, 0.5, 0.5 + 1e-9, 1), tokens=(100, 100, 300, 300))
    workload = Workload(prompt_tokens=100, output_lengths=outputs)
    found = resident_tokens(workload)
    mean = 0.25 * 150 + 0.75 * 250
    square = 0.25 * (100**2 + 100 * 100 + 100**2 / 3) + 0.75 * (100**2 + 100 * 300 + 300**2 / 3)
    assert found.mean == pytest.approx(mean)
    assert found.sd == pytest.approx((square - mean**2) ** 0.5)


def test_a_request_whose_prompt_follows_its_output_by_hand() -> None:
    # outputs of 100 come with prompts of 50, those of 300 with 450: two tokens an output token
    outputs = EmpiricalLength(probabilities=(0, 0.5, 0.5 + 1e-9, 1), tokens=(100, 100, 300, 300))
    prompts = EmpiricalLength(probabilities=(0, 0.5, 0.5 + 1e-9, 1), tokens=(50, 50, 450, 450))
    workload = Workload(prompt_lengths=prompts, output_lengths=outputs, length_correlation=1.0)
    found = resident_tokens(workload)
    mean = 0.25 * (50 + 50) + 0.75 * (450 + 150)
    square = 0.25 * (50**2 + 50 * 100 + 100**2 / 3) + 0.75 * (450**2 + 450 * 300 + 300**2 / 3)
    assert found.mean == pytest.approx(mean)
    assert found.sd == pytest.approx((square - mean**2) ** 0.5)


def test_the_mean_is_the_context_that_step_times_meet() -> None:
    # the same mean by another way, where no tail is cut
    workload = Workload.model_validate({**KINDS["a sample"], "length_correlation": 0.3})
    mean = workload.prompt_tokens + workload.output_tokens / 2 + further_context_tokens(workload)
    assert resident_tokens(workload).mean == pytest.approx(mean, abs=1.0)


def test_requests_that_are_all_alike_keep_room_for_their_whole_length() -> None:
    plain = room_tokens(Workload(prompt_tokens=1000, output_tokens=200), np.array([1.0, 64.0]))
    assert plain.tolist() == [1200.0]
    one = FixedLength(tokens=200.0)
    fixed = Workload(prompt_tokens=1000, output_lengths=one)
    assert room_tokens(fixed, np.array([1.0, 64.0])).tolist() == [1200.0]


def test_a_mix_of_answers_varies_though_no_distribution_is_stated() -> None:
    parts = (
        TrafficPart(share=9, output_tokens=100),
        TrafficPart(share=1, output_tokens=9000),
    )
    workload = Workload(prompt_tokens=500, mix=parts)
    room = room_tokens(workload, np.array([1.0, 8.0, 512.0]))
    assert (np.diff(room) < 0).all()
    assert room[-1] > 500 + workload.output_tokens


def test_many_requests_at_once_average_out() -> None:
    resident = ResidentTokens(mean=2000.0, sd=2000.0)
    each = resident.of_batch(np.array(BATCHES)) / np.array(BATCHES)
    assert (np.diff(each) < 0).all()
    assert float(resident.of_batch(1e6)) == pytest.approx(2000e6 + 2.3263 * 2000e3, rel=1e-5)
    assert float(ResidentTokens(2000.0, 0.0).of_batch(7)) == 14_000


@pytest.mark.parametrize("sigma", [0.3, 1.1])
def test_moments_of_a_cut_lognormal_are_those_of_a_sample(sigma: float) -> None:
    lengths = LognormalLength(median_tokens=500, sigma=sigma)
    most = float(quantile_tokens(lengths, CUT))
    points = quantile_tokens(lengths, (np.arange(200_000) + 0.5) / 200_000)
    cut = np.minimum(points, most)
    for power, moment in enumerate(raw_moments(lengths), start=1):
        assert moment == pytest.approx((cut**power).mean(), rel=1e-3)
