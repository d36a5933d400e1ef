"""``capplan profile --demo --backend vllm`` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capplan.profiles.store import load_profile
from capplan.schema.cells import Phase
from capplan.schema.verdict import Stability

ROOT = Path(__file__).parents[2]
SMALL = ("--length", "2", "--batch", "1", "--batch", "4", "--context", "96")
TEXT = ("--num-requests", "4", "--max-tokens", "24")


def capplan(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "capplan", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    path = tmp_path_factory.mktemp("vllm") / "p.json"
    arguments = ("--demo", "--method", "ngram", "--backend", "vllm", *SMALL, *TEXT)
    return path, capplan("profile", *arguments, "-o", path)


def test_the_profile_holds_steps_rounds_traces_and_what_the_engine_took(damaged: Any) -> None:
    profile = load_profile(damaged[0]).profile
    assert profile.complete
    assert profile.backend.name == "vllm"
    assert {cell.phase for cell in profile.timing} == {Phase.PREFILL, Phase.DECODE, Phase.ROUND}
    assert {cell.batch for cell in profile.timing if cell.phase is Phase.ROUND} == {1, 4}
    assert len(profile.acceptance) == 12
    assert {cell.temperature for cell in profile.rounds} == {0.0, 0.8}
    assert all(memory.kv_capacity_tokens > 1000 for memory in profile.engine_memory)


def test_damaged_text_is_an_invalid_profile_and_exit_code_1(damaged: Any) -> None:
    path, done = damaged
    assert done.returncode == 1, done.stderr
    assert "Speculation changes what" in done.stderr
    assert "temperature 0.8" in done.stderr
    assert "invalid" in done.stdout
    assert "losslessness" in done.stdout
    assert load_profile(path).profile.verdict.stability is Stability.INVALID


def test_a_plan_from_damaged_text_is_refused(damaged: Any) -> None:
    done = capplan(
        *("recommend", "--profile", damaged[0], "--target", "SmolLM2-135M-Instruct-Q4_1"),
        *("--gpu-price", "profile=1", "--budget", "3000", "--rate", "6/min"),
        *("--prompt-tokens", "256", "--output-tokens", "128"),
    )
    assert done.returncode == 1, done.stdout
    assert "losslessness" in done.stderr
