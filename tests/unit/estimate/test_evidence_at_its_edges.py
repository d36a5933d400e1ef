"""What little evidence tells: single rounds, no rounds, lengths that did not run, bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from capplan.errors import CalibrationError
from capplan.estimate import engine_fit
from capplan.estimate.engine_fit import Bench, fit_prefill, fit_step
from capplan.estimate.evidence import evidence_from_profile, mean_context
from capplan.estimate.fitted_step import FittedStep
from capplan.estimate.length_times import round_times
from capplan.estimate.pass_timings import PassTimings
from capplan.estimate.round_overhead import RoundPasses
from capplan.estimate.shrunken_fit import Prior
from capplan.estimate.tracing import TracedAcceptance, pool, replay_cell
from capplan.schema.cells import Phase, Role, TimingCell

# ---- a profile of few steps


def cell(seconds: float, batch: int, tokens: int = 1) -> TimingCell:
    return TimingCell(
        role=Role.TARGET, phase=Phase.DECODE if tokens == 1 else Phase.VERIFY, batch=batch,
        tokens_per_sequence=tokens, context=100, seconds=(seconds,),
        verdict={"stability": "stable"},
    )  # fmt: skip


STEPS = (cell(1.2, 1), cell(1.4, 2), cell(1.8, 4), cell(1.5, 1, 3), cell(3.0, 4, 3))


def test_without_rounds_there_is_no_overhead_and_no_scatter(synthetic: Any) -> None:
    profile, _ = synthetic.profile(draft=None, timing=STEPS, acceptance=())
    assert mean_context(profile) == 0.0
    evidence = evidence_from_profile(profile, {})
    assert (evidence.round_overhead_s, evidence.round_relative_se) == (0.0, 0.0)
    assert evidence.curve(0.0, None) is None
    assert evidence.traces == ()


@pytest.mark.parametrize(
    ("draft", "name"), [("model", "org/draft"), ("ngram", "ngram"), (None, "")]
)
def test_a_draft_has_a_name(synthetic: Any, draft: str | None, name: str) -> None:
    profile, _ = synthetic.profile(draft=draft, timing=STEPS, acceptance=())
    evidence = evidence_from_profile(profile, {})
    assert evidence.draft_id == name
    assert (evidence.draft is not None) is (draft == "model")


def test_a_noisy_profile_errs_by_half_as_much_again(synthetic: Any) -> None:
    uneven = (*STEPS, cell(1.3, 1))
    found = []
    for stability in ("stable", "noisy"):
        verdict = {"stability": stability}
        profile, _ = synthetic.profile(draft=None, timing=uneven, acceptance=(), verdict=verdict)
        found.append(evidence_from_profile(profile, {}).target_step.relative_se)
    assert found[0] > 0.01
    assert found[1] == pytest.approx(1.5 * found[0])


def test_the_mean_context_is_halfway_through_the_answers(synthetic: Any) -> None:
    cells = (
        synthetic.acceptance_cell(2, 60, prompt_tokens=300),
        synthetic.acceptance_cell(4, 10, prompt_tokens=400),
    )
    # 150 + 30 and 100 + 5
    assert mean_context(synthetic.profile(acceptance=cells)[0]) == pytest.approx(142.5)


STEP = FittedStep(1.0, 0.0, 0.2, 0.1, 0.01, 0.0, 0.02)


@pytest.mark.parametrize(("rounds", "drafted", "tokens"), [(1, 3, 3.0), (2, 3, 1.5), (0, 0, 0.0)])
def test_rounds_that_were_not_traced_verify_their_mean_drafts(
    synthetic: Any, rounds: int, drafted: int, tokens: float
) -> None:
    one = synthetic.rounds_cell(4, 1.0, rounds=rounds, drafted=drafted, accepted=0,
                                accepted_per_position=(0,) * 4, batch=2)  # fmt: skip
    passes = RoundPasses(STEP, None, 10.0)
    # 1 + 2 x (0.2 + 0.1 a token + 0.01 x 10)
    assert passes.seconds(one, None) == pytest.approx(1 + 2 * (0.2 + 0.1 * tokens + 0.1))
    draft = replace(STEP, fixed_s=0.5)
    with_draft = RoundPasses(STEP, draft, 10.0).seconds(one, None)
    assert with_draft == pytest.approx(1 + 2 * (0.2 + 0.4 + 0.1) + 4 * (0.5 + 0.4 + 0.2))


def test_rounds_scatter_about_the_passes_and_their_median_overhead(synthetic: Any) -> None:
    passes = 1.2 + 0.3  # a plain step and two tokens more, of what STEPS say
    rounds = tuple(
        synthetic.rounds_cell(2, passes + more, drafted=200, accepted=0, task="poems",
                              accepted_per_position=(0, 0))
        for more in (0.1, 0.2, 0.4)
    )  # fmt: skip
    profile, _ = synthetic.profile(draft="ngram", timing=STEPS, acceptance=(), rounds=rounds)
    evidence = evidence_from_profile(profile, {})
    found = np.array([evidence.round_seconds(1, 2, 0.0) / (passes + more) - 1
                      for more in (0.1, 0.2, 0.4)])  # fmt: skip
    assert evidence.round_overhead_s == pytest.approx(0.2, rel=1e-6)
    assert evidence.round_relative_se == pytest.approx(math.sqrt(float(np.mean(found**2))))
    quick = tuple(each.model_copy(update={"seconds": 100.0}) for each in rounds)
    cheap = evidence_from_profile(profile.model_copy(update={"rounds": quick}), {})
    assert cheap.round_overhead_s == 0.0


def test_what_a_round_costs_beyond_its_passes_is_paid_where_anything_is_drafted(
    synthetic: Any,
) -> None:
    profile, _ = synthetic.profile(draft=None, timing=STEPS, acceptance=())
    evidence = replace(evidence_from_profile(profile, {}), round_overhead_s=0.25)
    batches, lengths = np.array([1, 4]), np.array([0, 1, 3])
    found = round_times(evidence, batches, lengths, 100.0).round_s
    # 1 + 0.2 a sequence, 0.15 a further token of each, and 0.25 s a round
    expected = [
        [1.2, 1.2 + 0.15 + 0.25, 1.2 + 0.45 + 0.25],
        [1.8, 1.8 + 0.6 + 0.25, 1.8 + 1.8 + 0.25],
    ]
    assert found == pytest.approx(np.array(expected))


def test_beyond_the_captured_size_a_step_is_held_to_the_largest_batch_within(
    synthetic: Any,
) -> None:
    profile, _ = synthetic.profile(draft=None, timing=STEPS, acceptance=())
    evidence = evidence_from_profile(profile, {})
    found = round_times(evidence, np.array([4]), np.array([0, 1, 3]), 0.0, captured=6).round_s
    # six tokens are three sequences with a draft, or one with three: 5.2 times what those take
    assert found[0] == pytest.approx([1.8, 5.2 * (1.6 + 0.45), 5.2 * (1.2 + 0.45)])
    none = round_times(evidence, np.array([1]), np.array([3]), 0.0, captured=2).round_s
    assert none[0, 0] == pytest.approx(5.2 * (1.2 + 0.45))


# ---- traces


def engine_trace(synthetic: Any, accepted: list[int], n: int, **more: Any) -> TracedAcceptance:
    arrays = {
        "acceptance/0/offsets": np.array([0, len(accepted) // 2, len(accepted)]),
        "acceptance/0/drafted": np.full(len(accepted), n, dtype=np.uint8),
        "acceptance/0/accepted": np.array(accepted, dtype=np.uint8),
    }
    one = synthetic.acceptance_cell(
        2, 9, trace_kind="per_round", max_num_speculative_tokens=n, draft_sampling="greedy", **more
    )
    return replay_cell(one, 0, arrays)[0]


def test_traces_of_several_lengths_are_pooled_up_to_the_shortest(synthetic: Any) -> None:
    two = engine_trace(synthetic, [2, 0, 1, 1], 2)
    four = engine_trace(synthetic, [4, 4, 0, 0], 4, temperature=0.5)
    for traces in ((two, four), (four, two)):
        both = pool(traces)
        assert len(both.counts) == 3
        assert both.counts[2].rounds.tolist() == [2.0] * 4
        assert both.temperature == traces[0].temperature
    assert pool((two, four)).tokens_per_round(2)[0] == pytest.approx(1 + (4 + 4) / 8)


def test_rates_beyond_what_ran_follow_from_the_tokens(synthetic: Any) -> None:
    trace = engine_trace(synthetic, [2, 0, 1, 1], 2)
    tokens, error = trace.tokens_per_round(6)
    assert trace.acceptance_rate(6) == pytest.approx(
        ((tokens - 1) / 6, error * tokens / (tokens - 1))
    )
    assert trace.acceptance_rate(2)[0] == pytest.approx(4 / 8)
    # a lookup finds no more drafts where more were allowed, nor more often
    lookup = replace(trace, draft_sampling=None)
    assert lookup.drafting(6) == (1.0, 2.0)
    assert lookup.acceptance_rate(6)[0] == pytest.approx((tokens - 1) / 2)
    assert trace.drafting(6) == (1.0, 6.0)
    assert trace.drafting(1) == lookup.drafting(1) == (1.0, 1.0)


def test_seldom_accepted_drafts_have_a_rate_beyond_what_ran_all_the_same(synthetic: Any) -> None:
    trace = engine_trace(synthetic, [1, 0, 0, 0, 2, 0, 0, 0], 2)
    tokens, error = trace.tokens_per_round(4)
    assert 1.0 < tokens < 1.5
    expected = ((tokens - 1) / 4, error * tokens / (tokens - 1))
    assert trace.acceptance_rate(4) == pytest.approx(expected)


# ---- constants of an engine from passes


def timed(llm: Any, seconds: float, tp: int = 1, count: int = 2) -> PassTimings:
    ones = np.ones(count)
    return PassTimings(llm, tp, ones, ones, ones, ones * seconds)


def test_of_an_input_embedding_only_the_rows_at_hand_are_read(planted_engine: Any) -> None:
    bench = Bench(planted_engine.GPU, planted_engine.ENGINE)
    llm = planted_engine.SMALL.model_copy(
        update={"params_total": 1e9, "weight_bytes": 2e9, "weight_bytes_active": 2e9,
                "vocab_size": 100_000, "hidden": 4000}
    )  # fmt: skip
    # 0.8 of 2 GB are the embedding; two GPUs share the rest
    least_s = 1.2e9 / (2 * planted_engine.GPU.memory_bytes_per_s)
    with pytest.raises(CalibrationError, match="to read its weights"):
        fit_step([timed(llm, least_s * 0.999, tp=2)], bench, by_llm=False)
    with pytest.raises(CalibrationError, match="2 usable timed passes"):
        fit_step([timed(llm, least_s * 1.001, tp=2)], bench, by_llm=False)
    tables = llm.model_copy(update={"weight_bytes_active": 0.7e9})
    with pytest.raises(CalibrationError, match="2 usable timed passes"):
        fit_step([timed(tables, 1e-14)], bench, by_llm=False)


@pytest.mark.parametrize(("by", "is_plausible"), [(3.99, True), (-3.99, True), (4.01, False)])
def test_a_constant_four_spreads_from_the_shipped_one_was_not_measured_there(
    planted_engine: Any, by: float, is_plausible: bool
) -> None:
    fit = engine_fit._Fit(
        engine_fit._predict_step, {}, Bench(planted_engine.GPU, planted_engine.ENGINE)
    )
    prior = Prior("layer_s", 1e-4, 0.5)
    value = 1e-4 * math.exp(by * 0.5)
    if not is_plausible:
        with pytest.raises(CalibrationError, match=r"4\.0 times as far"):
            fit._constant(prior, value, 0.1)
        return
    found = fit._constant(prior, value, 0.1)
    assert (found.value.mid, found.shipped) == (pytest.approx(value), 1e-4)
    assert found.value.high == pytest.approx(value * math.exp(0.196), rel=1e-6)


@pytest.mark.parametrize(("factor", "usable"), [(1.001, 1), (0.999, 0)])
def test_a_prompt_counts_where_its_arithmetic_outlasts_its_weights(
    planted_engine: Any, factor: float, usable: int
) -> None:
    gpu, llm = planted_engine.GPU, planted_engine.SMALL
    read_s = llm.weight_bytes / gpu.memory_bytes_per_s
    tokens = factor * read_s * gpu.bf16_flops_per_s / (2 * llm.params_active * 4)
    one = np.ones(1)
    prompts = PassTimings(llm, 1, one * 4, one * tokens, one * 0, one)
    with pytest.raises(CalibrationError, match=f"{usable} usable timed passes"):
        fit_prefill([prompts], Bench(gpu, planted_engine.ENGINE), by_llm=False)
