"""Blocks, order and verdicts of timing, without real time."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from capplan.schema.verdict import Stability
from profiler.timing.blocks import BlockSettings, is_settled, measure_block, passes_for_block
from profiler.timing.clock import FakeClock, MonotonicClock, reading_cost_s
from profiler.timing.order import merged, shuffled, with_sentinel
from profiler.timing.verdict import (
    combine,
    doubt,
    judge_seconds,
    judge_sentinel,
    outlier_share,
    robust_spread,
)

positive = st.floats(1e-6, 1e3)


class Point:
    """A pass that takes the next of some durations, the last one for ever."""

    cuda_graph = False

    def __init__(self, clock, *durations_s):
        self.clock = clock
        self.durations_s = list(durations_s)
        self.blocks = []

    def run_block(self, passes):
        one = self.durations_s.pop(0) if len(self.durations_s) > 1 else self.durations_s[0]
        self.blocks.append(passes)
        self.clock.advance(one * passes)
        return one * passes

    def close(self):
        pass


def test_short_passes_are_grouped_into_blocks_of_a_millisecond():
    clock = FakeClock()
    times = measure_block(Point(clock, 20e-6), clock)
    assert times.passes_per_block * 20e-6 >= 1e-3
    assert times.seconds == pytest.approx([20e-6] * 7)


def test_long_passes_are_timed_one_by_one():
    clock = FakeClock()
    assert measure_block(Point(clock, 0.05), clock).passes_per_block == 1


def test_warm_up_ends_when_three_blocks_agree():
    clock = FakeClock()
    times = measure_block(Point(clock, 0.9, 0.5, 0.2, 0.1, 0.1), clock)
    assert times.warmup_seconds[-3:] == (0.1, 0.1, 0.1)
    assert times.seconds == (0.1,) * 7


def test_warm_up_gives_up_on_a_machine_that_never_settles():
    clock = FakeClock()
    restless = [0.1 * (1 + i % 2) for i in range(40)]
    times = measure_block(Point(clock, *restless), clock, BlockSettings(max_warmup_blocks=4))
    assert len(times.warmup_seconds) == 5
    assert times.verdict.stability is not Stability.STABLE


def test_a_slow_point_is_repeated_at_least_three_times():
    clock = FakeClock()
    times = measure_block(Point(clock, 30.0), clock, BlockSettings(max_seconds=1.0))
    assert len(times.seconds) == 3
    assert len(times.warmup_seconds) == 2


@given(pass_s=positive, timer_cost_s=st.floats(1e-8, 1e-5))
def test_the_timer_costs_at_most_a_thousandth_of_a_block(pass_s, timer_cost_s):
    block_s = passes_for_block(pass_s, timer_cost_s) * pass_s
    assert block_s >= 1e-3 * (1 - 1e-9)
    assert timer_cost_s <= 1e-3 * block_s * (1 + 1e-9)


def test_the_real_clock_is_cheap_to_read_and_never_runs_back():
    assert 0 <= reading_cost_s(MonotonicClock()) < 1e-4


def test_two_blocks_are_not_enough_to_call_a_point_settled():
    assert not is_settled([0.1, 0.1])
    assert is_settled([9.0, 0.1, 0.1, 0.102])


def test_spread_ignores_one_outlier_which_the_count_does_not():
    values = [1.0, 1.01, 0.99, 1.0, 5.0]
    assert robust_spread(values) < 0.02
    assert outlier_share(values) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("seconds", "stability", "checks"),
    [
        ((1.0, 1.01, 0.99, 1.0, 1.0), Stability.STABLE, []),
        ((1.0, 1.3, 0.8, 1.1, 0.9), Stability.NOISY, ["spread"]),
        ((1.0, 9.0, 0.2, 4.0, 0.5), Stability.INVALID, ["spread"]),
        ((1.0, 1.0), Stability.NOISY, ["too_few_values"]),
        ((0.0, 0.0, 0.0), Stability.INVALID, ["zero_time"]),
        ((1.0, 1.0, 1.0, 1.0, 3.0, 3.0), Stability.NOISY, ["outliers"]),
    ],
)
def test_raw_values_are_judged_with_number_threshold_and_remedy(seconds, stability, checks):
    verdict = judge_seconds(seconds)
    assert verdict.stability is stability
    assert [r.check for r in verdict.reasons] == checks
    assert all(r.remedy for r in verdict.reasons)


@given(st.lists(positive, min_size=3, max_size=20), st.floats(1e-3, 1e3))
def test_a_verdict_does_not_depend_on_the_unit_of_time(seconds, factor):
    scaled = [s * factor for s in seconds]
    assert robust_spread(scaled) == pytest.approx(robust_spread(seconds), rel=1e-6, abs=1e-9)


def test_drift_is_taken_from_the_first_sentinel():
    assert judge_sentinel([1.0, 1.01, 0.99]).stability is Stability.STABLE
    verdict = judge_sentinel([1.0, 1.0, 1.03])
    assert verdict.reasons[0].value == pytest.approx(0.03)
    assert judge_sentinel([1.0]).stability is Stability.STABLE


def test_the_worst_verdict_wins_and_its_reasons_come_first():
    noisy = doubt("a", 1.0, 0.0, "r")
    invalid = doubt("b", 1.0, 0.0, "r", Stability.INVALID)
    both = combine([noisy, invalid])
    assert both.stability is Stability.INVALID
    assert [r.check for r in both.reasons] == ["b", "a"]
    assert combine([]).stability is Stability.STABLE


def test_what_was_found_twice_is_told_once_by_its_worst_value():
    busy = [doubt("cpu_busy", value, 0.1, "Stop other programs.") for value in (0.3, 0.9, 0.5)]
    few = [doubt("too_few_values", value, 3, "More time.") for value in (2, 1)]
    told = [(r.check, r.value) for r in combine([*busy, *few]).reasons]
    assert told == [("cpu_busy", 0.9), ("too_few_values", 1)]


def test_one_check_keeps_its_limits_and_its_remedies_apart():
    limits = [doubt("spread", 0.6, 0.5, "r", Stability.INVALID), doubt("spread", 0.6, 0.05, "r")]
    remedies = [doubt("spread", 0.6, 0.5, "q")]
    assert len(combine([*limits, *remedies]).reasons) == 3


@given(st.lists(st.integers(), max_size=30), st.integers(0, 99))
def test_a_shuffle_depends_on_the_seed_alone_and_loses_nothing(items, seed):
    assert shuffled(items, seed) == shuffled(items, seed)
    assert sorted(shuffled(items, seed)) == sorted(items)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_merging_keeps_each_queue_in_order_and_gives_each_its_share(a, b, c):
    queues = [[(name, i) for i in range(n)] for name, n in (("a", a), ("b", b), ("c", c))]
    out = merged(*queues)
    for queue in queues:
        assert [item for item in out if item in queue] == queue
    half = out[: len(out) // 2]
    for queue in queues:
        assert abs(sum(item in queue for item in half) - len(queue) / 2) <= 1.5


def test_an_empty_sweep_is_three_sentinels():
    assert with_sentinel([], "S") == ["S", "S", "S"]
