"""Parts of the serving simulation by themselves: draws, sequences, figures, capacity, prefills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from capplan.errors import RequestError
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.serving_acceptance import (
    NO_DRAFTS,
    AcceptedLengths,
    accepted_from_conditional,
)
from capplan.estimate.serving_capacity import capacity_requests_per_s
from capplan.estimate.serving_clocks import PrefillTimes, constant_clock, tabulated_clock
from capplan.estimate.serving_decoding import Decoding, Drawn
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_profile import profile_clock, profile_prefill
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic, poisson_arrivals_s, traffic
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.verdict import Stability, Verdict

ONE_KIND = AcceptedLengths((np.zeros((1, 0)), np.array([[0.5]])), (0.0, 1.0))


def load(*lengths: tuple[int, int], concurrency: int = 1) -> Traffic:
    prompts, outputs = np.array(lengths).T
    return Traffic(prompts, outputs, np.zeros(len(lengths), np.int64), concurrency=concurrency)


# ---- random numbers


def test_each_kind_of_draw_has_a_stream_of_its_own_under_one_seed() -> None:
    # a report that names its seed can be made again: lengths, arrivals, drafts, kinds
    lengths = traffic(5, np.arange(1, 100), 7, seed=8).prompt_tokens
    picked = np.random.default_rng([8, 1]).integers(0, 99, 5) + 1
    assert lengths.tolist() == picked.tolist()
    gaps = np.random.default_rng([8, 2]).exponential(0.5, 4)
    assert poisson_arrivals_s(2.0, 5, 8).tolist() == [0.0, *np.cumsum(gaps)]
    drawn = Drawn(ONE_KIND, 5, seed=8)
    uniform = np.random.default_rng([8, 3]).random(9)
    assert drawn.accepted(np.zeros(9, np.int64), 1).tolist() == (uniform < 0.5).tolist()
    three = AcceptedLengths((np.zeros((3, 0)),), (0.0,))
    kinds = np.random.default_rng([8, 4]).integers(0, 3, 50)
    assert Drawn(three, 50, seed=8).kind_of.tolist() == kinds.tolist()
    assert set(kinds) == {0, 1, 2}


def test_no_random_number_is_left_out_or_taken_twice() -> None:
    drawn = Drawn(ONE_KIND, 1, seed=3)
    uniform = np.random.default_rng([3, 3]).random(65_536 + 1000)
    sizes = (30_000, 35_536, 600, 400)
    found = [drawn.accepted(np.zeros(size, np.int64), 1) for size in sizes]
    assert (np.concatenate(found) == (uniform < 0.5)).all()


def test_kinds_that_are_alike_draw_what_one_kind_draws() -> None:
    rates = accepted_from_conditional([0.9, 0.6, 0.3])
    doubled = AcceptedLengths(
        tuple(np.repeat(table, 2, axis=0) for table in rates.at_least), rates.drafted
    )
    alone, both = Drawn(rates, 4, seed=5), Drawn(doubled, 4, seed=5)
    kinds = np.tile([0, 1], 500)
    for n in (1, 2, 3):
        assert (alone.accepted(kinds * 0, n) == both.accepted(kinds, n)).all()


# ---- sequences


def test_a_round_writes_no_more_than_is_left() -> None:
    sure = Drawn(accepted_from_conditional([1.0] * 4), 3, seed=0)
    decoding = Decoding(3, 16, sure)
    decoding.push(0, 10, 7)
    decoding.push(1, 20, 5)
    decoding.push(2, 30, 6)
    # five tokens each of the first two: the second has come to its end, the third stood still
    assert decoding.advance(2, 4) == [1]
    assert (decoding.count, decoding.rounds, decoding.emitted) == (2, 2, 10)
    assert decoding.held_tokens == 15 + 30
    # two left of the first, six of the third: 2 and 5
    assert decoding.advance(2, 4) == [0]
    assert (decoding.emitted, decoding.held_tokens) == (17, 35)
    assert decoding.pop_last() == (2, 1)
    assert (decoding.count, decoding.held_tokens) == (0, 0)


@pytest.mark.parametrize("more", [0, 1, 5, 16, 17])
def test_the_bound_on_blocks_holds_and_is_met_where_caches_end_with_a_block(more: int) -> None:
    decoding = Decoding(4, 16, Drawn(NO_DRAFTS, 4, seed=0))
    for request, held in enumerate((16, 17, 31, 1)):
        decoding.push(request, held, 9)
        exact = sum(-(-(one + more) // 16) for one in (16, 17, 31, 1)[: request + 1])
        assert decoding.blocks(more) == exact <= decoding.blocks_at_most(more)
    whole = Decoding(2, 16, Drawn(NO_DRAFTS, 2, seed=0))
    whole.push(0, 32, 9)
    whole.push(1, 48, 9)
    assert whole.blocks(1) == whole.blocks_at_most(1) == 3 + 4


# ---- figures


def test_progress_is_told_every_4096_steps() -> None:
    told: list[int] = []
    simulate_load(
        load((1, 4096), (1, 8193), concurrency=2), EngineLimits(2, 10, 20_000),
        constant_clock(1.0), on_progress=told.append,
    )  # fmt: skip
    # both begin in the first step: the shorter one ends with the step that is told first
    assert told == [1, 1]


@pytest.mark.parametrize(("requests", "served"), [(3, 12), (12, 12), (15, 15)])
def test_capacity_is_the_steady_rate_of_six_waves(requests: int, served: int) -> None:
    lengths = [(40 + 10 * number, 5 + 3 * number) for number in range(requests)]
    limits = EngineLimits(2, 64, 10_000)
    clock = constant_clock(0.1, 0.01)
    found = capacity_requests_per_s(load(*lengths), limits, clock)
    again = [lengths[number % requests] for number in range(served)]
    whole = simulate_load(load(*again, concurrency=2), limits, clock)
    assert found == pytest.approx(whole.steady_requests_per_s())


def test_capacity_follows_drafts_and_seed() -> None:
    lengths = [(10, 30 + number) for number in range(12)]
    limits = EngineLimits(2, 64, 10_000, num_speculative_tokens=2)
    drafts = accepted_from_conditional([0.6, 0.6])
    runs = [
        capacity_requests_per_s(load(*lengths), limits, constant_clock(0.1), drafts, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert runs[0] == runs[1] != runs[2]
    unsaid = capacity_requests_per_s(load(*lengths), limits, constant_clock(0.1), drafts)
    assert unsaid == runs[0]


@pytest.mark.parametrize("first", [-0.5, 2.0])
def test_lengths_that_no_step_could_verify_are_refused(first: float) -> None:
    assert EngineLimits(4, 5, 100, num_speculative_tokens=4).lengths() == [4] * 5
    with pytest.raises(RequestError, match="cannot verify 5 drafts"):
        EngineLimits(4, 5, 100, num_speculative_tokens=[0, 5, 1])
    with pytest.raises(RequestError, match="no list of probabilities"):
        accepted_from_conditional([first, 0.5])


def test_a_request_may_fill_the_pool_to_its_last_block() -> None:
    # 100 + 25 tokens, two drafts and the next token: 128 tokens, eight blocks of 16
    drafts = accepted_from_conditional([1.0, 1.0])
    for tokens in (128, 143):
        limits = EngineLimits(1, 64, tokens, num_speculative_tokens=2)
        run = simulate_load(load((100, 25)), limits, constant_clock(1.0), drafts)
        assert run.engine.preemptions == 0
    with pytest.raises(RequestError, match="A request of 128 tokens"):
        simulate_load(
            load((100, 25)), EngineLimits(1, 64, 127, num_speculative_tokens=2),
            constant_clock(1.0), drafts,
        )  # fmt: skip


def test_what_is_not_said_costs_nothing() -> None:
    clock = tabulated_clock(
        lambda batches, n, context: batches * 1.0, max_batch=2, lengths=(0,),
        contexts=(0.0, 1.0), prefill=PrefillTimes(0.5),
    )  # fmt: skip
    assert (clock(0, 1, 0.0, 4), clock(2, 1, 0.0, 4)) == (2.0, 4.0)
    assert constant_clock(3.0)(1, 1, 0.0, 50) == 3.0


# ---- prefills of a profile


def prefill(tokens: int, *seconds: float, batch: int = 1) -> TimingCell:
    return TimingCell(
        role=Role.TARGET, phase=Phase.PREFILL, batch=batch, tokens_per_sequence=tokens, context=0,
        seconds=seconds, verdict=Verdict(stability=Stability.STABLE),
    )  # fmt: skip


@pytest.fixture(scope="module")
def evidence(synthetic: Any) -> ProfileEvidence:
    return evidence_from_profile(*synthetic.profile())


def with_prompts(evidence: ProfileEvidence, *cells: TimingCell) -> ProfileEvidence:
    kept = (cell for cell in evidence.profile.timing if cell.phase is not Phase.PREFILL)
    return replace(
        evidence, profile=evidence.profile.model_copy(update={"timing": (*kept, *cells)})
    )


def test_prompts_of_a_machine_of_seconds_a_token(evidence: ProfileEvidence) -> None:
    # 5 and 9 s for 2 and 4 tokens: 2 s each and 1 s for the step
    found = profile_prefill(with_prompts(evidence, prefill(2, 5.0), prefill(4, 9.0)))
    assert (found.s_per_token, found.alone_s) == (pytest.approx(2.0), pytest.approx(1.0))


def test_two_prompts_in_one_step_are_twice_the_tokens(evidence: ProfileEvidence) -> None:
    cells = (prefill(100, 0.020), prefill(200, 0.050, batch=2))
    found = profile_prefill(with_prompts(evidence, *cells))
    assert found.s_per_token == pytest.approx(0.030 / 300)
    assert found.alone_s == pytest.approx(0.010)


def test_of_repetitions_the_median_counts(evidence: ProfileEvidence) -> None:
    cells = (prefill(100, 0.020, 0.020, 0.5), prefill(400, 0.050, 0.049, 0.051))
    found = profile_prefill(with_prompts(evidence, *cells))
    assert (found.s_per_token, found.alone_s) == (pytest.approx(1e-4), pytest.approx(0.010))


def test_prompts_that_take_less_the_longer_they_are_leave_the_longest_to_itself(
    evidence: ProfileEvidence,
) -> None:
    own_s = evidence.target_step.fixed_s
    found = profile_prefill(with_prompts(evidence, prefill(100, 0.090), prefill(400, 0.080)))
    assert found.alone_s == pytest.approx(own_s)
    assert found.alone_s + 400 * found.s_per_token == pytest.approx(0.080)


def test_half_of_a_quick_prompt_at_most_is_the_steps_own(evidence: ProfileEvidence) -> None:
    found = profile_prefill(with_prompts(evidence, prefill(8, 0.004)))
    assert (found.alone_s, found.s_per_token) == (pytest.approx(0.002), pytest.approx(0.00025))


@pytest.mark.parametrize("longest", [0, 1, 2])
def test_the_clock_holds_for_requests_of_a_token_or_two(
    evidence: ProfileEvidence, longest: int
) -> None:
    clock = profile_clock(evidence, max_batch=2, lengths=(0, 2), longest_context=longest)
    for n in (0, 2):
        for context in (0.0, 0.5, 3.0):
            expected = evidence.round_seconds(2, n, context)
            assert clock(2, n + 1, context, 0) == pytest.approx(expected)
