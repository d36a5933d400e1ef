"""Laws of traffic that hold for any workload."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from capplan.estimate.acceptance_mix import mixed
from capplan.estimate.curves import curve_from_alpha
from capplan.estimate.length_distributions import (
    quantile_tokens,
    spread_tokens,
    variance_tokens2,
)
from capplan.estimate.merged_traffic import merged
from capplan.estimate.traffic import (
    at_peak,
    mean_requests_per_s,
    peak_requests_per_s,
    peak_to_mean,
    shape_of_week,
)
from capplan.schema.arrival import Arrival
from capplan.schema.lengths import EmpiricalLength, Lengths, LognormalLength
from capplan.schema.provenance import Kind, Source
from capplan.schema.services import NamedWorkload, Services
from capplan.schema.workload import TrafficPart, Workload
from capplan.workloads.workload_file import read_workload_file, workload_yaml

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

WEIGHTS = st.floats(0.0, 50.0)


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    some = st.tuples(WEIGHTS, WEIGHTS, WEIGHTS).filter(lambda weights: sum(weights) > 0.1)
    hours, days = draw(some), draw(st.none() | some)
    week = (*days, *days, days[0]) if days else None
    return Arrival(hour_of_day=hours * 8, day_of_week=week)


@st.composite
def lengths(draw: st.DrawFn) -> Lengths:
    if draw(st.booleans()):
        return LognormalLength(
            median_tokens=draw(st.floats(2, 5000)), sigma=draw(st.floats(0.05, 1.5))
        )
    tokens = sorted(draw(st.lists(st.floats(1, 1e5), min_size=3, max_size=8)))
    steps = np.linspace(0, 1, len(tokens))
    return EmpiricalLength(probabilities=tuple(map(float, steps)), tokens=tuple(tokens))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    return Workload(
        requests_per_s=draw(st.floats(0.01, 100)),
        arrival=draw(st.none() | arrivals()),
        prompt_lengths=draw(st.none() | lengths()),
        output_lengths=draw(st.none() | lengths().filter(lambda one: one.mean_tokens >= 2)),
        prefix_cache_hit_rate=draw(st.floats(0, 0.95)),
        temperature=draw(st.sampled_from([0.0, 0.7, 1.0])),
    )


@given(arrivals())
def test_a_shape_has_mean_one_and_a_peak_of_at_least_that(arrival: Arrival) -> None:
    shape = shape_of_week(arrival)
    assert shape.mean() == pytest.approx(1.0)
    assert peak_to_mean(Workload(requests_per_s=1, arrival=arrival)) >= 1.0 - 1e-9


@given(workloads(), st.floats(1.0, 20.0))
def test_the_peak_is_never_below_the_mean_nor_moved_by_taking_it_twice(
    load: Workload, factor: float
) -> None:
    peak, mean = peak_requests_per_s(load), mean_requests_per_s(load)
    assert peak is not None
    assert mean is not None
    assert peak >= mean * (1 - 1e-9)
    assert mean_requests_per_s(at_peak(load)) == pytest.approx(peak)
    assert peak_to_mean(at_peak(load)) == 1.0
    scaled = load.model_copy(update={"requests_per_s": mean * factor})
    assert peak_requests_per_s(scaled) == pytest.approx(peak * factor)


@given(lengths(), st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_quantiles_rise_and_the_spread_keeps_the_mean(one: Lengths, at: list[float]) -> None:
    values = quantile_tokens(one, sorted(at))
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    assert np.mean(spread_tokens(one)) == pytest.approx(one.mean_tokens)
    assert variance_tokens2(one) >= 0.0


@given(st.floats(5, 1e5), st.floats(1.001, 3.8))
def test_a_lognormal_is_found_for_every_ratio_that_has_one(mean: float, ratio: float) -> None:
    one = LognormalLength.model_validate({"mean_tokens": mean, "p95_tokens": mean * ratio})
    assert one.mean_tokens == pytest.approx(mean)
    assert float(quantile_tokens(one, 0.95)) == pytest.approx(mean * ratio, rel=1e-6)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(workloads(), min_size=2, max_size=4))
def test_services_together_have_all_their_tokens_and_no_more_than_all_their_peaks(
    loads: list[Workload],
) -> None:
    named = tuple(NamedWorkload(name=f"s{i}", workload=one) for i, one in enumerate(loads))
    both = merged(Services(services=named))
    rates = [one.requests_per_s or 0.0 for one in loads]
    assert both.requests_per_s == pytest.approx(sum(rates))
    means = [
        one.output_lengths.mean_tokens if one.output_lengths else one.output_tokens
        for one in loads
    ]
    assert both.output_lengths is not None
    tokens = sum(rate * mean for rate, mean in zip(rates, means, strict=True))
    assert sum(rates) * both.output_lengths.mean_tokens == pytest.approx(tokens, rel=0.01)
    peak = peak_requests_per_s(both)
    assert peak is not None
    most = sum(peak_requests_per_s(one) or 0.0 for one in loads)
    assert sum(rates) * (1 - 1e-9) <= peak <= most * (1 + 1e-9)
    assert 0 <= both.prefix_cache_hit_rate < 1


@given(
    st.lists(st.tuples(st.floats(0.05, 0.95), st.floats(0.1, 9)), min_size=2, max_size=5),
    st.integers(1, 16),
)
def test_a_mix_lies_between_its_parts(parts: list[tuple[float, float]], n: int) -> None:
    source = Source(kind=Kind.ASSUMED, reference="drawn")
    curves = [curve_from_alpha(alpha, source) for alpha, _ in parts]
    weights = np.array([share for _, share in parts])
    labels = [TrafficPart(share=share) for _, share in parts]
    found = mixed(curves, weights / weights.sum(), labels).at(n)
    each = [curve.at(n) for curve in curves]
    assert min(each) - 1e-9 <= found <= max(each) + 1e-9
    arithmetic = float(np.average(each, weights=weights))
    assert found <= arithmetic + 1e-9


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(workloads())
def test_a_workload_file_holds_the_workload(
    tmp_path_factory: pytest.TempPathFactory, load: Workload
) -> None:
    services = Services(services=(NamedWorkload(name="one", workload=load),))
    path = tmp_path_factory.mktemp("files") / "one.yaml"
    path.write_text(workload_yaml(services), encoding="utf-8")
    again = read_workload_file(path).services[0].workload
    assert peak_requests_per_s(again) == pytest.approx(peak_requests_per_s(load), rel=1e-4)
    for name in ("prompt_lengths", "output_lengths"):
        before, after = getattr(load, name), getattr(again, name)
        assert (before is None) == (after is None)
        if before is not None:
            assert math.isclose(after.mean_tokens, before.mean_tokens, rel_tol=1e-3)
    assert again.prefix_cache_hit_rate == pytest.approx(load.prefix_cache_hit_rate, rel=1e-4)
