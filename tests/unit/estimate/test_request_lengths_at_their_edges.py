"""Lengths of simulated requests where they are cut, uncorrelated, or few."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.request_lengths import (
    RequestKind,
    copula_correlation,
    draw_requests,
    request_kinds,
)
from capplan.schema.lengths import EmpiricalLength, FixedLength, LognormalLength
from capplan.schema.workload import Workload


def test_lengths_that_are_not_said_to_correlate_do_not() -> None:
    heavy = LognormalLength(median_tokens=100.0, sigma=1.0)
    assert copula_correlation(heavy, heavy, 0.0) == 0.0
    assert copula_correlation(heavy, FixedLength(tokens=9.0), 0.5) == 0.0
    kinds = request_kinds([(1.0, Workload(prompt_lengths=heavy, output_lengths=heavy))])
    assert [kind.correlation for kind in kinds] == [0.0]


@pytest.mark.parametrize(
    ("longest", "prompt", "output", "cut"),
    [(None, 100, 50, 0), (150, 100, 50, 0), (149, 100, 49, 9), (101, 100, 1, 9), (60, 59, 1, 9),
     (2, 1, 1, 9)],
)  # fmt: skip
def test_answers_are_cut_before_prompts(
    longest: int | None, prompt: int, output: int, cut: int
) -> None:
    kind = RequestKind(1.0, FixedLength(tokens=100.0), FixedLength(tokens=50.0))
    found = draw_requests([kind], 9, 0, longest)
    assert found.prompt_tokens.tolist() == [prompt] * 9
    assert found.output_tokens.tolist() == [output] * 9
    assert found.cut == cut


def test_one_request_lies_in_each_equal_slice() -> None:
    even = EmpiricalLength(probabilities=(0.0, 1.0), tokens=(1000.0, 2000.0))
    kinds = [RequestKind(3.0, even, even), RequestKind(1.0, FixedLength(tokens=5.0), even)]
    found = draw_requests(kinds, 40, 7)
    own = found.prompt_tokens != 5
    assert own.sum() == 30
    for tokens in (found.prompt_tokens[own], found.output_tokens[own]):
        slices = (np.sort(tokens) - 1000) / 1000 * 30
        assert (np.abs(slices - np.arange(30) - 0.5) <= 0.55).all()
