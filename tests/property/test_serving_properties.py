"""What holds for every served load, whatever its lengths, rates and engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from capplan.estimate.serving_acceptance import NO_DRAFTS, accepted_from_conditional
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_results import SimulatedLoad
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic, traffic

RATES = (0.7, 0.5, 0.4)


def clock(batch: int, tokens: int, context: float, prefill_tokens: int) -> float:
    return (
        1e-2
        + 1e-3 * batch
        + 2e-4 * batch * tokens
        + 1e-6 * batch * context
        + 1e-4 * prefill_tokens
    )


@st.composite
def loads(draw: st.DrawFn) -> Traffic:
    count = draw(st.integers(1, 60))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    prompts, outputs = random.integers(1, 300, count), random.integers(1, 80, count)
    load = traffic(count, prompts, outputs, prefix_hit_share=draw(st.sampled_from([0.0, 0.6])))
    if draw(st.booleans()):
        return load.closed(draw(st.integers(1, 12)))
    return load.at_rate(draw(st.floats(0.05, 50.0)), draw(st.integers(0, 99)))


engines = st.builds(
    EngineLimits,
    max_num_seqs=st.integers(1, 12),
    max_num_batched_tokens=st.integers(8, 600),
    kv_tokens=st.integers(400, 4000),
    num_speculative_tokens=st.integers(0, 3),
)


def served(load: Traffic, limits: EngineLimits, seed: int = 0) -> SimulatedLoad:
    return simulate_load(load, limits, clock, accepted_from_conditional(RATES), seed=seed)


@given(loads(), engines)
@settings(max_examples=60, deadline=None)
def test_littles_law(load: Traffic, limits: EngineLimits) -> None:
    run = served(load, limits)
    # counted over time, step by step, and over requests, from their own times
    assert run.engine.system_area_s == pytest.approx(run.e2e_s.sum(), rel=1e-9, abs=1e-9)
    rate = load.count / run.engine.span_s
    assert run.mean_in_system == pytest.approx(rate * run.e2e_s.mean(), rel=1e-9)


@given(loads(), engines)
@settings(max_examples=60, deadline=None)
def test_every_request_is_served_in_order_of_its_times(
    load: Traffic, limits: EngineLimits
) -> None:
    run = served(load, limits)
    assert (run.start_s >= run.arrival_s).all()
    assert (run.first_token_s > run.start_s).all()
    assert (run.end_s >= run.first_token_s).all()
    assert (np.diff(run.start_s) >= 0).all()  # first come, first served
    assert run.engine.busy_s <= run.engine.span_s * (1 + 1e-9)
    assert run.engine.peak_tokens <= limits.kv_tokens


@given(loads(), engines)
@settings(max_examples=60, deadline=None)
def test_every_token_is_written_once(load: Traffic, limits: EngineLimits) -> None:
    run = served(load, limits)
    by_prefill = int((load.output_tokens - 1).sum()) - run.engine.emitted
    assert 0 <= by_prefill <= run.engine.preemptions


@given(loads(), engines, st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_the_same_seed_gives_the_same_run(load: Traffic, limits: EngineLimits, seed: int) -> None:
    first, again = served(load, limits, seed), served(load, limits, seed)
    assert (first.end_s == again.end_s).all()
    assert first.engine == again.engine


@given(loads(), engines)
@settings(max_examples=30, deadline=None)
def test_n_of_zero_is_no_speculation(load: Traffic, limits: EngineLimits) -> None:
    plain = EngineLimits(limits.max_num_seqs, limits.max_num_batched_tokens, limits.kv_tokens)
    schedule = EngineLimits(
        limits.max_num_seqs,
        limits.max_num_batched_tokens,
        limits.kv_tokens,
        num_speculative_tokens=[0] * 5,
    )
    without = simulate_load(load, plain, clock, NO_DRAFTS)
    with_zero = served(load, schedule)
    assert (without.end_s == with_zero.end_s).all()


@given(loads(), engines)
@settings(max_examples=30, deadline=None)
def test_a_machine_with_work_never_rests(load: Traffic, limits: EngineLimits) -> None:
    run = served(load, limits)
    if load.concurrency is not None:
        assert run.utilisation == pytest.approx(1.0)
        return
    idle_s = run.engine.span_s - run.engine.busy_s
    ends, arrivals = np.sort(run.end_s), run.arrival_s
    # it rests only from the last end of what has come to the next arrival
    before = np.maximum.accumulate(run.end_s[np.argsort(arrivals, kind="stable")])[:-1]
    rests = np.maximum(arrivals[1:] - before, 0.0).sum() + arrivals[0]
    assert idle_s == pytest.approx(rests, abs=1e-9)
    assert ends[-1] == pytest.approx(run.engine.span_s)
