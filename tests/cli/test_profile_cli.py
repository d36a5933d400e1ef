"""``capplan profile`` as a process: output, exit codes, misuse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from capplan.cli.main import cli
from capplan.profiles.store import load_profile

ROOT = Path(__file__).parents[2]
FAKE = ("big", "--backend", "fake", "--method", "ngram", "--device", "cpu")
SMALL = ("--batch", "1", "--batch", "2", "--context", "64", "--max-tokens", "12")


def capplan(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "capplan", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def test_a_profile_is_written_and_summarised(tmp_path):
    path = tmp_path / "p.json"
    done = capplan("profile", *FAKE, *SMALL, "-o", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    profile = load_profile(path).profile
    assert profile.complete
    assert profile.request["batches"] == (1, 2)


def test_a_second_run_refuses_and_the_remedy_names_the_options(tmp_path):
    path = tmp_path / "p.json"
    assert capplan("profile", *FAKE, *SMALL, "-o", path).returncode == 0
    before = path.read_bytes()
    again = capplan("profile", *FAKE, *SMALL, "-o", path)
    assert again.returncode == 1
    assert "--resume" in again.stderr
    assert "--force" in again.stderr
    assert path.read_bytes() == before
    assert capplan("profile", *FAKE, *SMALL, "-o", path, "--resume").returncode == 0
    assert path.read_bytes() == before


def test_a_budget_that_ran_out_is_said_on_stderr(tmp_path):
    path = tmp_path / "p.json"
    done = capplan("profile", *FAKE, *SMALL, "-o", path, "--budget-minutes", "0.0001")
    assert done.returncode == 0, done.stderr
    assert "--resume" in done.stderr
    assert not load_profile(path).profile.complete


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "TARGET or --demo"),
        (("big", "--demo"), "TARGET or --demo"),
        (("big", "--draft", "d", "--method", "ngram"), "exclude each other"),
        (("big", "--budget-minutes", "-1"), "not in the range"),
        (("big", "--budget-minutes", "0"), "not in the range"),
        (("big", "--budget-minutes", "nan"), "finite"),
        (("big", "--budget-minutes", "inf"), "finite"),
        (("big", "--temperature", "nan"), "finite"),
        (("big", "--temperature", "-0.1"), "not in the range"),
        (("big", "--device", "tpu"), "none of auto, cpu, cuda"),
        (("big", "--prompt-lookup-max", "3"), "need --method ngram"),
        (
            ("big", "--method", "ngram", "--prompt-lookup-min", "5", "--prompt-lookup-max", "3"),
            "exceeds",
        ),
        (("big", "--batch", "0"), "not in the range"),
        (("big", "--method", "eagle"), "--draft"),
        (("big", "--method", "mtp", "--draft", "d"), "exclude each other"),
        (("big", "--method", "eagle3", "--draft", "d"), "--backend vllm"),
        (("big", "--length", "17"), "not in the range"),
        (("big", "--tensor-parallel", "2"), "need --backend vllm"),
        (("big", "--rejection", "synthetic"), "need --backend vllm"),
        (("big", "--gpu-memory-utilization", "1.5"), "not in the range"),
    ],
)
def test_misuse_is_exit_code_2_with_one_reason(arguments, message):
    result = CliRunner().invoke(cli, ["profile", *arguments])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "holds no prompts"), (b"caf\xe9", "not UTF-8")]
)
def test_bad_prompts_are_found_before_anything_is_loaded(tmp_path, content, message):
    prompts = tmp_path / "prompts.txt"
    prompts.write_bytes(content)
    path = tmp_path / "p.json"
    done = capplan("profile", *FAKE, "--prompts", prompts, "-o", path)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not path.exists()


def test_an_unknown_backend_is_explained(tmp_path):
    done = capplan("profile", "big", "--backend", "jax", "-o", tmp_path / "p.json")
    assert done.returncode == 1
    assert "torch" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_truncated_profile_is_not_resumed_and_not_lost(tmp_path):
    path = tmp_path / "p.json"
    capplan("profile", *FAKE, *SMALL, "-o", path)
    half = path.read_text()[:500]
    path.write_text(half)
    done = capplan("profile", *FAKE, *SMALL, "-o", path, "--resume")
    assert done.returncode == 1
    assert "truncated" in done.stderr
    assert path.read_text() == half


def test_help_shows_examples_and_every_option_a_text():
    result = CliRunner().invoke(cli, ["profile", "--help"])
    assert "Examples:" in result.output
    assert "capplan profile --demo" in result.output
    assert "fake" not in result.output


def test_progress_is_plain_lines_when_stderr_is_no_terminal(tmp_path):
    done = capplan("profile", *FAKE, *SMALL, "-o", tmp_path / "p.json")
    assert "\x1b" not in done.stderr
    assert "loading" in done.stderr
