"""Workloads out of counters: rates, peaks, shapes and lengths, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from capplan.estimate.counted_traffic import (
    CountedTraffic,
    lengths_in_buckets,
    peak_requests_per_s,
    workload_of_counts,
)
from capplan.estimate.length_distributions import quantile_tokens
from capplan.estimate.recurring_rates import day_of_week_rates, hour_of_day_rates
from capplan.estimate.request_trace import RequestTrace, hour_of_day_weights as hours_of_trace
from capplan.schema.lengths import FixedLength

HOUR_S, DAY_S = 3600.0, 86400.0
MONDAY_S = 1_790_553_600.0  # date -u -d 2026-09-28 +%s
ONE_TWO_FIVE = [base * 10**power for power in range(5) for base in (1, 2, 5)]


def traffic(requests, step_s=60.0, watched=None, begin_s=MONDAY_S, hit_rate=0.0):
    count = np.asarray(requests, dtype=float)
    return CountedTraffic(
        begin_s + np.arange(len(count) + 1) * step_s,
        count,
        np.full(len(count), fill_value=True) if watched is None else np.asarray(watched),
        FixedLength(tokens=100),
        FixedLength(tokens=20),
        hit_rate,
    )


# --- rates and peaks -------------------------------------------------------------------------


def test_the_mean_is_of_the_time_that_was_watched():
    load = workload_of_counts(traffic([6, 999, 12], watched=[True, False, True]), 60.0)
    assert load.requests_per_s == pytest.approx(18 / 120)
    assert (load.prompt_tokens, load.output_tokens) == (100, 20)


@pytest.mark.parametrize(
    ("window_s", "peak"),
    [
        (60.0, 30 / 60),
        (90.0, (30 + 12 / 2) / 90),  # half of a step has half of its requests
        (120.0, 42 / 120),
        (180.0, 48 / 180),
        (150.0, (6 / 2 + 42) / 150),  # it ends with the last look
        (240.0, None),  # longer than what was looked at
        (59.0, None),  # what happened within a minute is not known
    ],
)
def test_a_peak_is_the_busiest_window(window_s, peak):
    found = peak_requests_per_s(traffic([6, 30, 12]), window_s)
    assert found == (None if peak is None else pytest.approx(peak))


def test_no_peak_is_taken_across_time_that_was_not_watched():
    holes = traffic([6, 12, 999, 30], watched=[True, True, False, True])
    assert peak_requests_per_s(holes, 60.0) == pytest.approx(0.5)
    assert peak_requests_per_s(holes, 120.0) == pytest.approx(18 / 120)
    assert peak_requests_per_s(holes, 180.0) is None


def test_a_peak_over_less_than_a_step_is_that_of_the_step():
    load = workload_of_counts(traffic([600, 1800, 600], step_s=600), 300.0)
    assert load.arrival is not None
    assert load.arrival.peak_requests_per_s == pytest.approx(3.0)
    assert load.requests_per_s == pytest.approx(3000 / 1800)


def test_nothing_but_a_mean_is_known_of_a_range_shorter_than_the_window():
    load = workload_of_counts(traffic([6, 6]), 300.0)
    assert load.arrival is None
    assert load.requests_per_s == pytest.approx(0.1)


@pytest.mark.parametrize(("given", "kept"), [(0.4, 0.4), (-1.0, 0.0), (1.0, 0.999)])
def test_a_prefix_cache_never_holds_a_whole_prompt(given, kept):
    load = workload_of_counts(traffic([6, 6], hit_rate=given), 60.0)
    assert load.prefix_cache_hit_rate == kept


# --- shape of day and week -------------------------------------------------------------------


def test_hours_of_the_day_are_means_over_days():
    by_hour = [hour + 1 for hour in range(24)] * 2  # two days alike, an hour a step
    hours = hour_of_day_rates(traffic(by_hour, step_s=HOUR_S).course)
    assert hours == pytest.approx([(hour + 1) / HOUR_S for hour in range(24)])


def test_an_hour_that_was_watched_on_one_day_only_is_of_that_day():
    watched = [True] * 48
    watched[3] = False
    counted = [10] * 24 + [20] * 24
    hours = hour_of_day_rates(traffic(counted, step_s=HOUR_S, watched=watched).course)
    assert hours is not None
    assert hours[3] == pytest.approx(20 / HOUR_S)
    assert hours[4] == pytest.approx(15 / HOUR_S)


def test_half_of_every_hour_must_have_been_watched():
    def day(missing):
        watched = [True] * 288  # 5 minutes a step
        watched[12 : 12 + missing] = [False] * missing
        return traffic([1] * 288, step_s=300, watched=watched)

    assert hour_of_day_rates(day(6).course) is not None
    assert hour_of_day_rates(day(7).course) is None
    assert workload_of_counts(day(7), 300.0).arrival is not None
    assert workload_of_counts(day(7), 300.0).arrival.hour_of_day is None  # type: ignore[union-attr]


def test_half_of_every_weekday_must_have_been_watched():
    def week(missing_h):
        watched = [True] * 168
        watched[30 : 30 + missing_h] = [False] * missing_h
        return traffic([1] * 168, step_s=HOUR_S, watched=watched)

    assert day_of_week_rates(week(12).course) is not None
    assert day_of_week_rates(week(13).course) is None


def test_the_first_and_the_last_look_bound_what_was_watched():
    # from half past eleven on, 49 hours, half an hour a step: twice as much in the outer steps
    counted = [20, *[10] * 96, 20]
    course = traffic(counted, step_s=1800, begin_s=MONDAY_S - 1800).course
    hours = hour_of_day_rates(course)
    assert hours is not None
    assert hours[23] == pytest.approx((20 + 4 * 10) / (5 * 1800))
    assert hours[0] == pytest.approx((20 + 4 * 10) / (5 * 1800))
    assert hours[12] == pytest.approx(10 / 1800)


def test_a_week_begins_on_monday_and_its_mean_is_that_of_all_days():
    days = [7.0, 1, 1, 1, 1, 1, 1, 7, 7]  # nine days from a Monday: Monday and Tuesday twice
    counted = traffic(np.repeat(days, 24) * 24, step_s=HOUR_S)
    rates = day_of_week_rates(counted.course)
    assert rates == pytest.approx([24 * n / HOUR_S for n in (7, 4, 1, 1, 1, 1, 1)])
    load = workload_of_counts(counted, 300.0)
    assert load.requests_per_s == pytest.approx(24 * 16 / 7 / HOUR_S)
    assert load.arrival is not None
    assert load.arrival.day_of_week is not None


@given(st.integers(0, 2**32 - 1))
def test_counts_show_the_day_that_the_requests_themselves_show(seed):
    rng = np.random.default_rng(seed)
    seconds = np.sort([0.0, 2 * DAY_S - 1e-3, *rng.uniform(0, 2 * DAY_S, 400)])
    counts = np.histogram(seconds, np.arange(0, 2 * DAY_S + 1, 300))[0]
    ones = np.ones(len(seconds), dtype=np.int64)
    traced = hours_of_trace(RequestTrace(seconds + MONDAY_S, ones, ones, "calendar"))
    counted = hour_of_day_rates(traffic(counts, step_s=300).course)
    assert counted == pytest.approx(traced, rel=1e-5)


# --- lengths ---------------------------------------------------------------------------------


def test_lengths_keep_their_buckets_and_their_mean():
    # half of the requests in 1-10 and half in 10-20: 5.5 at the lower bounds, 9.5 of room
    even = lengths_in_buckets([10, 20], [1, 2], 10.25)
    assert list(quantile_tokens(even, [0, 0.25, 0.5, 0.75, 1])) == pytest.approx(
        [1, 5.5, 10, 15, 20]
    )
    low = lengths_in_buckets([10, 20], [1, 2], 5.5 + 9.5 / 3)  # bend 2, but for the straight lines
    assert list(quantile_tokens(low, [0.25, 0.5, 0.75, 1])) == pytest.approx(
        [3.25, 10, 12.5, 20], rel=0.02
    )
    assert low.mean_tokens == pytest.approx(5.5 + 9.5 / 3)


def test_a_mean_at_the_edge_of_its_buckets_bends_as_far_as_it_may():
    low = lengths_in_buckets([10, 20], [0, 2], 10.0)
    high = lengths_in_buckets([10, 20], [0, 2], 25.0)
    assert 10 <= low.mean_tokens < 11
    assert 19 < high.mean_tokens <= 20


def test_lengths_beyond_the_last_bound_are_as_long_as_the_mean_asks_for():
    beyond = lengths_in_buckets([100, np.inf], [0, 5], 150.0)
    assert (beyond.tokens[0], beyond.tokens[-1]) == pytest.approx((100, 200))
    assert beyond.mean_tokens == pytest.approx(150)
    # 80 % at 1-100 have 50.5 on average; the rest has 600, so it reaches from 100 to 1,100
    far = lengths_in_buckets([100, np.inf], [4, 5], 0.8 * 50.5 + 0.2 * 600)
    assert far.tokens[-1] == pytest.approx(1100)
    assert far.mean_tokens == pytest.approx(160.4)
    # 20 % in 1-10, 60 % in 10-100: 34.1 of the mean; the rest has 150 on average, 100 to 200
    several = lengths_in_buckets([10, 100, np.inf], [2, 8, 10], 34.1 + 0.2 * 150)
    assert several.tokens[-1] == pytest.approx(200)
    assert several.mean_tokens == pytest.approx(64.1)
    at_bound = lengths_in_buckets([100, np.inf], [4, 5], 20.0)
    assert at_bound.tokens[-1] == pytest.approx(100)


def test_requests_of_one_token_have_one_token():
    found = lengths_in_buckets([1, 10], [5, 5], 1.0)
    assert set(found.tokens) == {1.0}
    assert found.probabilities[-1] == 1.0


def test_empty_buckets_and_those_of_almost_nobody_leave_no_mark():
    found = lengths_in_buckets([10, 20, 50, 100], [0, 1e15, 1e15, 1e15 + 1], 15.0)
    assert (found.tokens[0], found.tokens[-1]) == pytest.approx((10, 20))


def test_neighbours_of_very_many_buckets_are_taken_together():
    bounds = np.arange(1, 1001) * 10.0
    found = lengths_in_buckets(bounds.tolist(), np.arange(1, 1001).tolist(), 5000.0)
    assert len(found.tokens) <= 1801
    assert list(quantile_tokens(found, [0.1, 0.5, 0.9])) == pytest.approx(
        [1000, 5000, 9000], rel=0.02
    )


@given(st.integers(0, 2**32 - 1), st.floats(2.0, 8.0), st.floats(0.1, 1.5))
def test_quantiles_lie_in_the_bucket_that_the_sample_has_them_in(seed, centre, sigma):
    rng = np.random.default_rng(seed)
    sample = np.clip(np.round(rng.lognormal(centre, sigma, 2000)), 1, 49_999)
    counts = [int((sample <= bound).sum()) for bound in ONE_TWO_FIVE]
    found = lengths_in_buckets(ONE_TWO_FIVE, counts, float(sample.mean()))
    assert found.mean_tokens == pytest.approx(sample.mean(), rel=1e-4)
    for share in (0.1, 0.5, 0.9, 0.99):
        exact = np.quantile(sample, share, method="inverted_cdf")
        upper = min(bound for bound in ONE_TWO_FIVE if bound >= exact)
        lower = max([1, *(bound for bound in ONE_TWO_FIVE if bound < exact)])
        assert lower * 0.999 <= quantile_tokens(found, [share])[0] <= upper * 1.001
