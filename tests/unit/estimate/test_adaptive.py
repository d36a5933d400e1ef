"""Schedules of lengths by batch: exact, as few ranges as cost nothing, never against the tax."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from capplan.estimate.adaptive import (
    MAX_RANGES,
    UNSEEN_WEIGHT,
    LengthTimes,
    plan_lengths,
    poisson_load,
    regret,
    stated_load,
)
from capplan.estimate.length_spread import (
    DRAWS,
    LengthDraws,
    RoundSpread,
    gain_interval,
    tokens_of_curve,
)

LENGTHS = np.array([0, 1, 3, 5])
TOKENS = np.array([1.0, 1.7, 2.4, 2.7])


def times(largest: int, token_s: float = 2e-5) -> LengthTimes:
    """A round of 6 ms that grows with every token verified, as SpecDecode-Bench fits it."""
    batches = np.arange(1, largest + 1)
    draft_s = np.where(LENGTHS > 0, 2e-3, 0.0)
    round_s = 6e-3 + draft_s + token_s * batches[:, None] * (LENGTHS + 1.0)
    return LengthTimes.of(batches, LENGTHS, round_s / TOKENS)


def even(largest: int) -> np.ndarray:
    return np.full(largest, 1 / largest)


def test_small_batches_draft_long_and_large_ones_short() -> None:
    plan = plan_lengths(times(400), even(400), merge_loss=0.0)
    assert plan.ranges[0].first == 1
    assert plan.ranges[-1].last == 400
    lengths = [r.num_speculative_tokens for r in plan.ranges]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 5
    for before, after in zip(plan.ranges, plan.ranges[1:], strict=False):
        assert after.first == before.last + 1


@pytest.mark.parametrize("seed", range(5))
def test_a_merged_schedule_is_the_best_of_its_number_of_ranges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches = np.arange(1, 7)
    random = LengthTimes(batches, LENGTHS[:3], rng.uniform(0.5, 2.0, (6, 3)), np.zeros(6))
    load = rng.dirichlet(np.ones(6))
    weight = load + UNSEEN_WEIGHT / 6
    value = weight[:, None] * random.scheduled_rate

    def total(places: tuple[int, ...]) -> float:
        return float(value[np.arange(6), list(places)].sum())

    every = {places: total(places) for places in product(range(3), repeat=6)}
    best = max(every.values())
    for loss in (0.0, 0.05, 0.15, 0.4):
        plan = plan_lengths(random, load, merge_loss=loss)
        ranges = len(plan.ranges)
        same_number = [
            value for places, value in every.items() if np.count_nonzero(np.diff(places)) < ranges
        ]
        got = total(tuple(np.searchsorted(LENGTHS, plan.chosen).tolist()))
        assert got == pytest.approx(max(same_number))
        assert got >= (1 - loss) * best - 1e-12
        fewer = [v for p, v in every.items() if np.count_nonzero(np.diff(p)) < ranges - 1]
        assert max(fewer, default=-1.0) < (1 - loss) * best


def test_lengths_need_not_fall_with_the_batch() -> None:
    # experts of a mixture are read anyway from some batch on: drafting pays again
    seconds = np.array([[1.0, 0.9], [1.0, 0.9], [1.0, 1.5], [1.0, 1.5], [1.0, 0.7], [1.0, 0.7]])
    grid = LengthTimes(np.arange(1, 7), np.array([0, 4]), seconds, np.full(6, 0.1))
    plan = plan_lengths(grid, even(6), merge_loss=0.0)
    assert [r.num_speculative_tokens for r in plan.ranges] == [4, 0, 4]


def test_switching_off_in_a_schedule_costs_what_plain_serving_does_not() -> None:
    grid = LengthTimes(np.arange(1, 3), np.array([0, 4]),
                       np.array([[1.0, 0.5], [1.0, 1.04]]), np.full(2, 0.1))  # fmt: skip
    plan = plan_lengths(grid, even(2), merge_loss=0.0)
    # at batch 2 drafting loses 4 %, but N = 0 would lose 10 %
    assert [r.num_speculative_tokens for r in plan.ranges] == [4]
    untaxed = LengthTimes(grid.batches, grid.lengths, grid.token_s, np.zeros(2))
    assert plan_lengths(untaxed, even(2), merge_loss=0.0).chosen.tolist() == [4, 0]


def test_the_tax_paid_is_the_gain_lost() -> None:
    seconds = np.array([[1.0, 0.5], [1.0, 1.3], [1.0, 1.5]])
    grid = LengthTimes.of(np.array([1, 64, 128]), np.array([0, 4]), seconds)
    plan = plan_lengths(grid, np.full(3, 1 / 3), merge_loss=0.0)
    assert 0 in plan.chosen
    assert plan.tax_paid == pytest.approx(plan.gain_before_tax - plan.gain)
    assert plan.tax_paid > 0.1


def test_beyond_its_largest_batch_a_single_length_serves_no_more() -> None:
    seconds = times(10).token_s.copy()
    seconds[5:, 3] = np.inf
    grid = LengthTimes.of(np.arange(1, 11), LENGTHS, seconds)
    assert grid.fixed_rate[9, 3] == grid.fixed_rate[4, 3]
    assert grid.scheduled_rate[9, 3] == 0
    assert plan_lengths(grid, even(10)).chosen[9] != 5


def test_one_length_that_is_best_everywhere_gains_nothing() -> None:
    plan = plan_lengths(times(4), even(4))
    assert len(plan.ranges) == 1
    assert plan.gain == pytest.approx(0.0)
    assert plan.fixed == plan.ranges[0].num_speculative_tokens


@pytest.mark.parametrize("mean", [0.01, 1.0, 24.0, 300.0])
def test_a_poisson_load_has_its_mean_of_those_that_are_busy(mean: float) -> None:
    load = poisson_load(mean, 1024)
    assert load.sum() == pytest.approx(1.0)
    assert load @ np.arange(1, 1025) == pytest.approx(mean / -np.expm1(-mean), rel=1e-6)


def test_requests_beyond_the_limit_wait_there() -> None:
    load = poisson_load(50.0, 20)
    assert load.sum() == pytest.approx(1.0)
    assert load[-1] > 0.99
    # mean 1, two places: e^-1 each for none and for one, the rest is two and more
    half = poisson_load(1.0, 2)
    assert half == pytest.approx(np.array([1 / np.e, 1 - 2 / np.e]) / (1 - 1 / np.e))


def test_stated_shares_are_put_in_proportion() -> None:
    assert stated_load({1: 3.0, 4: 1.0}, 5).tolist() == [0.75, 0, 0, 0.25, 0]


def draws(tokens_se: float, shared: float, own: float) -> LengthDraws:
    tokens = tokens_of_curve(np.where(LENGTHS > 0, tokens_se, 0.0), seed=1)
    return LengthDraws.of(tokens, RoundSpread(shared, own), LENGTHS, seed=2)


def test_a_schedule_of_one_length_gains_nothing_in_every_draw() -> None:
    grid, load = times(4), even(4)
    plan = plan_lengths(grid, load)
    low, high = gain_interval(grid, plan, load, draws(0.1, 0.1, 0.1))
    assert low == pytest.approx(0.0)
    assert high == pytest.approx(0.0)


def test_a_common_error_of_rounds_cancels_between_two_lengths_and_an_own_one_does_not() -> None:
    grid, load = times(200), even(200)
    plan = plan_lengths(grid, load)
    assert 0 not in {*plan.chosen.tolist(), plan.fixed}
    low, high = gain_interval(grid, plan, load, draws(0.2, 0.2, 0.0))
    assert high - low < 1e-9
    low, high = gain_interval(grid, plan, load, draws(0.0, 0.0, 0.02))
    assert low < plan.gain < high
    assert high - low > 0.005


def two_lengths(plain_s: float, drafted_s: list[float]) -> LengthTimes:
    batches = np.arange(1, len(drafted_s) + 1)
    token_s = np.stack([np.full(len(drafted_s), plain_s), drafted_s], axis=1)
    return LengthTimes(batches, np.array([0, 1]), token_s, np.zeros(len(drafted_s)))


def test_the_interval_holds_the_middle_95_of_100_draws() -> None:
    # plain serving is the best single length over the load, drafting gains at batch 1 alone
    grid = two_lengths(1.0, [0.8, 4.0, 4.0])
    load = np.array([0.5, 0.25, 0.25])
    plan = plan_lengths(grid, load)
    assert (plan.fixed, plan.chosen.tolist()) == (0, [1, 0, 0])
    spread = np.linspace(1.0, 2.0, 1001)
    none = np.ones((1001, 2))
    tokens = np.stack([np.ones(1001), spread], axis=1)
    low, high = gain_interval(grid, plan, load, LengthDraws(tokens, none, np.ones(1001)))
    # of 0.5 + 0.5 + 0.75 tokens a second the first are made 1 / 0.8 times as many and drawn
    assert low == pytest.approx((0.5 * 1.025 / 0.8 + 1.25) / 1.75 - 1)
    assert high == pytest.approx((0.5 * 1.975 / 0.8 + 1.25) / 1.75 - 1)
    slower = LengthDraws(none, tokens, np.ones(1001))
    _, high = gain_interval(grid, plan, load, slower)
    assert high == pytest.approx((0.5 / 1.025 / 0.8 + 1.25) / 1.75 - 1, rel=1e-5)


@pytest.mark.parametrize(("loss", "ranges"), [(0.032, 1), (0.035, 2)])
def test_batches_that_the_load_never_sees_count_a_fifth_of_it(loss: float, ranges: int) -> None:
    # N = 1 is best at batch 1, where the load is, and loses to N = 2 at nine batches without any:
    # 0.2 x 9 / 10 of the load's 1.2 parts, 0.5 % of which may be lost
    batches = np.arange(1, 11)
    rates = np.array([[1e-9, 1.0, 0.5]] + [[1e-9, 1.0 - loss, 1.0]] * 9)
    grid = LengthTimes(batches, np.array([0, 1, 2]), batches[:, None] / rates, np.zeros(10))
    assert 0.2 * 0.9 / 1.2 * 0.032 < 0.005 < 0.2 * 0.9 / 1.2 * 0.035
    plan = plan_lengths(grid, np.array([1.0] + [0.0] * 9))
    assert len(plan.ranges) == ranges
    assert plan.ranges[0].num_speculative_tokens == 1


def test_draws_leave_plain_steps_alone() -> None:
    made = draws(0.1, 0.1, 0.1)
    assert made.tokens.shape == (DRAWS, 4)
    assert (made.rounds[:, 0] == 1).all()
    assert (made.tokens[:, 0] == 1).all()


def test_regret_is_what_the_predicted_best_loses() -> None:
    measured = np.array([[1.0, 2.0, 1.9], [3.0, 1.0, 2.0]])
    predicted = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
    assert regret(measured, predicted) == pytest.approx([0.05, 0.0])
    assert float(regret(measured[0], predicted[0])) == pytest.approx(0.05)
    cube = regret(np.stack([measured, measured[::-1]]), np.stack([predicted, predicted]))
    # in the second half the choices meet the other row: 1.9 of 3 is lost by taking the last
    assert cube == pytest.approx(np.array([[0.05, 0.0], [1 / 3, 0.5]]))


def test_a_schedule_has_no_more_ranges_than_an_engine_should_read() -> None:
    # every other batch is best served with another length: 30 ranges without a limit
    batches = np.arange(1, 31)
    odd = batches[:, None] % 2 == np.array([0, 1])
    alternating = LengthTimes(batches, LENGTHS[1:3], np.where(odd, 1.0, 2.0), np.zeros(30))
    plan = plan_lengths(alternating, even(30), merge_loss=0.0)
    assert len(plan.ranges) == MAX_RANGES
    # 11 switches keep 12 batches at their best, and of the other 18 every second one
    best = sum(batches)
    kept = float((alternating.scheduled_rate[batches - 1, (plan.chosen == 3) * 1]).sum())
    assert plan.merge_loss == pytest.approx(1 - kept / best)
    assert 0 < plan.merge_loss < 0.25


def test_what_fewer_ranges_cost_is_told_and_no_more_than_was_allowed() -> None:
    merged = plan_lengths(times(400), even(400), merge_loss=0.02)
    assert 0 <= merged.merge_loss <= 0.02 + 1e-9
    exact = plan_lengths(times(400), even(400), merge_loss=0.0)
    assert exact.merge_loss == pytest.approx(0.0, abs=1e-9)
    assert len(merged.ranges) < len(exact.ranges)
