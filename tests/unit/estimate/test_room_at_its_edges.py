"""Room for a batch: worked examples, lengths that hardly vary, prompts that cannot be shorter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capplan.estimate.kv_room import ResidentTokens, resident_tokens, room_tokens
from capplan.estimate.kvpool import Breakdown
from capplan.schema.lengths import EmpiricalLength, FixedLength, LognormalLength
from capplan.schema.workload import TrafficPart, Workload

TWO = (0.0, 0.5, 0.5 + 1e-9, 1.0)


def lognormal(mean: float, p95: float) -> LognormalLength:
    return LognormalLength.model_validate({"mean_tokens": mean, "p95_tokens": p95})


@pytest.mark.parametrize("prompts", [True, False])
def test_lengths_vary_where_those_of_prompts_or_of_answers_alone_do(prompts: bool) -> None:
    varying = EmpiricalLength(probabilities=TWO, tokens=(100.0, 100.0, 900.0, 900.0))
    same = FixedLength(tokens=500.0)
    lengths = (varying, same) if prompts else (same, varying)
    workload = Workload(prompt_lengths=lengths[0], output_lengths=lengths[1])
    room = room_tokens(workload, np.array([1.0, 1e9]))
    assert room[0] > room[1] == pytest.approx(1000, rel=0.2)


def test_room_of_the_method_page() -> None:
    workload = Workload(
        prompt_lengths=lognormal(1500.0, 5000.0),
        output_lengths=lognormal(400.0, 1200.0),
    )
    found = resident_tokens(workload)
    assert (found.mean, found.sd) == (pytest.approx(1942, abs=1), pytest.approx(2199, abs=1))
    assert room_tokens(workload, np.array([4.0, 64.0])) == pytest.approx([5762, 2668], abs=1)


def test_no_prompt_that_a_step_meets_is_shorter_than_a_token() -> None:
    # a correlation of -1 would leave the prompts of long answers less than nothing
    prompts = EmpiricalLength(probabilities=TWO, tokens=(1.0, 1.0, 99.0, 99.0))
    outputs = EmpiricalLength(
        probabilities=(0.0, 0.9, 0.9 + 1e-9, 1.0), tokens=(10.0, 10.0, 910.0, 910.0)
    )
    workload = Workload(prompt_lengths=prompts, output_lengths=outputs, length_correlation=-1.0)
    first, second = 0.9 * 10 + 0.1 * 910, 0.9 * 10**2 + 0.1 * 910**2
    met = 50 - 49 / math.sqrt(second - first**2) * (second - first**2) / first
    assert met < 0
    found = resident_tokens(workload)
    assert found.mean == pytest.approx(1 + second / first / 2, rel=1e-6)
    assert found.sd >= 0


def test_a_mix_keeps_what_its_parts_write() -> None:
    parts = (TrafficPart(share=3, output_tokens=100), TrafficPart(share=1, output_tokens=500))
    found = resident_tokens(Workload(prompt_tokens=70, mix=parts))
    # weighed by what they write, 300 to 500: 70 + 50 and 70 + 250
    mean = (3 * (70 + 50) + 5 * (70 + 250)) / 8
    square = (3 * (70**2 + 70 * 100 + 100**2 / 3) + 5 * (70**2 + 70 * 500 + 500**2 / 3)) / 8
    assert (found.mean, found.sd) == pytest.approx((mean, math.sqrt(square - mean**2)))


def test_room_for_four_by_hand() -> None:
    variance = math.log(1 + 1 / 4)
    expected = 8000 * math.exp(2.3263478740408408 * math.sqrt(variance) - variance / 2)
    assert float(ResidentTokens(2000.0, 2000.0).of_batch(4)) == pytest.approx(expected)


def test_parts_agree_up_to_the_tolerance() -> None:
    parts = Breakdown(64.0, 24.0, 8.0, 4.0, 12.0)
    assert parts.implied_utilisation == 0.75
    assert parts.agrees_with(0.5, tolerance=0.25)
    assert parts.agrees_with(1.0, tolerance=0.25)
    assert not parts.agrees_with(0.75 + 0.0051)
    assert parts.agrees_with(0.75 + 0.0049)
