"""Rates over the week, lengths and their moments, services put together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError

from capplan.errors import RequestError
from capplan.estimate.length_distributions import (
    quantile_tokens,
    sample_pairs,
    sample_tokens,
    spread_tokens,
    variance_tokens2,
)
from capplan.estimate.merged_traffic import merged
from capplan.estimate.traffic import (
    at_peak,
    further_context_tokens,
    mean_requests_per_s,
    peak_requests_per_s,
    peak_to_mean,
    requests_per_s_of_week,
    sample_requests,
    shape_of_week,
)
from capplan.schema.arrival import Arrival
from capplan.schema.lengths import EmpiricalLength, FixedLength, LognormalLength
from capplan.schema.services import NamedWorkload, Services
from capplan.schema.workload import Workload

NIGHT_AND_DAY = (0.0,) * 12 + (2.0,) * 12
WORKDAYS = (1.0,) * 5 + (0.0,) * 2


def test_tokens_a_month_are_spread_over_the_serving_hours() -> None:
    load = Workload(output_tokens_per_month=730 * 3600 * 500.0, output_tokens=250)
    assert mean_requests_per_s(load) == pytest.approx(2.0)
    assert mean_requests_per_s(load, serving_hours=365) == pytest.approx(4.0)


def test_a_day_shape_doubles_the_busy_half() -> None:
    load = Workload(requests_per_s=3, arrival=Arrival(hour_of_day=NIGHT_AND_DAY))
    week = requests_per_s_of_week(load)
    assert week is not None
    assert week[0] == 0.0
    assert week[13] == pytest.approx(6.0)
    assert week.mean() == pytest.approx(3.0)
    assert peak_requests_per_s(load) == pytest.approx(6.0)


def test_day_and_week_multiply() -> None:
    arrival = Arrival(hour_of_day=NIGHT_AND_DAY, day_of_week=WORKDAYS)
    shape = shape_of_week(arrival)
    assert shape.max() == pytest.approx(2.0 * 7 / 5)
    assert shape[5 * 24 :].sum() == 0.0


def test_a_stated_peak_is_the_peak_unless_the_busiest_hour_is_above_it() -> None:
    shaped = {"hour_of_day": NIGHT_AND_DAY}
    stated = Workload(requests_per_s=3, arrival=Arrival(peak_requests_per_s=9, **shaped))
    assert peak_to_mean(stated) == pytest.approx(3.0)
    low = Workload(requests_per_s=3, arrival=Arrival(peak_requests_per_s=4, **shaped))
    assert peak_requests_per_s(low) == pytest.approx(6.0)


def test_at_the_peak_the_plain_rate_is_the_peak() -> None:
    load = Workload(requests_per_s=2, arrival=Arrival(peak_requests_per_s=5), temperature=0.7)
    peak = at_peak(load)
    assert (peak.requests_per_s, peak.arrival, peak.temperature) == (5.0, None, 0.7)
    tokens = Workload(output_tokens_per_month=1e9, arrival=Arrival(hour_of_day=NIGHT_AND_DAY))
    assert at_peak(tokens).output_tokens_per_month == pytest.approx(2e9)


def test_a_lognormal_by_mean_and_p95_has_that_mean_and_p95() -> None:
    lengths = LognormalLength.model_validate({"mean_tokens": 1500, "p95_tokens": 5000})
    assert lengths.mean_tokens == pytest.approx(1500)
    assert float(quantile_tokens(lengths, 0.95)) == pytest.approx(5000)
    # the textbook moments: median exp(mu), variance mean^2 (exp(sigma^2) - 1)
    assert variance_tokens2(lengths) == pytest.approx(1500**2 * math.expm1(lengths.sigma**2))


@pytest.mark.parametrize("p95", [1500, 900, 6000])
def test_a_p95_that_no_lognormal_has_is_refused(p95: float) -> None:
    with pytest.raises(ValidationError, match=r"3\.87"):
        LognormalLength.model_validate({"mean_tokens": 1500, "p95_tokens": p95})


def test_quantiles_of_a_sample_are_joined_by_straight_lines() -> None:
    lengths = EmpiricalLength(probabilities=(0, 0.5, 1), tokens=(10, 20, 100))
    assert quantile_tokens(lengths, [0.25, 0.75]).tolist() == [15.0, 60.0]
    assert lengths.mean_tokens == pytest.approx(0.5 * 15 + 0.5 * 60)
    # uniform pieces: E[x^2] = 0.5 (100+200+400)/3 + 0.5 (400+2000+10000)/3
    assert variance_tokens2(lengths) == pytest.approx(700 / 6 + 12400 / 6 - 37.5**2)


@pytest.mark.parametrize(
    "lengths",
    [
        FixedLength(tokens=300),
        LognormalLength(median_tokens=200, sigma=0.8),
        EmpiricalLength(probabilities=(0, 0.5, 1), tokens=(10, 20, 100)),
    ],
)
def test_samples_have_the_mean_and_spread_of_their_distribution(lengths: FixedLength) -> None:
    drawn = sample_tokens(lengths, np.random.default_rng(7), 200_000)
    assert drawn.dtype == np.int64
    assert drawn.mean() == pytest.approx(lengths.mean_tokens, rel=0.01)
    assert drawn.std() == pytest.approx(math.sqrt(variance_tokens2(lengths)), rel=0.05, abs=1e-9)
    assert np.mean(spread_tokens(lengths)) == pytest.approx(lengths.mean_tokens)


def test_pairs_keep_each_distribution_and_are_correlated() -> None:
    prompts = LognormalLength(median_tokens=800, sigma=0.5)
    outputs = EmpiricalLength(probabilities=(0, 1), tokens=(100, 300))
    p, o = sample_pairs(prompts, outputs, 0.6, np.random.default_rng(1), 20_000)
    assert np.median(p) == pytest.approx(800, rel=0.02)
    assert o.mean() == pytest.approx(200, rel=0.02)
    assert 0.45 < np.corrcoef(p, o)[0, 1] < 0.65


def test_equal_requests_meet_no_further_context() -> None:
    assert further_context_tokens(Workload(prompt_tokens=1000, output_tokens=400)) == 0.0


def test_a_step_sees_requests_by_how_long_they_write() -> None:
    """Half of the requests write 100 tokens, half 300: three quarters of the steps see the latter.

    Mean context of a step, by hand: (100 * 50 + 300 * 150) / 400 = 125 beyond the prompt, and half
    the mean output is 100.
    """
    lengths = EmpiricalLength(
        probabilities=(0, 0.5 - 1e-9, 0.5 + 1e-9, 1), tokens=(100, 100, 300, 300)
    )
    load = Workload(output_lengths=lengths)
    assert load.output_tokens == 200
    assert further_context_tokens(load) == pytest.approx(25.0, abs=1e-3)
    mix = ({"share": 1, "output_tokens": 100}, {"share": 1, "output_tokens": 300})
    assert further_context_tokens(Workload(mix=mix)) == pytest.approx(25.0)


def test_the_mean_context_of_steps_is_that_of_sampled_requests() -> None:
    load = Workload(
        prompt_lengths=LognormalLength(median_tokens=900, sigma=0.7),
        output_lengths=LognormalLength(median_tokens=250, sigma=0.6),
        length_correlation=0.0,
    )
    p, o = sample_requests(load, np.random.default_rng(3), 200_000)
    met = float((o * (p + o / 2)).sum() / o.sum())
    expected = load.prompt_lengths.mean_tokens + load.output_lengths.mean_tokens / 2
    assert met == pytest.approx(expected + further_context_tokens(load), rel=0.01)


def _services(*loads: Workload) -> Services:
    named = (NamedWorkload(name=f"s{i}", workload=load) for i, load in enumerate(loads))
    return Services(services=tuple(named))


def test_services_add_up() -> None:
    chat = Workload(requests_per_s=6, prompt_tokens=1500, output_tokens=400, temperature=0.7)
    extract = Workload(
        requests_per_s=2, prompt_tokens=4000, output_tokens=60, prefix_cache_hit_rate=0.5
    )
    both = merged(_services(chat, extract))
    assert both.requests_per_s == pytest.approx(8)
    assert both.prompt_tokens == round((6 * 1500 + 2 * 4000) / 8)
    assert both.output_tokens == round((6 * 400 + 2 * 60) / 8)
    # 4,000 of 17,000 prompt tokens a second are cached
    assert both.prefix_cache_hit_rate == pytest.approx(2 * 2000 / (6 * 1500 + 2 * 4000), rel=1e-3)
    # temperature over tokens: 2,400 a second at 0.7, 120 at 0
    assert both.temperature == pytest.approx(0.7 * 2400 / 2520)
    by_hand = (6 * 400 * (1500 + 200) + 2 * 60 * (4000 + 30)) / 2520
    assert both.prompt_lengths is not None
    assert both.output_lengths is not None
    middle = both.prompt_lengths.mean_tokens + both.output_lengths.mean_tokens / 2
    assert middle + further_context_tokens(both) == pytest.approx(by_hand, rel=1e-4)


def test_peaks_at_different_hours_do_not_add() -> None:
    day, night = NIGHT_AND_DAY, NIGHT_AND_DAY[::-1]
    loads = [
        Workload(requests_per_s=1, arrival=Arrival(hour_of_day=shape)) for shape in (day, night)
    ]
    assert peak_requests_per_s(merged(_services(*loads))) == pytest.approx(2.0)
    same = [loads[0], loads[0]]
    assert peak_requests_per_s(merged(_services(*same))) == pytest.approx(4.0)


def test_peaks_without_hours_are_taken_to_fall_together() -> None:
    loads = [Workload(requests_per_s=1, arrival=Arrival(peak_requests_per_s=4))] * 2
    assert peak_requests_per_s(merged(_services(*loads))) == pytest.approx(8.0)


def test_one_service_stays_as_it_is() -> None:
    load = Workload(requests_per_s=1, arrival=Arrival(hour_of_day=NIGHT_AND_DAY))
    assert merged(_services(load)) is load


def test_services_without_a_rate_or_of_two_utilisations_are_refused() -> None:
    with pytest.raises(RequestError, match="'s1' has no rate"):
        merged(_services(Workload(requests_per_s=1), Workload()))
    loads = (Workload(requests_per_s=1), Workload(requests_per_s=1, utilisation=0.5))
    with pytest.raises(RequestError, match=r"0\.5, 0\.6"):
        merged(_services(*loads))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"arrival": {"peak_requests_per_s": 3}}, "a peak needs a mean"),
        ({"requests_per_s": 4, "arrival": {"peak_requests_per_s": 3}}, "below the mean"),
        ({"arrival": {}}, "arrival is empty"),
        ({"arrival": {"hour_of_day": [1.0] * 23}}, "expected 24"),
        ({"arrival": {"day_of_week": [0.0] * 7}}, "not all 0"),
        ({"length_correlation": 0.5}, "needs prompt_lengths"),
        ({"prompt_tokens": 9, "prompt_lengths": {"kind": "fixed", "tokens": 800}}, "leave prompt"),
        ({"task": "code", "mix": [{"share": 1}]}, "either task or mix"),
        ({"temperature": 1, "mix": [{"share": 1}]}, "the mix has 0 on average"),
        ({"mix": [{"share": 1, "output_tokens": 9}, {"share": 1}]}, "in all or in none"),
        ({"prefix_cache_hit_rate": 1.0}, "less than 1"),
        ({"output_lengths": {"kind": "pareto"}}, "fixed"),
    ],
)
def test_contradictions_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Workload.model_validate(fields)


def test_a_workload_survives_its_json() -> None:
    load = Workload(
        requests_per_s=2,
        arrival=Arrival(peak_requests_per_s=5, day_of_week=WORKDAYS),
        prompt_lengths=LognormalLength(median_tokens=900, sigma=0.7),
        mix=({"share": 2, "task": "code", "thinking": True}, {"share": 1, "temperature": 0.9}),
        prefix_cache_hit_rate=0.25,
    )
    assert Workload.model_validate_json(load.model_dump_json()) == load
