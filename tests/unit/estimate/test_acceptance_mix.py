"""Acceptance of a mix, and step times under lengths that vary and prompts that are cached."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.acceptance_mix import curve_of_mix, token_shares
from capplan.estimate.curves import AcceptanceCurve, curve_from_alpha
from capplan.estimate.fitted_step import FittedStep
from capplan.estimate.served_step import ServedStep, served
from capplan.schema.lengths import EmpiricalLength
from capplan.schema.provenance import Kind, Source
from capplan.schema.workload import TrafficPart, Workload

CITED = Source(kind=Kind.CITED, reference="a paper", date="2025-01-01")
ASSUMED = Source(kind=Kind.ASSUMED, reference="a guess")
STEP = FittedStep(
    fixed_s=0.01,
    several_rows_s=0.0,
    per_sequence_s=0.0,
    per_token_s=0.0,
    per_context_s=1e-6,
    prefill_s_per_token=1e-4,
    relative_se=0.03,
)


def _curve(alpha: float, source: Source = CITED) -> AcceptanceCurve:
    return curve_from_alpha(alpha, source)


def test_tokens_a_round_of_a_mix_are_all_tokens_over_all_rounds() -> None:
    """90 tokens at 3 a round take 30 rounds, 10 tokens at 1 a round take 10: 100 / 40 = 2.5."""
    load = Workload(
        output_tokens=100,
        mix=(TrafficPart(share=9, task="code"), TrafficPart(share=1, task="chat")),
    )
    curves = {"code": 3.0, "chat": 1.0}

    def of(part: TrafficPart) -> AcceptanceCurve:
        base = _curve(0.5)
        flat = np.full(17, curves[part.task or ""])
        return AcceptanceCurve(flat, base.relative_se, "flat", CITED)

    mixed = curve_of_mix(load, of)
    assert mixed is not None
    assert mixed.at(4) == pytest.approx(2.5)
    assert "90% code" in mixed.definition


def test_longer_outputs_weigh_more() -> None:
    parts = (TrafficPart(share=1, output_tokens=900), TrafficPart(share=1, output_tokens=100))
    assert token_shares(Workload(mix=parts)).tolist() == [0.9, 0.1]


def test_a_mix_of_equal_parts_is_the_part() -> None:
    load = Workload(mix=(TrafficPart(share=1), TrafficPart(share=3)))
    mixed = curve_of_mix(load, lambda _: _curve(0.7))
    assert mixed is not None
    np.testing.assert_allclose(mixed.tokens_per_round, _curve(0.7).tokens_per_round)
    np.testing.assert_allclose(mixed.relative_se, _curve(0.7).relative_se)
    np.testing.assert_allclose(mixed.drafted, _curve(0.7).drafted)


def test_a_mix_is_no_better_known_than_its_weakest_part() -> None:
    load = Workload(mix=(TrafficPart(share=1), TrafficPart(share=1, temperature=1.0)))
    mixed = curve_of_mix(load, lambda part: _curve(0.7, ASSUMED if part.temperature else CITED))
    assert mixed is not None
    assert mixed.source.kind is Kind.ASSUMED
    assert "a paper; a guess" in mixed.source.reference


def test_an_unknown_part_leaves_the_mix_unknown() -> None:
    load = Workload(mix=(TrafficPart(share=1), TrafficPart(share=1, task="poetry")))
    assert curve_of_mix(load, lambda part: None if part.task else _curve(0.7)) is None


def test_equal_requests_that_share_nothing_keep_their_step() -> None:
    assert served(STEP, Workload()) is STEP


def test_a_cached_half_leaves_half_of_a_linear_prompt() -> None:
    half = served(STEP, Workload(prefix_cache_hit_rate=0.5))
    assert float(half.prompt_seconds(2000)) == pytest.approx(0.5 * 2000 * 1e-4)
    assert float(half.seconds(1, 1, 1000)) == float(STEP.seconds(1, 1, 1000))


class _Quadratic:
    """Attention alone: a prompt's work is the square of its length."""

    relative_se = 0.0

    def prompt_seconds(self, prompt_tokens: float) -> np.ndarray:
        return np.asarray(prompt_tokens**2)


def test_tokens_after_a_cached_beginning_still_attend_to_it() -> None:
    """The second half of a prompt is three quarters of its attention."""
    step = ServedStep(_Quadratic(), cached_share=0.5)  # type: ignore[arg-type]
    assert float(step.prompt_seconds(1000.0)) == pytest.approx(0.75 * 1000**2)


def test_long_prompts_cost_more_than_their_mean() -> None:
    lengths = EmpiricalLength(probabilities=(0, 1), tokens=(1, 1999))
    step = ServedStep(_Quadratic(), prompt_lengths=lengths)  # type: ignore[arg-type]
    # uniform from 0 to twice the mean: E[x^2] = 4/3 of the squared mean
    assert float(step.prompt_seconds(1000.0)) == pytest.approx(4 / 3 * 1000**2, rel=0.01)


def test_varying_outputs_move_the_context_that_a_step_reads() -> None:
    lengths = EmpiricalLength(probabilities=(0, 1), tokens=(1, 599))
    step = served(STEP, Workload(output_lengths=lengths))
    # uniform about 300: variance 598^2 / 12 over twice the mean
    further = 598**2 / 12 / 600
    assert float(step.seconds(8, 1, 1000)) == pytest.approx(
        float(STEP.seconds(8, 1, 1000 + further))
    )
    assert float(step.extra(8, 4, 1000).total) == float(STEP.extra(8, 4, 1000 + further).total)
