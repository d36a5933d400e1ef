"""The serving simulation where it is seldom: full caches, long draws, loads that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capplan.errors import RequestError
from capplan.estimate import pooling, shrunken_fit
from capplan.estimate.evidence import evidence_from_profile
from capplan.estimate.planned_round import RoundFactors, RoundParts, expected_round, round_in_steps
from capplan.estimate.pooling import Factor, Work, fit_pooled
from capplan.estimate.round_cost import diluted, planned_groups, round_groups
from capplan.estimate.serving_acceptance import (
    AcceptedLengths,
    accepted_from_conditional,
    accepted_from_curve,
    accepted_from_trace,
)
from capplan.estimate.serving_clocks import PrefillTimes, tabulated_clock
from capplan.estimate.serving_decoding import Decoding, Drawn
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_profile import profile_acceptance
from capplan.estimate.serving_results import EngineState, SimulatedLoad
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic, poisson_arrivals_s, traffic
from capplan.estimate.shrunken_fit import Prior, fit_shrunken
from capplan.estimate.steptime import VerificationExtra
from capplan.schema.plan import SpreadCause


def one_second(batch: int, tokens: int, context: float, prefill_tokens: int) -> float:
    return 1.0


def requests(*lengths: tuple[int, int], **more: Any) -> Traffic:
    prompts, outputs = np.array(lengths).T
    return Traffic(prompts, outputs, np.zeros(len(lengths), dtype=np.int64), **more)


# ---- scheduling


def test_a_prompt_in_the_making_gives_way_to_sequences_that_grow() -> None:
    # seven blocks of 16. Four tokens a step of the second's prompt beside the first's answer: when
    # that comes to its third block, after 18 rounds, 73 tokens of the prompt hold the other five
    load = requests((14, 40), (80, 2), arrival_s=np.zeros(2))
    limits = EngineLimits(max_num_seqs=2, max_num_batched_tokens=5, kv_tokens=112)
    run = simulate_load(load, limits, one_second)
    assert run.engine.preemptions == 1
    assert run.engine.peak_tokens <= 112
    assert run.start_s[1] < run.end_s[0] < run.first_token_s[1]


def test_prompts_are_admitted_while_blocks_are_left() -> None:
    # three blocks each: of eight the third finds two
    run = simulate_load(
        requests((40, 3), (40, 3), (40, 3), arrival_s=np.zeros(3)),
        EngineLimits(max_num_seqs=3, max_num_batched_tokens=1000, kv_tokens=128),
        one_second,
    )
    assert run.start_s.tolist() == [0.0, 0.0, 3.0]
    assert run.engine.peak_tokens <= 128


def test_answers_of_one_token_have_no_time_a_token() -> None:
    run = simulate_load(
        requests((10, 1), (10, 3), concurrency=1),
        EngineLimits(max_num_seqs=1, max_num_batched_tokens=64, kv_tokens=160),
        one_second,
    )
    assert run.tpot_s.tolist() == [1.0]
    assert run.ttft_s.tolist() == [1.0, 1.0]
    assert run.end_s.tolist() == [1.0, 4.0]
    assert run.output_tokens_per_s == 1.0
    assert run.requests_per_s == 0.5
    assert run.mean_batch == 0.5  # two of four steps decode
    assert run.mean_in_system == 1.0
    assert run.utilisation == 1.0


def test_time_outside_the_engine_is_added_to_both_ends() -> None:
    limits = EngineLimits(
        max_num_seqs=1, max_num_batched_tokens=64, kv_tokens=160, first_token_overhead_s=0.25
    )
    run = simulate_load(requests((10, 3), concurrency=1), limits, one_second)
    assert (run.first_token_s[0], run.end_s[0]) == (1.25, 3.25)
    assert run.tpot_s.tolist() == [1.0]


def result(ends: list[float]) -> SimulatedLoad:
    count = len(ends)
    engine = EngineState(
        span_s=10.0, busy_s=5.0, steps=5, queue_area_s=20.0, system_area_s=30.0,
        batch_area_s=15.0, max_queue=3, preemptions=0, peak_tokens=50, kv_tokens=200, rounds=4,
        emitted=8,
    )  # fmt: skip
    return SimulatedLoad(
        requests(*[(1, 2)] * count, concurrency=1), np.zeros(count), np.full(count, 0.5),
        np.ones(count), np.array(ends), engine,
    )  # fmt: skip


def test_figures_of_a_run() -> None:
    run = result([2.0, 3.0])
    assert run.wait_s.tolist() == [0.5, 0.5]
    assert run.e2e_s.tolist() == [2.0, 3.0]
    assert run.tpot_s.tolist() == [1.0, 2.0]
    assert (run.mean_queue, run.mean_in_system, run.mean_batch) == (2.0, 3.0, 3.0)
    assert (run.utilisation, run.kv_peak_share) == (0.5, 0.25)
    assert run.output_tokens_per_s == 0.4


def test_the_steady_rate_leaves_out_the_begin_and_the_end() -> None:
    ends = [1.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 40.0]
    # of ten the third to the eighth: five requests in five seconds
    assert result(ends).steady_requests_per_s() == 1.0
    assert result(ends).steady_requests_per_s(0.0) == pytest.approx(9 / 39)
    # too few, or all at one time: the rate of the whole run
    assert result([3.0]).steady_requests_per_s() == 0.1
    assert result([4.0] * 10).steady_requests_per_s() == 1.0


def test_draws_do_not_repeat_when_they_are_used_up() -> None:
    drawn = Drawn(accepted_from_conditional([0.5]), 1, seed=0)
    kinds = np.zeros(50_000, dtype=np.int64)
    first, second = drawn.accepted(kinds, 1), drawn.accepted(kinds, 1)
    assert first.mean() == pytest.approx(0.5, abs=0.01)
    assert second.mean() == pytest.approx(0.5, abs=0.01)
    assert (first != second).any()
    many = np.zeros(100_000, dtype=np.int64)
    assert drawn.accepted(many, 1).shape == (100_000,)


def test_blocks_of_sequences() -> None:
    decoding = Decoding(4, 16, Drawn(accepted_from_conditional([0.0]), 2, seed=0))
    decoding.push(0, 16, 5)
    decoding.push(1, 17, 1)
    assert decoding.blocks(0) == 3
    assert decoding.blocks(1) == 4
    assert decoding.blocks_at_most(1) >= decoding.blocks(1)
    assert decoding.advance(2, 0) == [1]
    assert (decoding.count, decoding.held_tokens, decoding.rounds) == (1, 17, 2)
    assert decoding.pop_last() == (0, 4)
    assert (decoding.count, decoding.held_tokens) == (0, 0)


# ---- loads and clocks that are none


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: requests((0, 5), concurrency=1), "no tokens"),
        (lambda: requests((5, 0), concurrency=1), "no tokens"),
        (lambda: requests((9, 9), (0, 5), concurrency=1), "no tokens"),
        (lambda: requests((9, 9), (5, 0), concurrency=1), "no tokens"),
        (lambda: requests((5, 5), arrival_s=np.zeros(2)), "arrays of one length|as many"),
        (lambda: traffic(0, 5, 5), "at least one"),
        (lambda: traffic(2, 5, 5, prefix_hit_share=-0.1), "cannot hold"),
        (lambda: poisson_arrivals_s(0.0, 5, 1), "no load"),
        (lambda: poisson_arrivals_s(float("nan"), 5, 1), "no load"),
        (lambda: accepted_from_conditional([]), "no list of probabilities"),
        (lambda: accepted_from_conditional([1.1]), "no list of probabilities"),
        (lambda: accepted_from_conditional([-0.1]), "no list of probabilities"),
    ],
)
def test_what_cannot_be_simulated_is_refused(made: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        made()


def test_the_longest_request_must_fit() -> None:
    limits = EngineLimits(max_num_seqs=2, max_num_batched_tokens=64, kv_tokens=160)
    with pytest.raises(RequestError, match="A request of 201 tokens"):
        simulate_load(requests((5, 5), (100, 100), concurrency=1), limits, one_second)


def test_one_context_says_no_slope() -> None:
    with pytest.raises(RequestError, match="no slope"):
        tabulated_clock(
            lambda b, n, c: b * 1.0, max_batch=1, lengths=(0,), contexts=(0.0,),
            prefill=PrefillTimes(0.0),
        )  # fmt: skip


def test_arrivals_and_loops_of_the_same_requests() -> None:
    load = traffic(3, [10.4, 20.6, 30.0], 7, prefix_hit_share=0.5, seed=1)
    assert load.prompt_tokens.tolist() == [10, 21, 30]
    assert load.cached_tokens.tolist() == [5, 10, 15]
    assert load.concurrency == 1
    open_loop = load.at_rate(2.0, seed=4)
    assert open_loop.concurrency is None
    assert open_loop.arrival_s is not None
    assert open_loop.arrival_s.tolist() == poisson_arrivals_s(2.0, 3, 4).tolist()
    assert open_loop.closed(5).concurrency == 5
    assert open_loop.closed(5).arrival_s is None
    assert poisson_arrivals_s(1.0, 1, 0).tolist() == [0.0]
    other = traffic(40, [10, 20], [1, 2, 3], seed=1)
    assert set(other.output_tokens.tolist()) == {1, 2, 3}


def test_a_trace_without_a_round_has_no_lengths(synthetic: Any) -> None:
    short = evidence_from_profile(*synthetic.profile(tokens_each=1))
    with pytest.raises(RequestError, match="holds no round"):
        accepted_from_trace(short.traces[0])


def test_beyond_what_an_engine_ran_all_requests_are_alike(synthetic: Any) -> None:
    arrays = {
        "acceptance/0/offsets": np.array([0, 3, 6]),
        "acceptance/0/drafted": np.full(6, 2, dtype=np.uint8),
        "acceptance/0/accepted": np.array([2, 1, 0, 2, 2, 2], dtype=np.uint8),
    }
    cell = synthetic.acceptance_cell(
        2, 9, trace_kind="per_round", max_num_speculative_tokens=2, draft_sampling="greedy"
    )
    evidence = evidence_from_profile(synthetic.profile(acceptance=(cell,))[0], arrays)
    ran = profile_acceptance(evidence, 0.0, None, 2)
    further = profile_acceptance(evidence, 0.0, None, 5)
    assert ran is not None
    assert further is not None
    assert (ran.kinds, ran.longest) == (2, 2)
    assert (further.kinds, further.longest) == (1, 16)
    just_beyond = profile_acceptance(evidence, 0.0, None, 3)
    assert just_beyond is not None
    assert just_beyond.longest == 16


def test_a_curve_that_is_no_chains_is_brought_to_one() -> None:
    # it bends upwards at N = 2 and falls at N = 3
    found = accepted_from_curve([1.0, 1.4, 2.1, 2.0])
    assert found.at_least[3].tolist() == [[pytest.approx(0.4), pytest.approx(0.4), 0.0]]
    assert found.drafted == (0.0, 1.0, 2.0, 3.0)
    seldom = accepted_from_curve([1.0, 1.4], [0.0, 0.3])
    assert seldom.drafted == (0.0, 0.3)
    assert AcceptedLengths((np.zeros((3, 0)),), (0.0,)).kinds == 3


# ---- fits that end early


def test_a_fit_cut_short_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = [Factor("a", 1.0, 2.0)]
    works = [Work((1.0,), (((("g",), 0.5),),)), Work((2.0,), (((("g",), 0.5),),))]
    seconds = [5.0, 10.0]
    whole = fit_pooled(factors, works, seconds)
    monkeypatch.setattr(pooling, "_MAX_STEPS", 1)
    cut = fit_pooled(factors, works, seconds)
    typical = fit_pooled(factors, [], []).factor("a")
    assert typical == 1.0
    assert typical < cut.factor("a", ("g",)) < whole.factor("a", ("g",))
    assert whole.factor("a", ("g",)) == pytest.approx(5.0, rel=0.01)
    started = fit_pooled(factors, works, seconds, start=whole)
    assert started.factor("a", ("g",)) == pytest.approx(whole.factor("a", ("g",)), rel=1e-6)


def test_constants_cut_short_lie_between_the_prior_and_the_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def predict(values: np.ndarray) -> np.ndarray:
        return np.full(20, values[0])

    priors = [Prior("a", 1.0, 10.0)]
    measured = np.full(20, 50.0)
    whole = fit_shrunken(predict, measured, priors).values[0]
    monkeypatch.setattr(shrunken_fit, "_STEPS", 1)
    monkeypatch.setattr(shrunken_fit, "_ROUNDS", 1)
    cut = fit_shrunken(predict, measured, priors).values[0]
    assert whole == pytest.approx(50.0, rel=1e-3)
    assert cut == pytest.approx(np.e)  # one step of at most an e-fold


def test_a_constant_that_its_bound_holds_back_stays_there() -> None:
    priors = [Prior("a", 0.5, 1.0, most=1.0)]
    fit = fit_shrunken(lambda values: np.full(20, values[0]), np.full(20, 50.0), priors)
    assert fit.values.tolist() == [1.0]
    assert fit.scatter == pytest.approx(np.log(50.0))


# ---- a round in decode steps


def test_prompts_of_others_dilute_a_round() -> None:
    # half of the time is prefill: a round of three tokens waits for three of them
    assert diluted((1.0, 0.5), 0.01, 0.01, 3.0) == (pytest.approx(2.0), pytest.approx(0.25))
    assert diluted((1.0, 0.5), 0.01, 0.0, 3.0) == (1.0, 0.5)


def test_what_differs_between_engines_and_between_deployments() -> None:
    of_round, planned = round_groups("e", "d"), planned_groups("e", "d")
    assert of_round[0] == of_round[4] == ()  # the step itself and the links are everybody's
    for term in (2, 5, 6):  # experts, heads and drafts: the engine's alone
        assert [group for group, _ in of_round[term]] == [("engine", "e")]
    assert dict(of_round[7])["deployment", "d"] == 1.0
    assert dict(planned[7]) == {("engine", "e"): 1.0, ("deployment", "d"): 0.5}


def parts(*, head: bool = False) -> RoundParts:
    """A step of 10 ms; 1 ms of experts, 2 of arithmetic, 3 of exchange, 4 of drafting."""
    ten = np.array([0.010])
    extra = VerificationExtra(ten * 0.1, ten * 0.2, ten * 0.3)
    return RoundParts(ten, extra, ten * 0.4, np.array([5.0]), head)


def test_measured_passes_have_one_error_for_all() -> None:
    factors = RoundFactors.measured(0.002, 0.05)
    expected = 1 + 0.2 + 0.1 + 0.2 + 0.3 + 0.4
    assert float(expected_round(parts(), factors)[0]) == pytest.approx(expected)
    found = round_in_steps(parts(), factors)
    assert float(found.value[0]) == pytest.approx(expected)
    assert float(found.log_up[0]) == pytest.approx(1.96 * 0.05)
    assert float(found.log_down[0]) == pytest.approx(1.96 * 0.05)
    assert float(found.causes[SpreadCause.ROUND][0]) == pytest.approx(1.0)
    assert float(found.causes[SpreadCause.EXPERTS][0]) == 0.0


def test_each_term_moves_to_the_ends_of_its_own_interval() -> None:
    values = dict.fromkeys(RoundFactors.measured(0.0, 0.0).values, 1.0)
    values |= {"round_s": 0.002, "draft_pass_s": 0.001}
    log_sd = dict.fromkeys(values, 0.0) | {"arithmetic": 0.5, "head": 0.2}
    factors = RoundFactors(values, log_sd, 0.0)
    assert factors.ends("arithmetic") == (
        pytest.approx(np.exp(-0.98)),
        pytest.approx(np.exp(0.98)),
    )
    mean = np.exp(0.125)
    assert factors.expected("arithmetic") == pytest.approx(mean)
    # a pass of 1 ms, five times; a whole LLM drafts, so the head's doubt does not count
    found = round_in_steps(parts(), factors)
    value = 1 + 0.2 + 0.1 + 0.2 * mean + 0.3 + 0.4 + 0.5
    assert float(found.value[0]) == pytest.approx(value)
    assert float(expected_round(parts(), factors)[0]) == pytest.approx(value)
    up, down = 0.2 * (np.exp(0.98) - mean), 0.2 * (mean - np.exp(-0.98))
    assert float(found.log_up[0]) == pytest.approx(np.log1p(up / value))
    assert float(found.log_down[0]) == pytest.approx(-np.log(1 - down / value))
    assert float(found.causes[SpreadCause.VERIFICATION][0]) == pytest.approx(1.0)
    head = round_in_steps(parts(head=True), factors)
    drafting = 0.4 * np.exp(0.02)
    assert float(head.value[0]) == pytest.approx(value - 0.4 + drafting)
    both = up**2 + (0.4 * np.exp(1.96 * 0.2) - drafting) ** 2
    assert float(head.causes[SpreadCause.VERIFICATION][0]) == pytest.approx(up**2 / both)


def test_rows_of_hardware_and_length() -> None:
    step = np.array([[[0.010]], [[0.020]]])
    passes = np.arange(3.0)[:, None]
    many = RoundParts(
        step, VerificationExtra(step * 0, step * passes, step * 0), step * passes, passes, False
    )
    rows = many.at(np.array([1, 0]), np.array([2, 1]), (2, 3, 4))
    assert rows.decode_s.shape == (2, 4)
    assert rows.decode_s[:, 0].tolist() == [0.020, 0.010]
    assert rows.passes[:, 3].tolist() == [2.0, 1.0]
    assert rows.drafting_s[0, 0] == pytest.approx(0.04)
