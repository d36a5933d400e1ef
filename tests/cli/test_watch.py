"""``capplan watch`` and ``capplan profile --server`` as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from capplan.api.watching import Watcher
from capplan.cli.main import cli
from capplan.profiles.server_http import parse_address
from capplan.schema.watching import Expected

ROOT = Path(__file__).parents[2]


def command(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "capplan", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


class Clock:
    """Seconds that pass when a test says so."""

    now_s = 0.0

    def __call__(self):
        self.now_s += 5.0
        return self.now_s


def watcher(server, **more):
    return Watcher(parse_address(server.url), clock=Clock(), **more)


def serve(server, count):
    for _ in range(count):
        server.serve_one()


def test_the_second_poll_shows_the_difference_to_the_first(stand_in):
    with stand_in.StandIn() as server:
        serve(server, 100)
        watch = watcher(server)
        assert watch.poll().state == "starting"
        serve(server, 50)
        (figures,) = watch.poll().figures
    assert figures.acceptance_rate == pytest.approx(1 / 3)
    assert figures.tokens_per_round == 2.0
    assert figures.drafts == 250
    assert figures.output_tokens_per_s == 50 * 11 / 5
    assert figures.step_s == pytest.approx(0.002)
    assert figures.time_per_token_s == pytest.approx(0.001)
    assert (figures.running, figures.kv_usage) == (1, 0.5)


def test_a_server_that_goes_and_comes_back_is_lived_through(stand_in):
    with stand_in.StandIn() as server:
        watch = watcher(server)
        watch.poll()
        server.mode = "error"
        gone = watch.poll()
        server.mode = "good"
        serve(server, 5)
        back = watch.poll()
    assert (gone.state, back.state) == ("gone", "up")
    assert "500" in gone.message


def test_a_restart_is_said_and_never_shown_as_a_negative_rate(stand_in):
    with stand_in.StandIn() as server:
        serve(server, 100)
        watch = watcher(server)
        watch.poll()
        serve(server, 50)
        watch.poll()
        server.restart()
        serve(server, 1)
        restarted = watch.poll()
        serve(server, 50)
        (figures,) = watch.poll().figures
    assert restarted.state == "restarted"
    assert restarted.figures == ()
    assert "fell" in restarted.message
    assert figures.drafts == 250


def test_a_server_without_traffic_is_idle_and_raises_no_alarm(stand_in):
    with stand_in.StandIn() as server:
        watch = watcher(server)
        watch.poll()
        seen = watch.poll()
    assert seen.state == "idle"
    assert seen.notices == ()


def test_a_server_that_counts_requests_alone_is_not_idle_while_it_answers():
    texts = [f'trtllm_request_success_total{{model_name="m"}} {count}' for count in (3, 20)]
    watch = Watcher(
        parse_address("http://localhost:8000"), clock=Clock(), fetch=lambda _: texts.pop(0)
    )
    watch.poll()
    seen = watch.poll()
    assert seen.state == "up"
    assert seen.figures[0].requests_per_s == 17 / 5


def test_acceptance_below_sixty_per_cent_is_an_alarm_that_names_the_length(stand_in):
    with stand_in.StandIn() as server:
        watch = watcher(server)
        watch.poll()
        serve(server, 50)
        notices = watch.poll().notices
    (alarm,) = [notice for notice in notices if notice.check == "low_acceptance"]
    assert alarm.level == "alarm"
    assert "N = 3" in alarm.text


def test_speedup_is_the_expected_plain_step_over_the_time_a_token_took(stand_in):
    def expect(figures):
        return Expected(source="made up", baseline_step_s=0.0008, round_ratio=2.5, speedup=1.2)

    with stand_in.StandIn() as server:
        watch = watcher(server, expect=expect)
        watch.poll()
        serve(server, 50)
        seen = watch.poll()
    assert seen.figures[0].actual_speedup == pytest.approx(0.8)
    alarms = {notice.check for notice in seen.notices if notice.level == "alarm"}
    assert {"slower_than_plain", "below_break_even"} <= alarms


def test_a_server_that_is_not_there_is_an_answer_with_once_and_an_exit_code():
    result = CliRunner().invoke(cli, ["watch", "http://127.0.0.1:9", "--once", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.output)["state"] == "gone"


def test_once_waits_for_one_window_and_prints_it(stand_in):
    with stand_in.StandIn() as server:
        server.hooks["GET", 2] = server.serve_one
        result = CliRunner().invoke(cli, ["watch", server.url, "--once", "--interval", "0.2"])
    assert result.exit_code == 0
    assert "tokens/round 2.00" in result.output
    assert "\x1b" not in result.output


def test_json_prints_a_line_a_poll_and_ctrl_c_ends_it_in_good_order(stand_in):
    with stand_in.StandIn() as server:
        running = command("watch", server.url, "--json", "--interval", "0.2")
        lines = []
        for _ in range(3):
            server.serve_one()
            lines.append(json.loads(running.stdout.readline()))
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
    assert running.returncode == 0
    assert "Traceback" not in err
    assert [line["state"] for line in lines] == ["starting", "up", "up"]
    assert all(line["schema_version"] == 1 for line in lines)


def test_profile_server_writes_a_profile_and_says_what_it_shows(stand_in, tmp_path):
    file = tmp_path / "p.json"
    words = ["profile", "--server", "--concurrency", "2", "--max-requests", "8"]
    with stand_in.StandIn() as server:
        words[2:2] = [server.url]
        result = CliRunner().invoke(cli, [*words, "--gpu", "l40s-48gb", "-o", str(file)])
    assert result.exit_code == 0, result.output
    profile = json.loads(file.read_text())
    assert profile["backend"]["name"] == "server"
    assert profile["target"]["spec"]["id"] == "Qwen/Qwen3-8B"
    assert profile["observations"][0]["completed"] == 8
    assert profile["environment"]["device"]["kind"] == "cuda"


def test_a_model_of_unknown_name_is_refused_with_the_remedy(stand_in, tmp_path):
    with stand_in.StandIn(model="my-finetune") as server:
        words = ["profile", "--server", server.url, "-o", str(tmp_path / "p.json")]
        result = CliRunner().invoke(cli, words)
    assert result.exit_code == 1
    assert "my-finetune" in str(result.exception)
    assert "capplan profile TARGET --server" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--observe", "5", "Qwen/Qwen3-8B"], "--observe need --server URL"),
        (["--server", "http://x", "--demo"], "--demo cannot be chosen"),
        (["--server", "http://x", "--batch", "4"], "--batch cannot be chosen"),
    ],
)
def test_options_that_do_not_belong_together_are_misuse(words, said):
    result = CliRunner().invoke(cli, ["profile", *words])
    assert result.exit_code == 2
    assert said in result.output


def test_observing_with_the_command_sends_nothing(stand_in, tmp_path):
    file = tmp_path / "p.json"
    with stand_in.StandIn() as server:
        began_s = time.monotonic()
        words = ["profile", "--server", server.url, "--observe", "0.05", "--interval", "0.5"]
        result = CliRunner().invoke(cli, [*words, "-o", str(file)])
        assert result.exit_code == 0, result.output
        assert not any(method == "POST" for method, _, _ in server.seen)
    assert time.monotonic() - began_s < 60
    assert json.loads(file.read_text())["complete"] is True
