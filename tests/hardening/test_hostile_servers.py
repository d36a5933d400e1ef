"""Every way in which a server can go wrong, met by each of capplan's clients.

The clients run side by side, since most faults are about waiting; what came of each is asserted
fault by fault. Whatever happens is over in time, explained with a remedy, and takes nothing of
what was measured before.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from capplan.api.llms import load_llm
from capplan.api.watching import Watcher
from capplan.errors import CapplanError, ServerError
from capplan.profiles.server_http import get_metrics, parse_address
from capplan.profiles.store import StoredProfile, load_profile
from profiler.backends.live_facts import ask_facts
from profiler.server_session import ServerRequest, run_server_session

ANSWER_S = 2.5
"""Limit of one answer here; a real run has 10 s, and 120 s for a text."""
BOUND_S = 45.0
"""Far above the limit, far below what a client without one would wait: a busy machine is slow."""
LEVEL_REQUESTS = 6
TYPES = ("answers_null", "answers_a_list", "answers_other_types")
HARMLESS_TO_METRICS = ("says_too_short_a_length",)
FAULTS = (
    *("never_answers", "closes_at_once", "closes_in_its_head", "speaks_no_http"),
    *("speaks_garbage", "answers_garbage", "answers_text_that_is_no_utf8", "drips_its_head"),
    *("drips_its_body", "drips_to_the_close", "drips_chunks", "falls_silent"),
    *("closes_in_the_middle", "closes_in_a_chunk", "says_too_short_a_length"),
    *("says_a_negative_length", "says_no_chunk_size", "says_a_huge_chunk"),
    *("sends_a_huge_header", "sends_many_headers", "sends_headers_without_end"),
    *("says_continue_without_end", "sends_trailers_without_end", "answers_without_end"),
    *("sends_a_gzip_bomb", "sends_a_bomb_as_transfer", "answers_500", "answers_429"),
    *("asks_to_wait_for_ever", "points_to_another_host", "points_to_a_file"),
    *("points_to_nonsense", "points_to_itself", "answers_deep_json", *TYPES),
    "answers_numbers_that_are_none",
)
STREAMS = (
    *("stream_without_end", "stream_of_comments", "stream_of_one_line"),
    *("stream_that_falls_silent", "stream_that_drips", "stream_that_breaks_off"),
    *("stream_of_errors", "stream_that_is_no_utf8", "stream_of_deep_json"),
)
USAGES = ("negative", "huge", "no_number", "a_fraction", "not_a_number", "too_many")


@dataclass(frozen=True)
class Outcome:
    """What a client made of a fault."""

    seconds: float
    value: Any = None
    error: CapplanError | None = None
    stored: StoredProfile | None = None


def side_by_side(run: Any, faults: tuple[str, ...]) -> dict[str, Outcome]:
    with ThreadPoolExecutor(max_workers=24) as pool:
        return dict(zip(faults, pool.map(run, faults), strict=True))


def timed(action: Any) -> Outcome:
    began_s = time.monotonic()
    try:
        return Outcome(value=action(), seconds=time.monotonic() - began_s)
    except CapplanError as error:
        return Outcome(error=error, seconds=time.monotonic() - began_s)


def test_the_list_of_faults_is_whole(hostile: Any) -> None:
    listed = {*FAULTS, *STREAMS, *(f"usage_{name}" for name in USAGES)}
    elsewhere = {"stream_of_other_types", "usage_more_cached_than_asked"}
    elsewhere |= {"echoes_what_was_sent", "echoes_as_success", "points_away_with_the_key"}
    assert listed | elsewhere == set(hostile.FAULTS)


@pytest.fixture(scope="module")
def facts(hostile: Any) -> dict[str, Outcome]:
    def run(fault: str) -> Outcome:
        with hostile.Hostile(faults={"GET": (fault, 1)}) as server:
            address = parse_address(server.url)
            return timed(lambda: ask_facts(address, api_key="k", timeout_s=ANSWER_S))

    return side_by_side(run, FAULTS)


class TestFacts:
    """What ``profile --server`` and ``--observe`` ask first."""

    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_fault_is_over_in_time_and_explained(self, facts: Any, fault: str) -> None:
        outcome = facts[fault]
        assert outcome.seconds < BOUND_S
        assert isinstance(outcome.error, ServerError)
        assert outcome.error.remedy
        assert len(outcome.error.message) < 600
        assert outcome.error.message.replace("\n", "").isprintable()


@pytest.fixture(scope="module")
def watched(hostile: Any) -> dict[str, Outcome]:
    def run(fault: str) -> Outcome:
        with hostile.Hostile(faults={"GET": (fault, 3)}) as server:
            watcher = Watcher(
                parse_address(server.url),
                fetch=lambda address: get_metrics(address, timeout_s=ANSWER_S),
            )
            watcher.poll()
            server.serve_one()
            assert watcher.poll().state == "up"
            gone = timed(watcher.poll)
            server.faults.clear()
            server.serve_one()
            assert watcher.poll().state == "up"
            return gone

    return side_by_side(run, FAULTS)


class TestWatch:
    """``capplan watch``: good for two polls, then a fault."""

    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_fault_is_a_poll_that_says_why_and_the_next_one_is_good(
        self, watched: Any, fault: str
    ) -> None:
        outcome = watched[fault]
        assert outcome.error is None
        assert outcome.seconds < BOUND_S
        assert outcome.value.state == "gone"
        assert 20 < len(outcome.value.message) < 800


@pytest.fixture(scope="module")
def request_of(tmp_path_factory: pytest.TempPathFactory) -> Any:
    target = load_llm("Qwen/Qwen3-8B")
    folder = tmp_path_factory.mktemp("profiles")

    def make(server: Any, name: str, **more: Any) -> ServerRequest:
        wanted = {
            "concurrencies": (2, 3),
            "max_requests": 2 * LEVEL_REQUESTS,
            "max_seconds": 30.0,
            "max_tokens": 16,
            "interval_s": 5.0,
            "timeout_s": ANSWER_S,
            "idle_s": ANSWER_S / 2,
            "answer_timeout_s": ANSWER_S,
            "wait_for_server_s": 0.1,
            "check_text": False,
            **more,
        }
        return ServerRequest(
            address=parse_address(server.url),
            output=folder / f"{name}.json",
            target=target,
            **wanted,
        )

    return make


def run_session(request: ServerRequest) -> Outcome:
    outcome = timed(lambda: run_server_session(request, on_progress=lambda _: None))
    stored = load_profile(Path(request.output)) if Path(request.output).exists() else None
    return Outcome(outcome.seconds, outcome.value, outcome.error, stored)


@pytest.fixture(scope="module")
def loaded(hostile: Any, request_of: Any) -> dict[str, Outcome]:
    def run(fault: str) -> Outcome:
        first = 1 + LEVEL_REQUESTS + 1  # after the probe and the first level
        with hostile.Hostile(faults={"POST": (fault, first)}) as server:
            return run_session(request_of(server, f"load-{fault}"))

    return side_by_side(run, (*FAULTS, *STREAMS))


class TestLoad:
    """``profile --server``: the first level is good, the requests of the second meet a fault."""

    @pytest.mark.parametrize("fault", [*FAULTS, *STREAMS])
    def test_the_level_before_is_kept_and_the_failures_are_explained(
        self, loaded: Any, fault: str
    ) -> None:
        outcome = loaded[fault]
        assert outcome.error is None
        assert outcome.seconds < 2 * BOUND_S
        first, second = outcome.stored.profile.observations
        assert (first.completed, first.failed) == (LEVEL_REQUESTS, 0)
        assert first.speculation.tokens_per_round == 2.0
        assert (second.completed, second.failed) == (0, LEVEL_REQUESTS)
        (failed,) = [flag for flag in second.flags if flag.check == "failed_requests"]
        assert failed.text.isprintable()
        assert failed.remedy


@pytest.fixture(scope="module")
def used(hostile: Any, request_of: Any) -> dict[str, Outcome]:
    def run(name: str) -> Outcome:
        with hostile.Hostile(faults={"POST": (f"usage_{name}", 2)}) as server:
            return run_session(request_of(server, f"usage-{name}", concurrencies=(2,)))

    return side_by_side(run, USAGES)


class TestUsage:
    """Counts of tokens that cannot be: not taken, said so, and the rest stands."""

    @pytest.mark.parametrize("name", USAGES)
    def test_counts_that_cannot_be_are_not_taken(self, used: Any, name: str) -> None:
        (seen,) = used[name].stored.profile.observations
        assert seen.completed == 2 * LEVEL_REQUESTS
        assert seen.output_tokens is None
        assert seen.prompt_tokens in (None, 7.0 * seen.completed)
        checks = {flag.check for flag in seen.flags}
        assert checks & {"usage_contradicts", "tokens_unknown"}
        assert not seen.usable_for("capacity")


@pytest.fixture(scope="module")
def observed(hostile: Any, request_of: Any) -> dict[str, Outcome]:
    def run(fault: str) -> Outcome:
        with hostile.Hostile() as server:
            server.serve_one()
            server.hooks["GET", 6] = lambda: server.faults.update(GET=(fault, 6))
            server.hooks["GET", 8] = server.faults.clear
            for number in range(4, 60):
                server.hooks.setdefault(("GET", number), server.serve_one)
            wanted = {"observe_minutes": 3.0 / 60, "interval_s": 0.3}
            return run_session(request_of(server, f"observe-{fault}", **wanted))

    chosen = ("never_answers", "drips_its_body", "answers_500", "sends_a_gzip_bomb")
    return side_by_side(run, (*chosen, *TYPES, "closes_in_the_middle", "speaks_garbage"))


class TestObserve:
    """``profile --observe``: good for a while, then a fault, then good again."""

    def test_an_outage_is_noted_and_what_was_seen_before_is_kept(self, observed: Any) -> None:
        for fault, outcome in observed.items():
            assert outcome.error is None, fault
            assert outcome.seconds < 3.0 + BOUND_S, fault
            profile = outcome.stored.profile
            assert any("outage" in skipped.reason for skipped in profile.skipped), fault
            assert sum(seen.output_tokens or 0 for seen in profile.observations) > 0, fault


def test_a_stream_of_other_types_is_read_as_nothing_and_never_crashes(
    hostile: Any, request_of: Any
) -> None:
    with hostile.Hostile(faults={"POST": ("stream_of_other_types", 2)}) as server:
        outcome = run_session(request_of(server, "types", concurrencies=(2,)))
    (seen,) = outcome.stored.profile.observations
    assert seen.completed + seen.failed == 2 * LEVEL_REQUESTS
    assert outcome.error is None


def test_a_run_whose_server_was_lost_goes_on_with_the_level_that_failed(
    hostile: Any, request_of: Any
) -> None:
    first = 1 + LEVEL_REQUESTS + 1
    many = {"max_requests": 40}
    with hostile.Hostile(faults={"POST": ("closes_at_once", first)}) as server:
        lost = run_session(request_of(server, "resumed", **many))
        assert not lost.stored.profile.complete
        server.faults.clear()
        again = run_session(request_of(server, "resumed", resume=True, **many))
    assert again.error is None
    assert again.stored.profile.complete
    kept = lost.stored.profile.observations
    assert again.stored.profile.observations[: len(kept)] == kept
    last = again.stored.profile.observations[-1]
    assert (last.load.max_concurrency, last.completed, last.failed) == (3, 20, 0)


def test_a_lost_server_ends_the_command_with_an_error_and_a_kept_profile(
    hostile: Any, tmp_path: Path
) -> None:
    out = tmp_path / "p.json"
    words = ["profile", "Qwen/Qwen3-8B", "--concurrency", "2", "--max-requests", "40"]
    with hostile.Hostile(faults={"POST": ("closes_at_once", 8)}) as server:
        words += ["--server", server.url, "--no-check-text", "-o", str(out)]
        result = CliRunner().invoke(import_module("capplan.cli.main").cli, words)
    assert isinstance(result.exception, ServerError)
    assert result.exception.exit_code == 1
    assert "--resume" in result.exception.remedy
    assert "failed" in result.output
    (seen,) = load_profile(out).profile.observations
    assert seen.completed == 6
    assert not load_profile(out).profile.complete
