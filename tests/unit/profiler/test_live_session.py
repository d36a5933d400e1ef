"""A session with a server that stands in for an engine: levels, windows, restarts, bounds."""

from __future__ import annotations

import json
import threading
import time

import pytest

from capplan.api.llms import load_llm
from capplan.errors import Interrupted, ProfileError, ServerError, UnknownIdError
from capplan.profiles.server_http import parse_address
from capplan.profiles.store import load_profile
from capplan.schema.verdict import Stability
from profiler.backends.live_windows import WindowRecorder
from profiler.server_session import ServerRequest, run_server_session


@pytest.fixture(scope="module")
def target():
    return load_llm("Qwen/Qwen3-8B")


@pytest.fixture
def session(target, tmp_path):
    def run(server, **changes):
        wanted = {
            "concurrencies": (1, 2),
            "max_requests": 16,
            "max_seconds": 20.0,
            "interval_s": 0.2,
            "check_text": False,
            "timeout_s": 5.0,
            **changes,
        }
        request = ServerRequest(
            address=parse_address(server.url),
            output=tmp_path / "profile.json",
            target=target,
            **wanted,
        )
        return run_server_session(request, on_progress=lambda _: None)

    return run


def test_each_level_is_a_window_with_the_servers_counters_and_the_clients_times(stand_in, session):
    with stand_in.StandIn() as server:
        stored = session(server)
        posts = sum(method == "POST" for method, _, _ in server.seen)
    levels = stored.profile.observations
    assert stored.profile.complete
    assert posts == 17  # the probe and sixteen requests, no more
    assert [seen.load.max_concurrency for seen in levels] == [1, 2]
    for seen in levels:
        assert seen.completed == 8
        assert seen.output_tokens == 88
        assert seen.speculation.drafts == 40
        assert seen.speculation.tokens_per_round == 2.0
        assert seen.engine_version == "0.33.0"
        assert "traffic_outside_run" not in {flag.check for flag in seen.flags}


def test_a_profile_with_the_rounds_of_each_request_holds_traces(stand_in, session):
    with stand_in.StandIn() as server:
        stored = session(server)
    cells = stored.profile.acceptance
    assert {cell.trace_kind for cell in cells} == {"per_round"}
    assert sum(cell.requests for cell in cells) == 16
    assert stored.arrays["acceptance/0/drafted"].tolist() == [3] * 5 * cells[0].requests
    assert stored.arrays["acceptance/0/offsets"][-1] == 5 * cells[0].requests


def test_conversations_without_a_question_are_left_out_and_said_so(stand_in, session, tmp_path):
    rows = [[{"from": "human", "value": "why?"}], [{"from": "gpt", "value": "because"}]]
    file = tmp_path / "shared.json"
    file.write_text(json.dumps([{"conversations": row} for row in rows]), encoding="utf-8")
    with stand_in.StandIn() as server:
        stored = session(server, prompts=file, concurrencies=(1,), max_requests=2)
    left_out = [one.reason for one in stored.profile.skipped if one.what == "prompts"]
    assert left_out == ["1 conversations of shared.json have no turn of a user"]


def test_the_kv_capacity_that_the_server_tells_is_recorded(stand_in, session):
    with stand_in.StandIn() as server:
        memory = session(server).profile.engine_memory
    assert [(m.kv_capacity_tokens, m.kv_block_tokens, m.max_model_len) for m in memory] == [
        (4096, 16, 1024)
    ]


def test_neither_key_nor_text_is_written(stand_in, session, tmp_path):
    with stand_in.StandIn() as server:
        session(server, api_key="sk-very-secret")
        assert ("POST", "/v1/chat/completions", "Bearer sk-very-secret") in server.seen
    written = (tmp_path / "profile.json").read_text()
    assert "very-secret" not in written
    assert "ab ab" not in written


def test_traffic_of_others_is_seen_in_the_counters(stand_in, session):
    with stand_in.StandIn() as server:
        stop = threading.Event()

        def others():
            while not stop.wait(0.005):
                server.serve_one()

        thread = threading.Thread(target=others)
        thread.start()
        stored = session(server)
        stop.set()
        thread.join()
    for seen in stored.profile.observations:
        assert "traffic_outside_run" in {flag.check for flag in seen.flags}


def test_a_server_that_restarts_within_a_level_gives_no_negative_counts(stand_in, session):
    with stand_in.StandIn(step_s=0.1) as server:
        server.hooks["POST", 6] = server.restart
        stored = session(server, concurrencies=(1,), max_requests=10)
    profile = stored.profile
    assert any("restart" in skipped.reason for skipped in profile.skipped)
    assert profile.verdict.stability is Stability.NOISY
    client = [seen for seen in profile.observations if seen.format == "capplan-load"]
    assert [seen.completed for seen in client] == [10]
    assert client[0].speculation is None
    for seen in profile.observations:
        assert (seen.output_tokens or 0) >= 0


def test_a_finished_run_is_not_repeated_and_another_request_not_mixed_in(stand_in, session):
    with stand_in.StandIn() as server:
        first = session(server)
        asked = len(server.seen)
        assert session(server, resume=True).profile == first.profile
        assert len(server.seen) == asked
        with pytest.raises(ProfileError, match="already holds"):
            session(server)
        with pytest.raises(ProfileError, match="seed"):
            session(server, resume=True, seed=1)


def test_a_run_goes_on_after_the_level_it_was_stopped_in(stand_in, session, monkeypatch):
    from profiler import server_load

    calls = []

    def stopping(*given, **more):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return drive(*given, **more)

    drive = server_load.drive
    with stand_in.StandIn() as server:
        monkeypatch.setattr(server_load, "drive", stopping)
        with pytest.raises(Interrupted):
            session(server)
        monkeypatch.setattr(server_load, "drive", drive)
        stored = session(server, resume=True)
    assert stored.profile.complete
    assert [seen.load.max_concurrency for seen in stored.profile.observations] == [1, 2]


def test_requests_of_a_server_that_refuses_are_not_sent_for_ever(stand_in, session):
    with stand_in.StandIn() as server:
        server.hooks["POST", 6] = server.set_mode("refuses")
        stored = session(server, concurrencies=(1,), max_requests=5000, max_seconds=30.0)
    seen = stored.profile.observations[0]
    assert not stored.profile.complete
    assert {"failed_requests", "server_lost"} <= {flag.check for flag in seen.flags}
    assert seen.completed == 4
    assert seen.failed < 20


@pytest.mark.parametrize("mode", ["html", "garbage", "error", "gzip-bomb", "missing"])
def test_what_is_no_inference_server_is_refused_before_any_load(stand_in, session, mode):
    with stand_in.StandIn(mode=mode) as server:
        with pytest.raises(ServerError):
            session(server)
        assert not any(method == "POST" for method, _, _ in server.seen)


def test_another_model_than_the_one_served_is_refused_by_name(stand_in, session):
    with stand_in.StandIn() as server, pytest.raises(UnknownIdError, match="Qwen/Qwen3-8B"):
        session(server, served_model="other")


def test_text_that_cannot_be_scored_is_said_so_and_the_rest_stands(stand_in, session):
    with stand_in.StandIn() as server:
        stored = session(server, check_text=True)
    assert any("losslessness" in skipped.what for skipped in stored.profile.skipped)
    assert stored.profile.complete


def test_observing_sends_nothing_and_keeps_both_sides_of_a_restart(stand_in, session):
    with stand_in.StandIn() as server:
        stop = threading.Event()

        def traffic():
            while not stop.wait(0.02):
                server.serve_one()

        thread = threading.Thread(target=traffic)
        thread.start()
        server.hooks["GET", 9] = server.restart  # three of the facts, six looks
        stored = session(server, observe_minutes=2.6 / 60)
        stop.set()
        thread.join()
        assert not any(method == "POST" for method, _, _ in server.seen)
    profile = stored.profile
    assert len(profile.observations) >= 2
    assert all(seen.output_tokens > 0 for seen in profile.observations)
    assert all(seen.duration_s < 2.6 for seen in profile.observations)
    assert any("restart" in skipped.reason for skipped in profile.skipped)


def test_an_outage_while_observing_is_noted_and_lived_through(stand_in, session):
    with stand_in.StandIn() as server:
        server.hooks["GET", 6] = server.set_mode("error")
        server.hooks["GET", 9] = server.set_mode("good")
        server.serve_one()
        stored = session(server, observe_minutes=3.0 / 60)
    assert any("outage" in skipped.reason for skipped in stored.profile.skipped)
    assert stored.profile.complete


def test_every_window_is_on_disk_when_it_ends(stand_in, session, tmp_path):
    with stand_in.StandIn() as server:
        session(server)
    assert len(load_profile(tmp_path / "profile.json").profile.observations) == 2


def test_a_window_is_cut_before_and_after_a_restart_so_that_counts_add_up(stand_in):
    with stand_in.StandIn() as server:
        address = parse_address(server.url)
        from capplan.profiles.server_http import get_metrics

        recorder = WindowRecorder(lambda: get_metrics(address), "x", clock=time.monotonic)
        recorder.look()
        for _ in range(3):
            server.serve_one()
        recorder.look()
        server.restart()
        server.serve_one()
        recorder.look()
        server.serve_one()
        recorder.look()
        recorder.close()
    assert [seen.completed for seen in recorder.windows] == [3, 1]
    assert len(recorder.lost) == 1
