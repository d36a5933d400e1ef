"""``watch``, ``--observe`` and ``--server`` against a real vLLM, killed and started again."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capplan.api.watching import Watcher
from capplan.profiles.exposition import parse_exposition
from capplan.profiles.losslessness import Outcome, judge_losslessness
from capplan.profiles.metrics_import import observe_window
from capplan.profiles.server_http import get_metrics, parse_address
from capplan.profiles.store import StoredProfile, load_profile
from capplan.schema.verdict import Stability
from profiler.backends.live_check import CheckRun
from profiler.backends.live_http import Ask, Served, ServedLlm, ask_streaming

ROOT = Path(__file__).parents[2]
PROMPTS = [
    "Repeat after me, three times: the red fox jumps over the lazy dog.",
    "List the days of the week, then list them again.",
    "Write a Python function that adds two numbers.",
    "Tell me about the sea.",
]


def _live() -> Any:
    # Loaded by path, as the suite's other helpers are.
    spec = importlib.util.spec_from_file_location("live", Path(__file__).with_name("live.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["live"] = module
    spec.loader.exec_module(module)
    return module


live = _live()


@pytest.fixture(scope="module")
def server(target_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    running = live.LiveServer(target_folder, tmp_path_factory.mktemp("serve"), live.NGRAM)
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def served(server: Any) -> ServedLlm:
    return ServedLlm(parse_address(server.url), live.MODEL, None, 240.0)


def metrics(server: Any) -> str:
    return get_metrics(parse_address(server.url))


@pytest.fixture(scope="module")
def window(server: Any, served: ServedLlm) -> tuple[str, list[Served], str]:
    """Metrics, eight streamed requests two at a time, metrics."""
    before, done = metrics(server), []
    asks = [Ask(text, 0.0, 64, seed=0) for text in PROMPTS * 2]
    threads = [
        threading.Thread(
            target=lambda part: done.extend(ask_streaming(served, "chat", ask) for ask in part),
            args=(asks[start::2],),
        )
        for start in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(1.0)
    return before, done, metrics(server)


def test_our_parser_reads_what_the_client_of_prometheus_reads(server: Any) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    text = metrics(server)
    theirs = {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    ours = parse_exposition(text)
    assert {(s.name, s.labels): s.value for s in ours.samples} == theirs
    assert not ours.notes


def test_counters_of_a_window_are_those_of_its_requests(
    window: tuple[str, list[Served], str],
) -> None:
    before, done, after = window
    seen = observe_window(before, after, "live")
    assert not any(one.error for one in done)
    assert seen.output_tokens == sum(one.output_tokens or 0 for one in done)
    assert seen.prompt_tokens == sum(one.prompt_tokens or 0 for one in done)
    assert seen.completed == len(done)
    assert seen.model == live.MODEL
    counts = seen.speculation
    assert counts is not None
    told = [one.speculation or {} for one in done]
    assert counts.accepted == sum(one["num_accepted_draft_tokens"] for one in told)
    assert counts.drafted == sum(one["num_draft_tokens"] for one in told)


def test_tokens_a_round_count_rounds_without_a_draft(
    window: tuple[str, list[Served], str],
) -> None:
    before, done, after = window
    counts = observe_window(before, after, "live").speculation
    assert counts is not None
    assert counts.rounds is not None
    assert counts.rounds > counts.drafts  # lookup does not find a draft for every round
    decoded = sum((one.output_tokens or 0) - 1 for one in done)
    assert counts.tokens_per_round == pytest.approx(decoded / counts.rounds, rel=0.05)
    assert (counts.tokens_per_draft_round or 0) > (counts.tokens_per_round or 0)


def test_a_chunk_is_a_round_and_a_token_is_less(window: tuple[str, list[Served], str]) -> None:
    _, done, _ = window
    chunks = sum(len(one.event_s) for one in done)
    tokens = sum(one.output_tokens or 0 for one in done)
    assert chunks < tokens
    for one in done:
        assert one.tpot_s is not None
        assert one.tpot_s <= max(one.step_gaps_s)


def test_text_at_temperature_0_is_the_targets_own_and_above_it_this_build_damages_it(
    served: ServedLlm,
) -> None:
    from profiler.prompts import embedded_prompts

    by_task = embedded_prompts().by_task.values()
    texts = [prompt.text for row in zip(*by_task, strict=True) for prompt in row]
    checked = CheckRun(served, 49152, endpoint="chat", requests=24, tokens=32).run(
        texts, (0.8,), 3
    )
    assert not checked.skipped
    cold, warm = checked.cells
    assert judge_losslessness([cold], "bfloat16").outcome is Outcome.PASS
    judged = judge_losslessness([warm], "bfloat16")
    assert judged.outcome is Outcome.FAIL
    assert checked.reports.stability is Stability.STABLE  # wrong tokens, faithfully reported


def run(*words: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "capplan", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def profiled(server: Any, target: Path, file: Path, *words: str) -> StoredProfile:
    done = run("profile", str(target), "--server", server.url, "-o", str(file), *words)
    assert done.returncode == 0, done.stderr
    return load_profile(file)


def test_profile_server_drives_the_engine_and_writes_what_both_sides_saw(
    server: Any, target_folder: Path, tmp_path: Path
) -> None:
    words = ["--concurrency", "4", "--max-requests", "16", "--max-tokens", "32"]
    words += ["--no-check-text", "--method", "ngram"]
    stored = profiled(server, target_folder, tmp_path / "p.json", *words)
    (seen,) = stored.profile.observations
    assert stored.profile.complete
    assert seen.completed == 16
    assert "traffic_outside_run" not in {flag.check for flag in seen.flags}
    assert seen.speculation is not None
    assert seen.engine_version.startswith("0.32")
    assert stored.profile.engine_memory[0].kv_capacity_tokens > 1000
    rounds = sum(len(a) for key, a in stored.arrays.items() if key.endswith("/drafted"))
    assert rounds > 0


def test_watch_and_observe_live_through_a_kill_and_a_new_start(
    server: Any, target_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "observed.json"
    words = ["profile", str(target_folder), "--server", server.url, "--observe", "10"]
    words += ["--interval", "1", "-o", str(file)]
    watcher = Watcher(parse_address(server.url), window_s=5.0)
    polls: list[Any] = []
    with live.Traffic(server):
        observing = subprocess.Popen(
            [sys.executable, "-m", "capplan", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        watched(watcher, file.exists, polls)  # the observer has looked once
        before = len(polls_up(polls))
        watched(watcher, lambda: len(polls_up(polls)) >= before + 5, polls)
        server.kill()
        watched(watcher, lambda: polls[-1].state == "gone", polls)
        server.start()
        before = len(polls_up(polls))
        watched(watcher, lambda: len(polls_up(polls)) >= before + 5, polls)
    observing.send_signal(signal.SIGINT)
    _, err = observing.communicate(timeout=60)
    assert "Traceback" not in err
    assert {"up", "gone", "restarted"} <= {poll.state for poll in polls}
    for poll in polls:
        for figures in poll.figures:
            assert (figures.output_tokens_per_s or 0) >= 0
            assert 0 <= (figures.acceptance_rate or 0) <= 1
    profile = json.loads(file.read_text())
    assert any("restart" in skipped["reason"] for skipped in profile["skipped"])
    assert len(profile["observations"]) >= 2
    assert all((seen.get("output_tokens") or 0) >= 0 for seen in profile["observations"])


def polls_up(polls: list[Any]) -> list[Any]:
    return [poll for poll in polls if poll.state == "up"]


def watched(watcher: Watcher, is_enough: Any, polls: list[Any]) -> None:
    """Poll until enough was seen, at most three minutes."""
    end_s = time.monotonic() + 180
    while True:
        polls.append(watcher.poll())
        if is_enough():
            return
        assert time.monotonic() < end_s, [poll.state for poll in polls]
        time.sleep(1.0)
