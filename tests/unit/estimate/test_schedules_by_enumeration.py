"""Schedules of lengths against all schedules there are, and draws of what a profile leaves."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from capplan.estimate.adaptive import LengthTimes, plan_lengths, poisson_load, regret
from capplan.estimate.evidence import evidence_from_profile
from capplan.estimate.framework_tax import LOG_SD, framework_tax
from capplan.estimate.length_spread import (
    DRAWS,
    LENGTH_SCATTER,
    LengthDraws,
    RoundSpread,
    gain_interval,
    tokens_of_curve,
    tokens_of_requests,
)
from capplan.estimate.length_times import profile_draws

# ---- every schedule


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("loss", [0.0, 0.05, 0.2])
def test_no_schedule_of_as_many_ranges_is_better_and_none_of_fewer_is_enough(
    seed: int, loss: float
) -> None:
    rng = np.random.default_rng(seed)
    batches, lengths = np.arange(1, 7), np.array([0, 2, 5])
    times = LengthTimes(batches, lengths, rng.uniform(0.5, 2.0, (6, 3)), rng.uniform(0, 0.3, 6))
    load = rng.dirichlet(np.ones(6))
    taxed = times.token_s * np.where(lengths == 0, 1 + times.tax[:, None], 1.0)
    # a fifth of the weight lies evenly on all batches
    value = (load + 0.2 / 6)[:, None] * batches[:, None] / taxed
    every = np.array(list(product(range(3), repeat=6)))
    totals = value[np.arange(6), every].sum(axis=1)
    ranges = 1 + (np.diff(every, axis=1) != 0).sum(axis=1)
    plan = plan_lengths(times, load, merge_loss=loss)
    chosen = np.searchsorted(lengths, plan.chosen)
    got, count = value[np.arange(6), chosen].sum(), len(plan.ranges)
    assert got == pytest.approx(totals[ranges == count].max())
    assert got >= (1 - loss) * totals.max() * (1 - 1e-12)
    assert (totals[ranges < count] < (1 - loss) * totals.max()).all()
    assert [one.first for one in plan.ranges] == [1, *(one.last + 1 for one in plan.ranges[:-1])]
    for one in plan.ranges:
        assert set(plan.chosen[one.first - 1 : one.last]) == {one.num_speculative_tokens}


def test_a_schedule_by_hand() -> None:
    # tokens a second at batch 1: 1 plain, 2 drafted; at batch 2: 2 plain, 1 drafted
    token_s = np.array([[1.0, 0.5], [1.0, 2.0]])
    times = LengthTimes(np.array([1, 2]), np.array([0, 3]), token_s, np.array([0.5, 0.25]))
    assert times.fixed_rate.tolist() == [[1.0, 2.0], [2.0, 1.0]]
    assert times.scheduled_rate.tolist() == [[1 / 1.5, 2.0], [1.6, 1.0]]
    plan = plan_lengths(times, np.array([0.25, 0.75]), merge_loss=0.0)
    assert plan.chosen.tolist() == [3, 0]
    # plain serving gives 1.75 over the load, the schedule 0.5 + 1.2, without a tax 0.5 + 1.5
    assert plan.fixed == 0
    assert plan.gain == pytest.approx(1.7 / 1.75 - 1)
    assert plan.gain_before_tax == pytest.approx(2.0 / 1.75 - 1)
    assert plan.tax_paid == pytest.approx(0.3 / 1.75)
    assert plan.merge_loss == pytest.approx(0.0)
    one = plan_lengths(times, np.array([0.25, 0.75]), merge_loss=0.5)
    assert [each.num_speculative_tokens for each in one.ranges] == [0]
    assert one.merge_loss == pytest.approx(1 - (0.25 / 1.5 + 1.2) / 1.7)


def test_where_nothing_is_said_half_a_per_cent_may_be_lost_for_fewer_ranges() -> None:
    def ranges(loss: float) -> int:
        rates = np.array([[1.0, 1.0 - loss], [1.0 - loss, 1.0]])
        times = LengthTimes(np.array([1, 2]), np.array([0, 3]),
                            np.array([[1.0], [2.0]]) / rates, np.zeros(2))  # fmt: skip
        return len(plan_lengths(times, np.array([0.5, 0.5])).ranges)

    # one length for both loses half of it
    assert (ranges(0.0099), ranges(0.0101)) == (1, 2)


def test_the_tax_is_that_of_vllms_users() -> None:
    times = LengthTimes.of(np.array([2, 20, 189]), np.array([0]), np.ones((3, 1)))
    assert times.tax == pytest.approx([framework_tax(b).mid for b in (2.0, 20.0, 189.0)])
    assert times.tax[0] == pytest.approx(15.317 / 14.374 - 1)
    assert times.tax[2] == pytest.approx(93.820 / 77.164 - 1)


@pytest.mark.parametrize("concurrency", [0.5, 1.0, 2.0, 20.0, 189.0, 400.0])
def test_the_tax_is_a_power_law_between_two_measurements_and_level_beyond(
    concurrency: float,
) -> None:
    low, high = 15.317 / 14.374 - 1, 93.820 / 77.164 - 1
    growth = math.log(high / low) / math.log(189 / 2)
    inside = min(max(concurrency, 2.0), 189.0)
    mid = low * (inside / 2) ** growth
    # the doubt of the size, and beyond the two points the growth to there: at least one request
    beyond = growth * abs(math.log(max(concurrency, 1.0) / inside))
    reach = math.exp(1.645 * math.hypot(0.7, beyond))
    found = framework_tax(concurrency)
    assert (found.low, found.mid, found.high) == pytest.approx((mid / reach, mid, mid * reach))


def test_the_tail_of_a_poisson_load_is_added_to_the_limit() -> None:
    # mean 2, limit 3: e^-2 (2, 2) for one and two, the rest of 1 - e^-2 for three and more
    e2 = math.exp(-2)
    expected = np.array([2 * e2, 2 * e2, 1 - 5 * e2]) / (1 - e2)
    assert poisson_load(2.0, 3) == pytest.approx(expected)
    assert poisson_load(2.0, 1).tolist() == [1.0]


def test_regret_of_a_table_of_tables() -> None:
    measured = np.arange(1.0, 13.0).reshape(2, 2, 3)
    predicted = -measured
    lost = 1 - measured[..., 0] / measured[..., 2]  # the worst is always picked
    assert regret(measured, predicted) == pytest.approx(lost)


# ---- draws


def test_draws_of_rounds_share_an_error_and_have_one_of_their_own() -> None:
    lengths = np.array([0, 1, 4])
    shared = np.array([0.0, 0.1, 0.3])
    made = LengthDraws.of(np.ones((4000, 3)), RoundSpread(shared, 0.05), lengths, seed=3)
    logs = np.log(made.rounds)
    assert (logs[:, 0] == 0).all()
    assert logs[:, 1].std() == pytest.approx(math.hypot(0.1, 0.05), rel=0.05)
    assert logs[:, 2].std() == pytest.approx(math.hypot(0.3, 0.05), rel=0.05)
    correlation = np.corrcoef(logs[:, 1], logs[:, 2])[0, 1]
    assert correlation == pytest.approx(0.1 * 0.3 / np.prod(
        [math.hypot(0.1, 0.05), math.hypot(0.3, 0.05)]), abs=0.03)  # fmt: skip
    assert (LOG_SD, LENGTH_SCATTER) == (0.7, 0.02)
    assert np.log(made.tax).std() == pytest.approx(0.7, rel=0.05)
    assert np.log(made.tax).mean() == pytest.approx(0.0, abs=0.05)
    assert np.corrcoef(np.log(made.tax), logs[:, 1])[0, 1] == pytest.approx(0.0, abs=0.05)


def test_the_tax_of_a_schedules_plain_steps_is_drawn_and_that_of_the_single_length_is_not() -> (
    None
):
    token_s = np.array([[1.0, 0.5], [1.0, 2.0]])
    times = LengthTimes(np.array([1, 2]), np.array([0, 3]), token_s, np.array([0.5, 0.25]))
    load = np.array([0.25, 0.75])
    plan = plan_lengths(times, load, merge_loss=0.0)
    tax = np.linspace(0.0, 4.0, 4001)
    draws = LengthDraws(np.ones((4001, 2)), np.ones((4001, 2)), tax)
    low, high = gain_interval(times, plan, load, draws)
    # 0.5 drafted, and 1.5 of plain steps over 1 + 0.25 times the draw, against 1.75
    ends = [(0.5 + 1.5 / (1 + 0.25 * at)) / 1.75 - 1 for at in (3.9, 0.1)]
    assert (low, high) == pytest.approx(ends, abs=1e-5)


def test_a_single_length_that_drafts_is_drawn_as_the_schedule_is() -> None:
    token_s = np.array([[1.0, 0.5], [1.0, 0.9]])
    times = LengthTimes(np.array([1, 2]), np.array([0, 3]), token_s, np.zeros(2))
    plan = plan_lengths(times, np.array([0.5, 0.5]), merge_loss=0.0)
    assert (plan.fixed, plan.chosen.tolist()) == (3, [3, 3])
    tokens = np.stack([np.ones(100), np.linspace(0.5, 1.5, 100)], axis=1)
    draws = LengthDraws(tokens, tokens[::-1], np.ones(100))
    found = gain_interval(times, plan, np.array([0.5, 0.5]), draws)
    assert found == pytest.approx((0.0, 0.0), abs=1e-12)


def engine_rounds(synthetic: Any, *requests: tuple[int, ...]) -> Any:
    """Return the evidence of an engine's rounds with two drafts each."""
    flat = np.array([one for request in requests for one in request], dtype=np.uint8)
    arrays = {
        "acceptance/0/offsets": np.cumsum([0, *map(len, requests)]),
        "acceptance/0/accepted": flat,
        "acceptance/0/drafted": np.full(len(flat), 2, dtype=np.uint8),
    }
    cell = synthetic.acceptance_cell(
        len(requests), 9, trace_kind="per_round", max_num_speculative_tokens=2,
        draft_sampling="greedy",
    )  # fmt: skip
    return evidence_from_profile(synthetic.profile(acceptance=(cell,))[0], arrays)


def test_beyond_the_length_that_ran_requests_and_the_unknown_fall_are_drawn(
    synthetic: Any,
) -> None:
    evidence = engine_rounds(synthetic, (2, 1, 0), (2, 2, 2), (0, 1, 1), (1, 2, 0))
    curve = evidence.curve(0.0, None)
    lengths = np.array([0, 1, 2, 3, 8])
    found = profile_draws(evidence, evidence.traces, curve, lengths, seed=5)
    trace = evidence.traces[0]
    resampled, count = tokens_of_requests(trace.counts, 5)
    assert (count, resampled.shape) == (4, (DRAWS, 3))
    assert found.tokens[:, :3] == pytest.approx(resampled)
    errors = [trace.tokens_per_round(n)[1] for n in range(3)]
    assert curve.relative_se[:3] == pytest.approx(errors)
    further = np.sqrt(curve.relative_se[[3, 8]] ** 2 - errors[2] ** 2)
    assert (further > 0).all()
    shared = tokens_of_curve(further, 6)
    assert found.tokens[:, 3:] == pytest.approx(resampled[:, 2:] * shared)


def test_one_request_leaves_all_doubt_to_the_curve(synthetic: Any) -> None:
    evidence = engine_rounds(synthetic, (2, 1, 0))
    curve = evidence.curve(0.0, None)
    lengths = np.array([1, 2, 4])
    found = profile_draws(evidence, evidence.traces, curve, lengths, seed=2)
    assert found.tokens == pytest.approx(tokens_of_curve(curve.relative_se[lengths], 3))
    # rounds err by the held-out error of the fit each, and by the scatter of real rounds together
    spread = RoundSpread(evidence.round_relative_se, evidence.target_step.relative_se)
    same = LengthDraws.of(found.tokens, spread, lengths, 4)
    assert (found.rounds == same.rounds).all()
    assert (found.tax == same.tax).all()
