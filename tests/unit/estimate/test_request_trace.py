"""What times and lengths of logged requests say."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate import request_trace as traced
from capplan.estimate.request_trace import Clock, RequestTrace
from capplan.estimate.traffic import peak_requests_per_s
from capplan.estimate.traffic_figures import workload_of_trace

HOUR, DAY = 3600.0, 86400.0
MONDAY = 4 * DAY
"""1970-01-05."""


def _trace(seconds: np.ndarray, clock: Clock = "calendar") -> RequestTrace:
    ones = np.ones(len(seconds), dtype=np.int64)
    return RequestTrace(np.sort(seconds), ones * 100, ones * 20, clock)


def test_rates_count_gaps_and_peaks_count_requests() -> None:
    trace = _trace(np.arange(0, 1001, 10.0))
    assert traced.mean_requests_per_s(trace) == pytest.approx(0.1)
    assert traced.peak_requests_per_s(trace, 60) == pytest.approx(0.1)
    assert traced.index_of_dispersion(_trace(np.arange(0, 4000, 10.0))) == pytest.approx(0.0)


def test_a_burst_across_a_minute_is_not_cut_in_two() -> None:
    trace = _trace(np.concatenate([np.linspace(50, 70, 120, endpoint=False), [0.0, 900.0]]))
    assert traced.peak_requests_per_s(trace, 60) == pytest.approx(2.0)


def test_poisson_arrivals_have_dispersion_one_and_batches_their_size() -> None:
    rng = np.random.default_rng(5)
    single = np.cumsum(rng.exponential(1.0, 60_000))
    assert traced.index_of_dispersion(_trace(single)) == pytest.approx(1.0, rel=0.12)
    # compound Poisson with batches of 5: variance over mean is 5
    batches = np.repeat(np.cumsum(rng.exponential(5.0, 12_000)), 5)
    assert traced.index_of_dispersion(_trace(batches)) == pytest.approx(5.0, rel=0.15)


def test_a_short_trace_tells_no_peak_no_dispersion_and_no_shape() -> None:
    trace = _trace(np.linspace(0, 200, 50))
    assert traced.peak_requests_per_s(trace, 300) is None
    assert traced.index_of_dispersion(trace) is None
    assert traced.hour_of_day_weights(trace) is None


def test_one_request_tells_its_lengths_alone() -> None:
    load = workload_of_trace(_trace(np.array([MONDAY])))
    assert (load.requests_per_s, load.arrival, load.prompt_tokens) == (None, None, 100)


def test_hours_are_weighed_by_how_long_they_were_watched() -> None:
    """36 hours see twelve hours twice: counts alone would double them."""
    trace = _trace(MONDAY + np.arange(0, 36 * HOUR + 1, 60.0))
    weights = traced.hour_of_day_weights(trace)
    assert weights is not None
    np.testing.assert_allclose(weights, 1 / 60, rtol=0.02)


def test_hours_and_days_stand_where_they_belong() -> None:
    """Busy at 9 h on every day, and on Mondays twice as busy."""
    base = np.arange(0, 14 * DAY, 120.0)
    nine = np.concatenate([d * DAY + 9 * HOUR + np.arange(0, HOUR, 30.0) for d in range(14)])
    mondays = np.concatenate([d * DAY + np.arange(0, DAY, 120.0) for d in (0, 7)])
    trace = _trace(MONDAY + np.concatenate([base, nine, mondays]))
    hours, days = traced.hour_of_day_weights(trace), traced.day_of_week_weights(trace)
    assert hours is not None
    assert days is not None
    assert int(np.argmax(hours)) == 9
    assert int(np.argmax(days)) == 0
    assert days[0] / days[3] == pytest.approx((1440 + 120) / (720 + 120), rel=0.01)


def test_times_from_midnight_know_hours_and_no_weekdays() -> None:
    trace = _trace(np.arange(0, 8 * DAY, 300.0), "from midnight")
    assert traced.hour_of_day_weights(trace) is not None
    assert traced.day_of_week_weights(trace) is None
    assert traced.hour_of_day_weights(_trace(trace.seconds, "relative")) is None


def test_the_mean_of_nine_days_is_that_of_a_week() -> None:
    """Saturday to the Sunday of the next week holds four days of weekend, a week two."""
    saturday = MONDAY + 5 * DAY
    days = [saturday + d * DAY for d in range(9)]
    busy = [d for d in days if ((d - MONDAY) // DAY) % 7 < 5]
    seconds = [d + np.arange(0, DAY, 60.0) for d in busy]
    quiet = [d + np.arange(0, DAY, 600.0) for d in days if d not in busy]
    load = workload_of_trace(_trace(np.concatenate([*seconds, *quiet])))
    assert load.requests_per_s == pytest.approx((5 / 60 + 2 / 600) / 7, rel=0.01)
    assert peak_requests_per_s(load) == pytest.approx(1 / 60, rel=0.05)


def test_quantiles_keep_mean_and_tail_of_a_sample() -> None:
    tokens = np.maximum(np.random.default_rng(2).lognormal(6, 1.2, 50_000), 1).astype(np.int64)
    lengths = traced.empirical(tokens)
    assert lengths.mean_tokens == pytest.approx(tokens.mean(), rel=1e-6)
    assert np.interp(0.99, lengths.probabilities, lengths.tokens) == pytest.approx(
        np.quantile(tokens, 0.99), rel=0.02
    )


def test_correlation_of_lengths_is_pearsons() -> None:
    rng = np.random.default_rng(4)
    prompts = rng.integers(1, 1000, 5000)
    trace = RequestTrace(np.arange(5000.0), prompts, prompts * 2, "relative")
    assert traced.length_correlation(trace) == pytest.approx(1.0)
    assert traced.length_correlation(_trace(np.arange(9.0))) == 0.0


def test_a_row_that_stands_twice_is_told_from_two_requests_of_one_moment() -> None:
    seconds = np.array([0.0, 5.0, 5.0, 5.0, 7.0, 9.0, 9.0])
    prompts = np.array([10, 10, 20, 10, 10, 30, 31])
    outputs = np.array([1, 1, 1, 1, 1, 2, 2])
    # of the three at 5 s the first and the last are alike; of those at 9 s none
    assert traced.repeated_requests(RequestTrace(seconds, prompts, outputs, "calendar")) == 1
    thrice = RequestTrace(np.zeros(3), np.full(3, 8), np.full(3, 4), "calendar")
    assert traced.repeated_requests(thrice) == 2
