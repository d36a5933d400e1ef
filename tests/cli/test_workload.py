"""``capplan workload`` and ``capplan recommend --workload`` from the user's side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from capplan.cli.main import cli

ROWS = 3000


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, standalone_mode=False)


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    """Write a synthetic trace of two days: one request a minute, failed every hundredth."""
    start = np.datetime64("2024-05-13T00:00:00")
    times = start + np.arange(ROWS) * np.timedelta64(60, "s")
    lines = [
        f"{str(time).replace('T', ' ')}+00:00,{200 + i % 100},{0 if i % 100 == 99 else 50}"
        for i, time in enumerate(times)
    ]
    path = tmp_path / "conv.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(lines) + "\n")
    return path


def test_a_trace_is_shown_with_what_was_left_out(azure: Path) -> None:
    done = _run("workload", str(azure))
    assert done.exception is None
    assert "Azure LLM inference" in done.stdout
    assert f"{ROWS:,}: {ROWS - 30:,} requests, 30 failed, 0 bad" in done.stdout
    assert "they are in no figure" in done.stdout
    assert "By hour of day" in done.stdout
    assert "█" in done.stdout


def test_a_trace_becomes_a_file_that_plans(azure: Path, tmp_path: Path) -> None:
    output = tmp_path / "conv.yaml"
    done = _run("workload", str(azure), "--rate", "2/s", "--temperature", "0.7", "-o", str(output))
    assert done.exception is None
    written = yaml.safe_load(output.read_text())
    assert written["requests_per_s"] == 2.0
    assert written["temperature"] == 0.7
    # at another rate the peak stays in proportion to the mean
    assert written["arrival"]["peak_requests_per_s"] == pytest.approx(2.0, rel=0.1)
    options = ("--target", "Qwen/Qwen3-8B", "--budget", "9000", "--gpu", "l40s")
    plan = _run("recommend", *options, "--workload", str(output), "--format", "json")
    assert plan.exception is None
    found = json.loads(plan.stdout)
    assert found["request"]["workload"]["requests_per_s"] == 2.0
    assert found["options"][0]["utilisation_at_peak"] >= found["options"][0]["utilisation"]


def test_json_holds_workload_figures_and_trace(azure: Path) -> None:
    report = json.loads(_run("workload", str(azure), "--format", "json").stdout)
    (service,) = report["services"]
    assert service["trace"]["failed"] == 30
    assert service["figures"]["mean_requests_per_s"] == pytest.approx(1 / 60, rel=0.02)
    assert service["workload"]["output_lengths"]["kind"] == "empirical"


def test_options_say_what_a_file_does_not(tmp_path: Path) -> None:
    path = tmp_path / "chat.yaml"
    path.write_text("requests_per_s: 6\n")
    options = ("--task-share", "code=3", "--task-share", "chat=1", "--peak-rate", "20")
    done = _run("workload", str(path), *options, "--cache-hit-rate", "0.5", "--format", "json")
    (service,) = json.loads(done.stdout)["services"]
    assert [part["task"] for part in service["workload"]["mix"]] == ["code", "chat"]
    assert service["figures"]["peak_requests_per_s"] == 20.0
    assert service["figures"]["computed_prompt_tokens_per_s"] == 6 * 1024 / 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--task-share", "code"), "expected a name and a share"),
        (("--temperature-share", "hot=1"), "as 0.7=0.5"),
        (("--peak-rate", "1/s"), "below the mean"),
        (("--task", "code", "--task-share", "chat=1"), "say the same"),
        (("--column", "when=x"), "timestamp, prompt, output"),
    ],
)
def test_options_that_make_no_sense_are_misuse(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "chat.yaml"
    path.write_text("requests_per_s: 6\n")
    done = _run("workload", str(path), *options)
    assert done.exception is not None
    assert said in str(done.exception.format_message())  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", [("--rate", "2"), ("--output-tokens", "9"), ("--task", "x")])
def test_a_workload_file_and_its_flags_are_not_both_heard(
    tmp_path: Path, option: tuple[str, str]
) -> None:
    path = tmp_path / "chat.yaml"
    path.write_text("requests_per_s: 6\n")
    options = ("--target", "Qwen/Qwen3-8B", "--budget", "9000", "--workload", str(path))
    done = _run("recommend", *options, *option)
    assert done.exception is not None
    assert f"{option[0]} and --workload" in str(done.exception)


def test_an_output_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "chat.yaml"
    path.write_text("requests_per_s: 6\n")
    done = _run("workload", str(path), "-o", str(tmp_path / "no" / "folder.yaml"))
    assert "Cannot write" in str(done.exception)
