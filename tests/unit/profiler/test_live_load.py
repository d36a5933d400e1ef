"""Load on a server: arrivals, bounds, and what one request tells."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from capplan.profiles.server_http import parse_address
from profiler.backends.live_http import Ask, Served, ServedLlm, ask_streaming
from profiler.backends.live_load import Bounds, Level, arrival_offsets_s, drive
from profiler.backends.live_observation import Driven, level_observation, run_totals, spread

ASK = Ask(prompt="Hello", temperature=0.0, max_tokens=11, seed=0)


def answered(ask):
    now_s = time.perf_counter()
    return Served(sent_s=now_s, ended_s=now_s + 0.001, output_tokens=11)


def test_arrivals_are_poisson_seeded_and_bounded():
    bounds = Bounds(max_requests=4000, max_seconds=1e9)
    offsets_s = arrival_offsets_s(50.0, bounds, seed=3)
    gaps_s = np.diff(offsets_s)
    assert offsets_s[0] == 0
    assert len(offsets_s) == 4000
    assert np.mean(gaps_s) == pytest.approx(0.02, rel=0.05)
    assert np.std(gaps_s) == pytest.approx(np.mean(gaps_s), rel=0.05)  # exponential
    assert offsets_s == arrival_offsets_s(50.0, bounds, seed=3)
    assert offsets_s != arrival_offsets_s(50.0, bounds, seed=4)
    assert max(arrival_offsets_s(50.0, Bounds(4000, 2.0), seed=3)) < 2.0


def test_open_loop_sends_on_while_earlier_requests_hang():
    free = threading.Event()

    def send(ask):
        free.wait(10)
        return answered(ask)

    def free_at_last(count):
        if count == 12:
            free.set()

    outcome = drive(send, [ASK], Level(rate_per_s=200.0), Bounds(12, 60.0), on_sent=free_at_last)
    assert outcome.peak_in_flight == 12
    assert len(outcome.served) == 12


def test_closed_loop_keeps_its_number_of_places():
    def send(ask):
        time.sleep(0.005)
        return answered(ask)

    outcome = drive(send, [ASK], Level(concurrency=3), Bounds(20, 60.0))
    assert outcome.peak_in_flight == 3
    assert len(outcome.served) == 20


def test_closed_loop_ends_when_its_time_is_up():
    def send(ask):
        time.sleep(0.02)
        return answered(ask)

    outcome = drive(send, [ASK], Level(concurrency=1), Bounds(10_000, 0.2))
    assert 1 <= len(outcome.served) <= 11


def test_a_server_that_only_fails_is_not_asked_to_the_end():
    def send(ask):
        now_s = time.perf_counter()
        return Served(sent_s=now_s, ended_s=now_s, error="refused")

    outcome = drive(send, [ASK], Level(concurrency=1), Bounds(1000, 60.0))
    assert outcome.gave_up
    assert len(outcome.served) < 20


def served(server, timeout_s=5.0):
    return ServedLlm(parse_address(server.url), server.model, None, timeout_s)


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_tokens_come_from_usage_and_never_from_chunks(stand_in, endpoint):
    with stand_in.StandIn(rounds=5, step_s=0.01) as server:
        one = ask_streaming(served(server), endpoint, ASK)
    assert not one.error
    assert one.output_tokens == 11
    assert len(one.event_s) == 6  # the first token and five rounds
    assert one.prompt_tokens == 7
    assert one.tpot_s == pytest.approx((one.event_s[-1] - one.event_s[0]) / 10)
    assert len(one.step_gaps_s) == 5
    assert one.speculation["per_step_accepted"] == [1] * 5


def test_without_usage_there_are_no_tokens_and_no_time_per_token(stand_in):
    with stand_in.StandIn(mode="no-usage") as server:
        one = ask_streaming(served(server), "chat", ASK)
    assert not one.error
    assert one.output_tokens is None
    assert one.tpot_s is None


@pytest.mark.parametrize(
    ("mode", "said"), [("breaks-off", "broke off"), ("refuses", "503"), ("good", "in time")]
)
def test_a_request_that_fails_is_a_value_with_its_reason(stand_in, mode, said):
    with stand_in.StandIn(mode=mode, rounds=100, step_s=0.05) as server:
        one = ask_streaming(served(server, timeout_s=1.0), "chat", ASK)
    assert said in one.error
    assert len(one.event_s) < 101  # whatever came, it was not waited for to its end


def outcome_of(count, rate=10.0, failed=0, late=0):
    from profiler.backends.live_load import LoadOutcome

    good = [
        Served(
            sent_s=i / rate,
            ended_s=i / rate + 1.0,
            event_s=(i / rate + 0.2, i / rate + 0.6, i / rate + 1.0),
            prompt_tokens=7,
            output_tokens=9,
        )
        for i in range(count)
    ]
    bad = [Served(sent_s=0.0, ended_s=0.1, error="503") for _ in range(failed)]
    return LoadOutcome(good + bad, count / rate, late, 10)


def seen(outcome, level):
    return level_observation(outcome, Driven(level, 0.8, True, "mine"), None, "http://x")


def test_what_the_client_saw_becomes_an_observation_in_seconds():
    one = seen(outcome_of(100), Level(rate_per_s=20.0))
    assert one.ttft_s.mean == pytest.approx(0.2)
    assert one.tpot_s.mean == pytest.approx(0.1)  # 0.8 s for eight tokens after the first
    assert one.step_s.mean == pytest.approx(0.4)
    assert one.e2e_s.p99 == pytest.approx(1.0)
    assert one.output_tokens_per_s == pytest.approx(90.0)
    assert one.load.mean_concurrency == pytest.approx(10.0)  # Little's law
    assert (one.load.temperature, one.load.thinking, one.load.dataset) == (0.8, True, "mine")
    assert one.usable_for("capacity")


@pytest.mark.parametrize(
    ("outcome", "level", "check"),
    [
        (outcome_of(100), Level(rate_per_s=10.0), "arrival_limited"),
        (outcome_of(100, late=20), Level(rate_per_s=20.0), "client_limited"),
        (outcome_of(40, failed=60), Level(rate_per_s=20.0), "failed_requests"),
        (outcome_of(5), Level(concurrency=4), "short_run"),
    ],
)
def test_a_throughput_that_says_nothing_of_the_server_is_not_used_for_capacity(
    outcome, level, check
):
    one = seen(outcome, level)
    assert check in {flag.check for flag in one.flags}
    assert not one.usable_for("capacity")


def test_a_percentile_needs_values_beyond_it():
    assert spread([1.0] * 99).p99 is None
    assert spread([1.0] * 100).p99 == 1.0
    assert spread([1.0] * 9).p90 is None
    assert spread([]) is None


def test_a_run_with_failures_is_not_held_against_the_servers_counters():
    assert run_totals(outcome_of(10)).output_tokens == 90
    assert run_totals(outcome_of(10, failed=1)).output_tokens is None


def test_rounds_that_the_server_does_not_list_are_found_by_chunks_or_tokens():
    from profiler.backends.live_traces import TraceSetting, traces

    # As seen of vLLM: ten tokens in five chunks, two rounds of three accepted drafts listed.
    told = {"per_step_drafted": [3, 3], "per_step_accepted": [3, 3], "num_spec_tokens": 3}
    one = Served(0.0, 1.0, "t", (0.1, 0.2, 0.3, 0.4, 0.5), 43, 10, speculation=told)
    merged = Served(0.0, 1.0, "t", (0.1, 0.5), 43, 14, speculation=told)
    setting = TraceSetting(0.0, None, None, "hash", 0)
    (trace,) = traces([one, merged], setting)
    assert trace.arrays["offsets"].tolist() == [0, 4, 11]
    assert trace.arrays["drafted"].tolist() == [3, 3, 0, 0, 3, 3, 0, 0, 0, 0, 0]
    assert trace.cell.max_num_speculative_tokens == 3


def test_an_account_that_contradicts_itself_gives_no_trace():
    from profiler.backends.live_traces import TraceSetting, traces

    setting = TraceSetting(0.0, None, None, "hash", 0)
    for told in (
        {"per_step_drafted": [3], "per_step_accepted": [4]},
        {"per_step_drafted": [3, 3], "per_step_accepted": [1]},
        {"per_step_drafted": "3", "per_step_accepted": [1]},
        {"per_step_drafted": [300], "per_step_accepted": [1]},
        {},
    ):
        assert traces([Served(0.0, 1.0, "t", (0.1,), 4, 9, speculation=told)], setting) == []
