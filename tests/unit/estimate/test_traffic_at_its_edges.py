"""Traces and services at their edges: just enough windows, lengths of a token, like lengths."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.length_distributions import quantile_tokens
from capplan.estimate.merged_traffic import merged
from capplan.estimate.request_trace import (
    Clock,
    RequestTrace,
    day_of_week_weights,
    empirical,
    hour_of_day_weights,
    index_of_dispersion,
    length_correlation,
    mean_requests_per_s,
    peak_requests_per_s,
)
from capplan.schema.lengths import EmpiricalLength, LognormalLength
from capplan.schema.services import NamedWorkload, Services
from capplan.schema.workload import TrafficPart, Workload

HOUR, DAY = 3600.0, 86_400.0


def trace(seconds: np.ndarray, clock: Clock = "from midnight") -> RequestTrace:
    ones = np.ones(len(seconds), dtype=np.int64)
    return RequestTrace(np.sort(np.asarray(seconds, dtype=float)), ones, ones, clock)


# ---- a trace


def test_no_request_spans_no_time() -> None:
    none = trace(np.zeros(0))
    assert none.span_s == 0.0
    assert mean_requests_per_s(none) is None
    assert mean_requests_per_s(trace(np.zeros(3))) is None
    assert mean_requests_per_s(trace(np.array([1.0, 5.0]))) == 0.25


def test_a_window_as_long_as_the_trace_has_a_peak_without_its_last_moment() -> None:
    seconds = np.array([0.0, 10.0, 20.0, 60.0])
    assert peak_requests_per_s(trace(seconds), 60.0) == pytest.approx(3 / 60)
    assert peak_requests_per_s(trace(seconds), 60.1) is None
    assert peak_requests_per_s(trace(seconds), 59.9) == pytest.approx(3 / 59.9)
    assert peak_requests_per_s(trace(seconds), 10.0) == pytest.approx(1 / 10)


def test_thirty_minutes_tell_a_dispersion() -> None:
    counts = np.array([1, 3] * 15)
    seconds = np.concatenate([60.0 * k + np.arange(n) for k, n in enumerate(counts)])
    # what comes at the very end belongs to no whole minute
    whole = trace(np.append(seconds, 1800.0))
    assert index_of_dispersion(whole) == pytest.approx(counts.var(ddof=1) / 2)
    assert index_of_dispersion(trace(np.append(seconds, 1799.0))) is None
    halves = trace(np.append(seconds[seconds < 900], 900.0))
    half_minutes = np.histogram(halves.seconds[:-1], np.arange(0, 901, 30))[0]
    assert index_of_dispersion(halves, 30.0) == pytest.approx(
        half_minutes.var(ddof=1) / half_minutes.mean()
    )
    late = trace(np.append(seconds, 1800.0) + 12_345.0)
    assert index_of_dispersion(late) == pytest.approx(counts.var(ddof=1) / 2)


@pytest.mark.parametrize(("seen_s", "is_enough"), [(1800.0, True), (1799.0, False)])
def test_half_of_every_hour_must_have_been_watched(seen_s: float, is_enough: bool) -> None:
    weights = hour_of_day_weights(trace(np.array([0.0, 5 * HOUR, 23 * HOUR + seen_s])))
    assert (weights is not None) is is_enough
    if weights is not None:
        assert weights[0] == weights[5] == pytest.approx(1 / HOUR)
        assert weights[23] == pytest.approx(1 / seen_s)
        assert weights[1] == 0.0


@pytest.mark.parametrize(("seen_s", "is_enough"), [(12 * HOUR, True), (12 * HOUR - 1, False)])
def test_half_of_every_weekday_must_have_been_watched(seen_s: float, is_enough: bool) -> None:
    # from a Monday on: 1970-01-05
    seconds = 4 * DAY + np.array([0.0, DAY, 6 * DAY + seen_s])
    weights = day_of_week_weights(trace(seconds, "calendar"))
    assert (weights is not None) is is_enough
    if weights is not None:
        assert weights[:3] == (pytest.approx(1 / DAY), pytest.approx(1 / DAY), 0.0)
        assert weights[6] == pytest.approx(1 / seen_s)


def test_one_request_weighs_no_hour() -> None:
    assert hour_of_day_weights(trace(np.array([5.0]))) is None
    assert hour_of_day_weights(trace(np.zeros(0))) is None


def mean_of(probabilities: list[float], tokens: np.ndarray) -> float:
    """Return the mean of straight lines between quantiles."""
    return float(np.diff(probabilities) @ (tokens[1:] + tokens[:-1]) / 2)


@pytest.mark.parametrize("tail", [3, 7, 40])
def test_a_samples_quantiles_are_half_per_cents_and_five_of_the_tail(tail: int) -> None:
    tokens = np.array([1] * 2000 + [2] * 500 + [300] * tail)
    found = empirical(tokens)
    grid = [k / 200 for k in range(199)] + [0.995, 0.998, 0.999, 0.9995, 1.0]
    assert found.probabilities == pytest.approx(grid)
    values = np.quantile(tokens, grid)
    factor = tokens.mean() / mean_of(grid, values)
    assert abs(factor - 1) > 1e-3
    assert found.tokens == pytest.approx(np.maximum(values * factor, 1.0))
    assert min(found.tokens) == pytest.approx(max(factor, 1.0))


def test_lengths_of_which_one_never_changes_do_not_correlate() -> None:
    some, same = np.array([1, 5, 9]), np.array([4, 4, 4])
    for prompts, outputs in ((some, same), (same, some)):
        assert length_correlation(RequestTrace(np.arange(3.0), prompts, outputs, "relative")) == 0
    both = RequestTrace(np.arange(3.0), some, np.array([2, 1, 3]), "relative")
    assert length_correlation(both) == pytest.approx(0.5)


# ---- several services


def together(*loads: Workload) -> Workload:
    named = tuple(NamedWorkload(name=str(k), workload=load) for k, load in enumerate(loads))
    return merged(Services(services=named))


def test_lengths_of_services_are_mixed_by_their_quantiles() -> None:
    parts = (
        LognormalLength(median_tokens=3.0, sigma=1.2),
        EmpiricalLength(probabilities=(0.0, 0.4, 1.0), tokens=(50.0, 60.0, 900.0)),
    )
    shares = (0.75, 0.25)
    found = together(
        Workload(requests_per_s=3.0, output_lengths=parts[0]),
        Workload(requests_per_s=1.0, output_lengths=parts[1]),
    ).output_lengths
    assert isinstance(found, EmpiricalLength)
    grid = [k / 100 for k in range(100)] + [0.995, 0.999, 1.0]
    assert found.probabilities == pytest.approx(grid)
    middles = (np.arange(2000) + 0.5) / 2000
    points = sorted(
        (float(tokens), share / 2000)
        for part, share in zip(parts, shares, strict=True)
        for tokens in quantile_tokens(part, middles)
    )
    tokens, weights = np.array(points).T
    values = np.maximum(np.interp(grid, np.cumsum(weights) - weights / 2, tokens), 1.0)
    mean = 0.75 * parts[0].mean_tokens + 0.25 * parts[1].mean_tokens
    scaled = np.maximum(values * mean / mean_of(grid, values), 1.0)
    assert found.tokens == pytest.approx(scaled, rel=1e-9)
    assert found.tokens[0] == 1.0


def test_fixed_lengths_become_steps() -> None:
    loads = [
        Workload(requests_per_s=rate, prompt_tokens=prompt, output_tokens=7)
        for rate, prompt in ((2.0, 300), (1.0, 100), (4.0, 300), (1.0, 900))
    ]
    found = together(*loads)
    assert (found.output_tokens, found.output_lengths.kind) == (7, "fixed")  # type: ignore[union-attr]
    assert isinstance(found.prompt_lengths, EmpiricalLength)
    assert found.prompt_lengths.probabilities == pytest.approx(
        (0.0, 0.125, 0.125, 0.875, 0.875, 1.0), abs=1e-8
    )
    assert found.prompt_lengths.tokens == (100, 100, 300, 300, 900, 900)
    assert found.prompt_tokens == pytest.approx(0.125 * 100 + 0.75 * 300 + 0.125 * 900)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.7, 1.0, 3.0, 9.0])
@pytest.mark.parametrize(("outputs", "sign"), [((10, 70), 1.0), ((70, 10), -1.0)])
def test_two_services_of_one_length_each_correlate_in_full(
    rate: float, outputs: tuple[int, int], sign: float
) -> None:
    one = Workload(requests_per_s=rate, prompt_tokens=130, output_tokens=outputs[0])
    two = Workload(requests_per_s=1.7, prompt_tokens=410, output_tokens=outputs[1])
    found = together(one, two).length_correlation
    assert found == pytest.approx(sign, abs=1e-6)
    assert abs(found) <= 1.0


def test_lengths_that_differ_by_a_token_correlate_as_others_do() -> None:
    one = Workload(requests_per_s=1.0, prompt_tokens=100, output_tokens=10)
    two = Workload(requests_per_s=1.0, prompt_tokens=101, output_tokens=11)
    assert together(one, two).length_correlation == pytest.approx(1.0, abs=1e-6)


def test_cached_prompts_count_by_their_tokens() -> None:
    one = Workload(requests_per_s=3.0, prompt_tokens=100, prefix_cache_hit_rate=0.5)
    two = Workload(requests_per_s=1.0, prompt_tokens=500, prefix_cache_hit_rate=0.1)
    # 3 x 50 and 50 of 3 x 100 and 500 tokens
    assert together(one, two).prefix_cache_hit_rate == pytest.approx(200 / 800)


def test_parts_of_a_mix_keep_their_shares_within_their_service() -> None:
    parts = (TrafficPart(share=3, task="code"), TrafficPart(share=1, task="chat"))
    one = Workload(requests_per_s=1.0, mix=parts, output_tokens=200)
    two = Workload(requests_per_s=3.0, task="news", temperature=0.7, output_tokens=40)
    found = together(one, two).mix
    assert [(part.task, part.share) for part in found] == [
        ("code", pytest.approx(0.1875)), ("chat", pytest.approx(0.0625)),
        ("news", pytest.approx(0.75)),
    ]  # fmt: skip
    assert [part.output_tokens for part in found] == [200, 200, 40]
    assert found[2].temperature == 0.7
    own = tuple(part.model_copy(update={"output_tokens": 9 + 2 * part.share}) for part in parts)
    found = together(Workload(requests_per_s=1.0, mix=own), two).mix
    assert [part.output_tokens for part in found] == [15, 11, 40]


def test_the_busiest_hour_of_the_sum_is_the_peak_only_where_it_is_above_the_mean() -> None:
    one = Workload(requests_per_s=1.0)
    found = together(one, one, one)
    assert (found.requests_per_s, found.arrival) == (3.0, None)
