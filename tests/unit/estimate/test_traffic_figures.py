"""Figures of a workload and of a trace, and services with shapes of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from capplan.estimate.acceptance_mix import curve_of_mix
from capplan.estimate.curves import AcceptanceCurve, curve_from_alpha
from capplan.estimate.fitted_step import FittedStep
from capplan.estimate.length_distributions import quantile_tokens, variance_tokens2
from capplan.estimate.merged_traffic import merged
from capplan.estimate.request_trace import (
    RequestTrace,
    hour_of_day_weights,
    length_correlation,
)
from capplan.estimate.served_step import ServedStep, served
from capplan.estimate.steptime import VerificationExtra
from capplan.estimate.task_transfer import transfer_task
from capplan.estimate.traffic_figures import (
    DEFAULT_WINDOW,
    length_figures,
    peaks,
    traffic_figures,
    workload_of_trace,
)
from capplan.schema.arrival import Arrival
from capplan.schema.lengths import EmpiricalLength, FixedLength, LognormalLength
from capplan.schema.provenance import Kind, Source
from capplan.schema.services import NamedWorkload, Services
from capplan.schema.workload import TrafficPart, Workload

NIGHT_AND_DAY = (0.0,) * 12 + (2.0,) * 12
WORKDAYS = (1.0,) * 5 + (0.0,) * 2
STATED = Source(kind=Kind.ASSUMED, reference="stated")


# ---- one workload


def test_rates_and_tokens_of_a_workload() -> None:
    load = Workload(
        requests_per_s=2.0, prompt_tokens=100, output_tokens=50, prefix_cache_hit_rate=0.25,
        arrival=Arrival(hour_of_day=NIGHT_AND_DAY, day_of_week=WORKDAYS),
    )  # fmt: skip
    found = traffic_figures(load, serving_hours=100)
    assert found.mean_requests_per_s == 2.0
    assert found.peak_to_mean == pytest.approx(2 * 7 / 5)
    assert found.peak_requests_per_s == pytest.approx(5.6)
    assert found.output_tokens_per_s == 100.0
    assert found.peak_output_tokens_per_s == pytest.approx(280.0)
    assert found.computed_prompt_tokens_per_s == 150.0
    assert found.requests_per_month == 2 * 100 * 3600
    assert found.output_tokens_per_month == 100 * 100 * 3600
    assert found.further_context_tokens == 0.0
    by_hour, by_day = found.requests_per_s_by_hour, found.requests_per_s_by_day
    assert by_hour is not None
    assert by_day is not None
    assert (by_hour[0], by_hour[12]) == (0.0, pytest.approx(4.0))
    assert (by_day[0], by_day[6]) == (pytest.approx(2.8), 0.0)


def test_without_a_rate_nothing_is_a_second() -> None:
    found = traffic_figures(Workload(arrival=Arrival(hour_of_day=NIGHT_AND_DAY)))
    assert found.mean_requests_per_s is found.output_tokens_per_month is None
    assert found.requests_per_s_by_hour is None
    assert found.peak_to_mean == 2.0


def test_a_shape_of_hours_alone_has_no_days() -> None:
    hours = Workload(requests_per_s=1, arrival=Arrival(hour_of_day=NIGHT_AND_DAY))
    assert traffic_figures(hours).requests_per_s_by_day is None
    days = Workload(requests_per_s=1, arrival=Arrival(day_of_week=WORKDAYS))
    assert traffic_figures(days).requests_per_s_by_hour is None
    assert traffic_figures(Workload(requests_per_s=1)).requests_per_s_by_hour is None


def test_quantiles_of_lengths() -> None:
    straight = length_figures(EmpiricalLength(probabilities=(0.0, 1.0), tokens=(100.0, 200.0)))
    assert straight.model_dump() == {
        "kind": "empirical", "mean_tokens": 150.0, "p50_tokens": 150.0, "p90_tokens": 190.0,
        "p95_tokens": 195.0, "p99_tokens": 199.0, "longest_tokens": 200.0,
    }  # fmt: skip
    tail = length_figures(LognormalLength(median_tokens=100.0, sigma=1.0))
    assert tail.longest_tokens is None
    assert tail.p95_tokens == pytest.approx(100 * np.exp(1.6448536))
    assert length_figures(FixedLength(tokens=7)).longest_tokens == 7.0


# ---- a trace


def steady(days: float, every_s: float, clock: str, **lengths: int) -> RequestTrace:
    seconds = np.arange(0.0, days * 86_400, every_s)
    count = len(seconds)
    return RequestTrace(
        seconds,
        np.full(count, lengths.get("prompt", 100)),
        np.full(count, lengths.get("output", 20)),
        clock,  # type: ignore[arg-type]
    )


def test_a_steady_trace_of_nine_days() -> None:
    # from Thursday 0:00 on, a request every 100 s
    load = workload_of_trace(steady(9, 100.0, "calendar"))
    assert load.requests_per_s == pytest.approx(0.01, rel=1e-3)
    assert load.arrival is not None
    assert load.arrival.peak_requests_per_s == pytest.approx(0.01, rel=1e-3)  # 3 in 300 s
    assert load.arrival.day_of_week == pytest.approx([0.01] * 7, rel=1e-3)
    assert load.arrival.hour_of_day == pytest.approx([0.01] * 24, rel=5e-3)
    assert (load.prompt_tokens, load.output_tokens) == (100, 20)
    assert load.length_correlation == 0.0


def test_a_shape_counts_every_day_alike_however_often_it_was_seen() -> None:
    # nine days from Thursday on: Thursday and Friday are there twice, and busier
    base = steady(9, 100.0, "calendar").seconds
    busy = base[(base // 86_400).astype(int) % 7 < 2] + 50.0
    seconds = np.sort(np.concatenate([base, busy]))
    count = len(seconds)
    trace = RequestTrace(seconds, np.full(count, 9), np.full(count, 9), "calendar")
    assert count / (9 * 86_400) > 0.0144
    assert workload_of_trace(trace).requests_per_s == pytest.approx(0.01 * 9 / 7, rel=1e-3)


def test_a_short_trace_has_a_rate_and_no_shape() -> None:
    load = workload_of_trace(steady(0.02, 10.0, "calendar"))
    assert load.requests_per_s == pytest.approx(0.1)
    assert load.arrival is not None
    assert load.arrival.hour_of_day is load.arrival.day_of_week is None
    assert load.arrival.peak_requests_per_s == pytest.approx(0.1)


def test_a_trace_shorter_than_its_window_shows_no_peak() -> None:
    load = workload_of_trace(steady(0.001, 10.0, "relative"))
    assert load.requests_per_s == pytest.approx(0.1)
    assert load.arrival is None
    burst = RequestTrace(np.zeros(3), np.array([5, 6, 7]), np.array([5, 6, 7]), "relative")
    at_once = workload_of_trace(burst)
    assert at_once.requests_per_s is at_once.arrival is None


def test_an_hour_is_watched_from_the_first_request_on() -> None:
    seconds = np.sort(np.concatenate([np.arange(24) * 3600.0, np.arange(24) * 3600.0 + 2000.0]))
    seconds = np.append(seconds, 86_399.0)
    trace = RequestTrace(seconds, np.ones(49, int), np.ones(49, int), "from midnight")
    weights = hour_of_day_weights(trace)
    assert weights is not None
    assert weights[0] == weights[1] == pytest.approx(2 / 3600)
    assert weights[23] == pytest.approx(3 / 3599)


def test_two_requests_are_the_fewest_that_correlate() -> None:
    two = RequestTrace(np.array([0.0, 1.0]), np.array([1, 5]), np.array([7, 3]), "relative")
    assert length_correlation(two) == pytest.approx(-1.0)
    one = RequestTrace(np.zeros(1), np.ones(1, int), np.ones(1, int), "relative")
    assert length_correlation(one) == 0.0


def test_peaks_of_each_window() -> None:
    seconds = np.concatenate([np.arange(0.0, 1000.0, 10.0), np.full(60, 500.0)])
    trace = RequestTrace(np.sort(seconds), np.ones(160, int), np.ones(160, int), "relative")
    found = peaks(trace)
    assert list(found) == ["1 min", "5 min", "15 min"]
    assert DEFAULT_WINDOW in found
    assert found["1 min"] == pytest.approx(66 / 60)
    assert found["5 min"] == pytest.approx(90 / 300)
    assert found["15 min"] == pytest.approx(150 / 900)
    assert peaks(steady(0.001, 10.0, "relative"))["5 min"] is None


# ---- several services


def both(one: Workload, other: Workload) -> Workload:
    named = (NamedWorkload(name="a", workload=one), NamedWorkload(name="b", workload=other))
    return merged(Services(services=named))


def test_peaks_that_do_not_fall_together_are_lower_than_their_sum() -> None:
    day = Workload(requests_per_s=1.0, arrival=Arrival(hour_of_day=NIGHT_AND_DAY))
    night = Workload(requests_per_s=1.0, arrival=Arrival(hour_of_day=NIGHT_AND_DAY[::-1]))
    level = both(day, night)
    assert level.requests_per_s == 2.0
    assert level.arrival is None  # always two a second: no peak
    twice = both(day, day)
    assert twice.arrival is not None
    assert twice.arrival.peak_requests_per_s == 4.0


def test_quantiles_of_services_together_by_hand() -> None:
    def even(low: float, high: float) -> EmpiricalLength:
        return EmpiricalLength(probabilities=(0.0, 1.0), tokens=(low, high))

    first = Workload(requests_per_s=3.0, output_lengths=even(100, 300), prompt_tokens=10)
    second = Workload(requests_per_s=1.0, output_lengths=even(300, 1100), prompt_tokens=10)
    lengths = both(first, second).output_lengths
    assert isinstance(lengths, EmpiricalLength)
    # three quarters of the requests lie evenly between 100 and 300, the rest up to 1,100
    for probability, tokens in ((0.25, 100 + 200 / 3), (0.5, 100 + 400 / 3), (0.9, 780.0)):
        assert quantile_tokens(lengths, probability) == pytest.approx(tokens, rel=1e-4)
    assert lengths.mean_tokens == pytest.approx(0.75 * 200 + 0.25 * 700)


def test_answers_of_a_token_stay_a_token_in_a_mixture() -> None:
    one = EmpiricalLength(probabilities=(0.0, 0.5, 1.0), tokens=(1.0, 1.0, 9.0))
    load = Workload(requests_per_s=1.0, output_lengths=one, prompt_tokens=10)
    lengths = both(load, load).output_lengths
    assert isinstance(lengths, EmpiricalLength)
    assert lengths.tokens[0] == pytest.approx(1.0, abs=0.01)
    assert lengths.tokens[-1] == pytest.approx(9.0, rel=0.01)


def test_busy_minutes_come_on_top_of_the_busiest_hour() -> None:
    burst = Arrival(hour_of_day=NIGHT_AND_DAY, peak_requests_per_s=5.0)
    day = Workload(requests_per_s=1.0, arrival=burst)
    night = Workload(requests_per_s=1.0, arrival=Arrival(hour_of_day=NIGHT_AND_DAY[::-1]))
    found = both(day, night)
    assert found.arrival is not None
    assert found.arrival.peak_requests_per_s == pytest.approx(2 + 3)


def test_varying_lengths_are_mixed_by_requests_and_keep_their_means() -> None:
    short = LognormalLength(median_tokens=100.0, sigma=0.5)
    long = EmpiricalLength(probabilities=(0.0, 1.0), tokens=(1000.0, 3000.0))
    one = Workload(requests_per_s=3.0, prompt_lengths=short, output_tokens=10)
    other = Workload(requests_per_s=1.0, prompt_lengths=long, output_tokens=50)
    found = both(one, other)
    assert found.prompt_lengths is not None
    mean = 0.75 * short.mean_tokens + 0.25 * 2000
    assert found.prompt_lengths.mean_tokens == pytest.approx(mean, rel=1e-9)
    # three quarters are the short ones: their 2/3 quantile is the median of all
    median = float(quantile_tokens(found.prompt_lengths, 0.5))
    assert median == pytest.approx(float(quantile_tokens(short, 2 / 3)), rel=0.02)
    assert float(quantile_tokens(found.prompt_lengths, 1.0)) == pytest.approx(3000, rel=0.01)
    # between the services long prompts have long answers
    prompt_var, output_var = (variance_tokens2(one) for one in
                              (found.prompt_lengths, found.output_lengths))  # type: ignore[arg-type]  # fmt: skip
    between = 0.75 * 0.25 * (2000 - short.mean_tokens) * 40
    expected = between / np.sqrt(prompt_var * output_var)
    assert found.length_correlation == pytest.approx(expected, rel=1e-6)


def test_equal_answers_correlate_with_no_prompt() -> None:
    short = Workload(requests_per_s=1.0, prompt_tokens=100, output_tokens=50)
    assert both(short, short.model_copy(update={"prompt_tokens": 900})).length_correlation == 0.0


def test_the_ends_of_a_lognormal_are_eight_sigmas_away() -> None:
    lengths = LognormalLength(median_tokens=100.0, sigma=0.5)
    low, high = quantile_tokens(lengths, [0.0, 1.0])
    assert low == pytest.approx(100 * np.exp(-4.0))
    assert high == pytest.approx(100 * np.exp(4.0))


def test_an_unmeasured_text_is_as_far_off_as_texts_differ() -> None:
    # 0.19 between texts, as three further measurements
    assert transfer_task([2.0]).log_sd == pytest.approx(0.19 * np.sqrt(2))
    three = transfer_task([2.0, 3.0, 4.0])
    squares = float((np.log(np.array([2.0, 3.0, 4.0]) / 3.0) ** 2).sum())
    expected = np.sqrt((3 * 0.19**2 + squares) / 5) * np.sqrt(4 / 3)
    assert three.log_sd == pytest.approx(expected)
    assert (three.mid, three.degrees) == (3.0, 5.0)


# ---- parts


def test_without_a_mix_the_one_task_is_asked_for() -> None:
    asked: list[TrafficPart] = []

    def curve_of(part: TrafficPart) -> AcceptanceCurve:
        asked.append(part)
        return curve_from_alpha(0.5, STATED)

    found = curve_of_mix(Workload(task="code", temperature=0.3), curve_of)
    assert found is not None
    assert found.at(1) == pytest.approx(1.5)
    assert [(part.task, part.temperature) for part in asked] == [("code", 0.3)]


def test_a_mix_says_which_of_its_parts_think() -> None:
    mix = (
        TrafficPart(share=3, task="code", temperature=0.0, thinking=True),
        TrafficPart(share=1, temperature=0.0, thinking=False),
    )
    found = curve_of_mix(Workload(mix=mix), lambda _: curve_from_alpha(0.5, STATED))
    assert found is not None
    assert "75% code at temperature 0, thinking" in found.definition
    assert "25% any task at temperature 0, not thinking" in found.definition


def test_a_mix_of_one_part_is_that_part() -> None:
    mix = (TrafficPart(share=2, task="code"),)
    curve = replace(curve_from_alpha(0.5, STATED), draft_sampling="greedy")
    found = curve_of_mix(Workload(mix=mix), lambda _: curve)
    assert found is not None
    assert found.tokens_per_round == pytest.approx(curve.tokens_per_round)
    assert found.relative_se == pytest.approx(curve.relative_se)
    assert found.draft_sampling == "greedy"


STEP = FittedStep(
    fixed_s=1.0, several_rows_s=0.0, per_sequence_s=0.5, per_token_s=0.25, per_context_s=0.01,
    prefill_s_per_token=0.002, relative_se=0.04,
)  # fmt: skip


def test_a_step_under_a_workload_keeps_its_error_and_meets_longer_contexts() -> None:
    longer = ServedStep(STEP, further_context=100.0)
    assert longer.relative_se == 0.04
    assert float(longer.seconds(2, 1, 50)) == float(STEP.seconds(2, 1, 150))
    extra = longer.extra(2, 3, 50)
    assert isinstance(extra, VerificationExtra)
    assert float(extra.total) == pytest.approx(2 * 0.25 * 2)
    assert float(longer.prompt_seconds(100)) == pytest.approx(0.2)
    assert float(longer.interference_seconds(100)) == pytest.approx(0.2)


def test_only_a_workload_of_equal_requests_is_served_by_the_very_step() -> None:
    assert served(STEP, Workload()) is STEP
    assert served(STEP, Workload(prefix_cache_hit_rate=0.5)) is not STEP
    lengths = LognormalLength(median_tokens=100.0, sigma=0.5)
    assert served(STEP, Workload(prompt_lengths=lengths)) is not STEP
    assert served(STEP, Workload(output_lengths=lengths)) is not STEP
