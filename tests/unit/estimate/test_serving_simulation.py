"""The step-level simulation of continuous batching: what it must do, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capplan.errors import RequestError
from capplan.estimate.serving_acceptance import (
    AcceptedLengths,
    accepted_from_conditional,
    accepted_from_curve,
)
from capplan.estimate.serving_capacity import capacity_requests_per_s
from capplan.estimate.serving_clocks import (
    PrefillTimes,
    constant_clock,
    scaled_clock,
    tabulated_clock,
)
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_results import SimulatedLoad
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic, poisson_arrivals_s, traffic


class Recorded:
    """A clock that remembers what it was asked; steps take one second."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, float, int]] = []

    def __call__(self, batch: int, tokens: int, context: float, prefill_tokens: int) -> float:
        self.steps.append((batch, tokens, context, prefill_tokens))
        return 1.0


def limits(**changes: Any) -> EngineLimits:
    stated: dict[str, Any] = {
        "max_num_seqs": 4, "max_num_batched_tokens": 100, "kv_tokens": 16_000,
    }  # fmt: skip
    return EngineLimits(**{**stated, **changes})


def at_once(count: int, prompt: int, output: int, **options: Any) -> Traffic:
    return traffic(count, prompt, output, arrival_s=np.zeros(count), **options)


# ---- the scheduler


def test_a_prompt_longer_than_a_step_is_cut_into_chunks() -> None:
    clock = Recorded()
    run = simulate_load(at_once(1, 250, 3), limits(), clock)
    assert [step[3] for step in clock.steps] == [100, 100, 50, 0, 0]
    assert run.ttft_s.tolist() == [3.0]
    assert run.e2e_s.tolist() == [5.0]
    assert run.tpot_s.tolist() == [1.0]


def test_sequences_that_decode_come_before_prompts() -> None:
    clock = Recorded()
    two = Traffic(
        np.array([100, 250]), np.array([10, 2]), np.zeros(2, dtype=np.int64), np.array([0.0, 0.5])
    )
    simulate_load(two, limits(), clock)
    # one token of the first request, 99 of the second's prompt in each step
    assert clock.steps[1:5] == [
        (1, 1, 100, 99),
        (1, 1, 101, 99),
        (1, 1, 102, 52),
        (2, 1, 176.5, 0),
    ]


def test_several_prompts_share_a_step() -> None:
    clock = Recorded()
    run = simulate_load(at_once(3, 40, 2), limits(), clock)
    assert [step[3] for step in clock.steps][:2] == [100, 20]
    assert run.ttft_s.tolist() == [1.0, 1.0, 2.0]


def test_no_more_run_than_there_are_places() -> None:
    clock = Recorded()
    run = simulate_load(at_once(9, 10, 5), limits(max_num_seqs=2), clock)
    assert max(step[0] for step in clock.steps) == 2
    assert run.engine.max_queue == 7


def test_a_round_of_drafts_takes_its_tokens_from_the_budget() -> None:
    clock = Recorded()
    two = Traffic(
        np.array([100, 250]), np.array([40, 2]), np.zeros(2, dtype=np.int64), np.array([0.0, 0.5])
    )
    drafts = accepted_from_conditional([0.5, 0.5, 0.5])
    simulate_load(two, limits(num_speculative_tokens=3), clock, drafts)
    assert clock.steps[1] == (1, 4, 100, 96)


def test_sequences_beyond_the_budget_of_a_step_wait_for_the_next() -> None:
    clock = Recorded()
    drafts = accepted_from_conditional([1.0] * 9)
    run = simulate_load(
        at_once(4, 10, 21), limits(max_num_batched_tokens=20, num_speculative_tokens=9),
        clock, drafts,
    )  # fmt: skip
    assert max(step[0] for step in clock.steps) == 2
    assert run.engine.emitted == 4 * 20


def test_prompts_in_the_prefix_cache_take_no_time_but_for_their_last_block() -> None:
    clock = Recorded()
    simulate_load(at_once(1, 96, 2, prefix_hit_share=0.99), limits(), clock)
    assert clock.steps[0][3] == 96 - 80  # 95 tokens are held: five whole blocks of 16
    assert clock.steps[1][2] == 96


def test_n_follows_the_batch() -> None:
    clock = Recorded()
    drafts = accepted_from_conditional([0.0, 0.0])
    simulate_load(
        at_once(3, 10, 4), limits(num_speculative_tokens=[2, 2, 1, 0]), clock, drafts
    )  # fmt: skip
    assert {(step[0], step[1]) for step in clock.steps if step[0]} == {(3, 1)}
    clock = Recorded()
    simulate_load(at_once(1, 10, 4), limits(num_speculative_tokens=[2, 2, 1, 0]), clock, drafts)
    assert {(step[0], step[1]) for step in clock.steps if step[0]} == {(1, 3)}


# ---- the KV cache


def test_the_request_admitted_last_is_thrown_out_and_computed_again() -> None:
    clock = Recorded()
    # two requests of 16 + 40 tokens need 4 blocks each; the pool has 6
    run = simulate_load(at_once(2, 16, 40), limits(kv_tokens=96), clock)
    assert run.engine.preemptions == 1
    assert run.end_s[1] > run.end_s[0]
    # its prompt and the 32 tokens it had written are computed again in one step
    assert any(prefill == 16 + 32 + 1 for *_, prefill in clock.steps[1:])
    assert run.first_token_s.tolist() == [1.0, 1.0]


def test_the_peak_counts_what_a_prompt_in_the_making_holds() -> None:
    # 100 tokens of the prompt a step: 200 are held before the step that ends it
    assert simulate_load(at_once(1, 250, 1), limits(), Recorded()).engine.peak_tokens == 200
    longer = Traffic(
        np.array([50, 250]), np.array([9, 1]), np.zeros(2, dtype=np.int64), np.zeros(2)
    )
    # the first request's 50 and 2 of its answer beside 50, 149 and 248 tokens of the other
    assert simulate_load(longer, limits(), Recorded()).engine.peak_tokens == 51 + 248


def test_a_prompt_is_admitted_only_where_the_whole_of_it_fits() -> None:
    clock = Recorded()
    run = simulate_load(at_once(2, 160, 3), limits(kv_tokens=16 * 15), clock)
    assert run.engine.preemptions == 0
    assert run.start_s[1] >= run.end_s[0]


def test_preemption_writes_every_token_once() -> None:
    load = traffic(60, 30, np.random.default_rng(0).integers(2, 90, 60), concurrency=8)
    run = simulate_load(load, limits(max_num_seqs=8, kv_tokens=400), Recorded())
    assert run.engine.preemptions > 10
    thrown = int((load.output_tokens - 1).sum()) - run.engine.emitted
    # a token a sequence thrown out comes from the end of its second prefill, not from a round
    assert 0 < thrown <= run.engine.preemptions
    assert run.kv_peak_share <= 1.0


def test_a_request_that_never_fits_is_refused() -> None:
    with pytest.raises(RequestError, match="does not fit a KV pool of 96 tokens"):
        simulate_load(at_once(1, 90, 8), limits(kv_tokens=96), Recorded())


# ---- speculation


def test_mean_tokens_a_round_are_those_of_the_rates() -> None:
    drafts = accepted_from_conditional([0.8, 0.6, 0.5])
    run = simulate_load(at_once(200, 8, 400), limits(num_speculative_tokens=3), Recorded(), drafts)
    foretold = 1 + 0.8 + 0.8 * 0.6 + 0.8 * 0.6 * 0.5
    assert run.engine.emitted / run.engine.rounds == pytest.approx(foretold, rel=0.01)
    assert drafts.tokens_per_round(3) == pytest.approx(foretold)


def test_kinds_of_requests_keep_their_own_acceptance() -> None:
    hard_and_easy = AcceptedLengths(
        (np.zeros((2, 0)), np.array([[0.0], [1.0]])), (0.0, 1.0)
    )  # fmt: skip
    load = at_once(400, 8, 101)
    run = simulate_load(
        load, limits(max_num_seqs=400, num_speculative_tokens=1, kv_tokens=100_000), Recorded(),
        hard_and_easy,
    )  # fmt: skip
    # not a mixture of the two in every request
    assert set(np.round(run.tpot_s, 2)) == {1.0, 0.5}
    assert run.engine.emitted / run.engine.rounds == pytest.approx(4 / 3, rel=0.03)
    assert hard_and_easy.tokens_per_round(1) == pytest.approx(4 / 3)


def test_a_curve_gives_its_own_mean_back() -> None:
    curve = [1.0, 1.7, 2.1, 2.3]
    drafts = accepted_from_curve(curve)
    assert [drafts.tokens_per_round(n) for n in range(4)] == pytest.approx(curve)


def test_all_drafts_accepted_end_an_answer_at_its_length() -> None:
    drafts = accepted_from_conditional([1.0] * 4)
    run = simulate_load(at_once(1, 8, 12), limits(num_speculative_tokens=4), Recorded(), drafts)
    assert run.engine.emitted == 11
    assert run.engine.rounds == 3  # 5 + 5 + 1


def test_drafts_whose_acceptance_is_unknown_are_refused() -> None:
    with pytest.raises(RequestError, match="known up to 1"):
        simulate_load(
            at_once(1, 8, 12), limits(num_speculative_tokens=4), Recorded(),
            accepted_from_conditional([0.5]),
        )  # fmt: skip


# ---- arrivals


def test_a_closed_loop_keeps_so_many_at_a_time() -> None:
    load = traffic(40, 10, 20, concurrency=3)
    run = simulate_load(load, limits(), constant_clock(1.0, 1e-9))
    assert run.mean_in_system == pytest.approx(3, rel=0.05)
    assert run.utilisation == 1.0
    assert (run.wait_s == 0).all()


def test_poisson_arrivals_have_their_rate() -> None:
    times = poisson_arrivals_s(5.0, 20_000, 1)
    gaps = np.diff(times)
    assert times[0] == 0
    assert gaps.mean() == pytest.approx(0.2, rel=0.02)
    assert gaps.std() == pytest.approx(0.2, rel=0.03)


def test_observed_lengths_are_drawn_in_pairs() -> None:
    load = traffic(500, [10, 1000], [5, 50])
    assert {*zip(load.prompt_tokens.tolist(), load.output_tokens.tolist(), strict=True)} == {
        (10, 5), (1000, 50),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrival_s": np.zeros(3), "concurrency": 2}, "either times of arrival or"),
        ({"arrival_s": np.array([0.0, 2.0, 1.0])}, "fall"),
        ({"prefix_hit_share": 1.0}, "cannot hold"),
        ({"concurrency": 0}, "no load"),
    ],
)
def test_loads_that_are_none_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        traffic(3, 10, 10, **changes)


def test_engines_that_cannot_run_are_refused() -> None:
    with pytest.raises(RequestError, match="max_num_seqs is 0"):
        limits(max_num_seqs=0)
    with pytest.raises(RequestError, match="cannot verify"):
        limits(max_num_batched_tokens=4, num_speculative_tokens=4)


# ---- clocks and capacity


def test_a_tabulated_clock_gives_back_what_it_was_made_of() -> None:
    clock = tabulated_clock(
        lambda b, n, c: 1e-3 * (1 + b + 2 * b * n + 1e-3 * b * c),
        max_batch=8, lengths=(0, 2), contexts=(0.0, 500.0, 1000.0),
        prefill=PrefillTimes(1e-4, 0.5),
    )  # fmt: skip
    assert clock(3, 1, 700.0, 0) == pytest.approx(1e-3 * (1 + 3 + 2.1))
    assert clock(3, 3, 1500.0, 10) == pytest.approx(1e-3 * (1 + 3 + 12 + 4.5) + 1e-3)
    assert clock(0, 1, 0.0, 100) == pytest.approx(0.51)
    assert scaled_clock(clock, 2.0)(0, 1, 0.0, 100) == pytest.approx(1.02)


def test_capacity_of_a_constant_step_is_places_over_steps() -> None:
    load = traffic(400, 1, np.random.default_rng(1).integers(10, 30, 400))
    found = capacity_requests_per_s(load, limits(max_num_seqs=8), constant_clock(0.1))
    steps = float(load.output_tokens.mean())  # one of them the prefill's
    assert found == pytest.approx(8 / (steps * 0.1), rel=0.03)


def run_at(rate: float, requests: int = 600) -> SimulatedLoad:
    load = traffic(requests, 20, np.random.default_rng(2).integers(5, 40, requests))
    return simulate_load(load.at_rate(rate, 3), limits(), constant_clock(0.05, 1e-4))


def test_more_arrivals_never_shorten_the_queue() -> None:
    queues = [run_at(rate).mean_queue for rate in (0.5, 1.5, 2.5, 5.0)]
    assert queues == sorted(queues)
    assert run_at(0.5).utilisation < run_at(2.5).utilisation


def test_beyond_capacity_the_queue_grows_with_the_requests() -> None:
    assert run_at(40.0, 1200).engine.max_queue > 1.7 * run_at(40.0, 600).engine.max_queue


def test_progress_is_told() -> None:
    told: list[int] = []
    load = traffic(200, 5, 120, concurrency=1)
    simulate_load(load, limits(), constant_clock(1.0), on_progress=told.append)
    assert told
    assert told == sorted(told)
