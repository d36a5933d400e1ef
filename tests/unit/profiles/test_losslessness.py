"""The check of the text: it finds planted faults, and leaves a faultless engine alone."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.profiles.losslessness import (
    Outcome,
    difference_nats,
    judge_losslessness,
    losslessness_verdict,
    student_quantile,
)
from capplan.schema.cells import LosslessnessCell
from capplan.schema.verdict import Stability


def cell(
    rng: np.random.Generator,
    shift_nats: float = 0.0,
    requests: int = 32,
    length: int = 4,
    temperature: float = 0.8,
) -> LosslessnessCell:
    """Texts whose prompts differ in difficulty, written twice."""
    tokens = tuple(int(n) for n in rng.integers(10, 60, requests))
    other = tuple(int(n) for n in rng.integers(10, 60, requests))
    prompt = rng.normal(-1.2, 0.5, requests)

    def written(counts: tuple[int, ...]) -> tuple[float, ...]:
        return tuple(prompt + rng.normal(0, 1.5, requests) / np.sqrt(counts))

    return LosslessnessCell(
        temperature=temperature,
        num_speculative_tokens=length,
        tokens=tokens,
        log_prob_nats=tuple(v + shift_nats for v in written(tokens)),
        baseline_tokens=other,
        baseline_log_prob_nats=written(other),
    )


def cold(margins: tuple[float, ...], requests: int = 48) -> LosslessnessCell:
    values = (-0.5,) * requests
    return LosslessnessCell(
        temperature=0,
        num_speculative_tokens=3,
        tokens=(30,) * requests,
        log_prob_nats=values,
        baseline_tokens=(30,) * requests,
        baseline_log_prob_nats=values,
        identical=requests - len(margins),
        difference_margins_nats=margins,
    )


def test_false_alarms_over_six_cells_together_stay_below_one_in_twenty():
    rng = np.random.default_rng(0)
    alarms = sum(
        judge_losslessness([cell(rng) for _ in range(6)], "bfloat16").outcome is not Outcome.PASS
        for _ in range(300)
    )
    assert alarms <= 15


@pytest.mark.parametrize("shift", [-1.5, -0.6, 0.6])
def test_a_fault_is_found_in_either_direction(shift):
    rng = np.random.default_rng(1)
    found = sum(
        judge_losslessness([cell(rng), cell(rng, shift)], "bfloat16").outcome is Outcome.FAIL
        for _ in range(50)
    )
    assert found == 50


def test_prompts_are_compared_with_themselves():
    rng = np.random.default_rng(2)
    paired = cell(rng)
    unpaired = paired.model_copy(
        update={
            "baseline_tokens": paired.baseline_tokens[:-1],
            "baseline_log_prob_nats": paired.baseline_log_prob_nats[:-1],
        }
    )
    assert difference_nats(paired)[1] < difference_nats(unpaired)[1]


def test_the_error_covers_the_scatter_of_repeated_measurements():
    rng = np.random.default_rng(3)
    pairs = np.array([difference_nats(cell(rng)) for _ in range(400)])
    assert pairs[:, 1].mean() == pytest.approx(pairs[:, 0].std(), rel=0.15)


@pytest.mark.parametrize("requests", [1, 2, 3, 5])
def test_few_requests_decide_nothing(requests):
    rng = np.random.default_rng(4)
    judged = judge_losslessness([cell(rng, requests=requests)], "bfloat16")
    assert judged.outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("margins", "dtype", "outcome"),
    [
        ((), "float32", Outcome.PASS),
        ((0.1, 0.0, -0.1), "bfloat16", Outcome.PASS),
        ((0.1,) * 20, "bfloat16", Outcome.PASS),
        ((3.0,) * 20, "bfloat16", Outcome.FAIL),
        ((0.1,) * 20, "float32", Outcome.FAIL),
        ((3.0, 3.0), "bfloat16", Outcome.UNDECIDED),
        ((0.1,) * 20, "an unknown format", Outcome.PASS),
    ],
)
def test_at_temperature_0_only_differences_beyond_a_tie_count(margins, dtype, outcome):
    assert judge_losslessness([cold(margins)], dtype).outcome is outcome


def test_a_check_that_fails_on_plain_decoding_condemns_nobody():
    rng = np.random.default_rng(5)
    control, tested = cell(rng, -2.0, length=0), cell(rng, -2.0)
    assert judge_losslessness([tested], "bfloat16").outcome is Outcome.FAIL
    assert judge_losslessness([control, tested], "bfloat16").outcome is Outcome.UNDECIDED
    assert losslessness_verdict([control, tested], "bfloat16").stability is Stability.NOISY


def test_the_verdict_names_number_threshold_and_remedy():
    rng = np.random.default_rng(6)
    verdict = losslessness_verdict([cell(rng, -1.5), cold(())], "bfloat16")
    assert verdict.stability is Stability.INVALID
    (reason,) = verdict.reasons
    assert reason.check == "losslessness"
    assert reason.value == pytest.approx(-1.5, abs=0.4)
    assert 0 < reason.threshold < 0.7
    assert "N=4 at temperature 0.8" in reason.remedy
    assert "32 requests" in reason.remedy


def test_without_a_comparison_there_is_nothing_to_say():
    assert losslessness_verdict([], "bfloat16").stability is Stability.STABLE


@pytest.mark.parametrize(
    ("share", "freedom", "expected"),
    [(0.975, 4, 2.776), (0.995, 9, 3.250), (0.995, 31, 2.744), (0.9995, 9, 4.781)],
)
def test_student_quantiles_agree_with_the_tables(share, freedom, expected):
    assert student_quantile(share, freedom) == pytest.approx(expected, rel=0.01)


def test_a_mean_that_was_weighted_by_tokens_ignores_empty_texts():
    empty = LosslessnessCell(
        temperature=0.8,
        num_speculative_tokens=2,
        tokens=(0, 0),
        log_prob_nats=(0.0, 0.0),
        baseline_tokens=(0, 0),
        baseline_log_prob_nats=(0.0, 0.0),
    )
    assert judge_losslessness([empty], "bfloat16").outcome is Outcome.UNDECIDED
