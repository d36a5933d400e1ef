"""``capplan batch`` as a process: profiles, then plans on them; summary, exit codes, going on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import capplan
from capplan.api.batch import run_batch
from capplan.errors import JobsFileError
from capplan.jobs.job import Job, State

ROOT = Path(__file__).parents[2]
JOBS = """
defaults:
  recommend: {budget: 20k, rate: 2, gpu: h100-sxm-80gb, target: qwen3-32b}
jobs:
  - name: later
    recommend:
      {target: big, profile: "job:measured", gpu-price: {profile: 0.1}, prompt-tokens: 256,
       output-tokens: 128}
  - name: too-little
    recommend: {budget: 10}
  - name: typo
    recommend: {target: qwen33-32bb}
  - name: measured
    profile:
      {target: big, backend: fake, method: ngram, device: cpu, batch: [1, 2], context: 64,
       max-tokens: 12}
"""


def batch(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "capplan", "batch", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


def test_profiles_and_plans_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(JOBS)
    done = batch(tmp_path, "jobs.yaml", "-o", "out", "--format", "json", "--gpus", "none")
    result = json.loads(done.stdout)
    jobs = {job["name"]: job for job in result["jobs"]}
    assert done.returncode == 1, done.stderr
    assert {name: job["state"] for name, job in jobs.items()} == {
        "later": "done",
        "too-little": "infeasible",
        "typo": "failed",
        "measured": "done",
    }
    assert "Did you mean Qwen/Qwen3-32B" in jobs["typo"]["remedy"]
    assert len(jobs["typo"]["attempts"]) == 1
    assert "[4/4]" in done.stderr
    profile = capplan.load_profile(tmp_path / "out" / jobs["measured"]["result"]).profile
    plan = capplan.load_plan(tmp_path / "out" / jobs["later"]["result"])
    assert plan.profiles == (profile.id,)
    assert json.loads((tmp_path / "out" / "batch.json").read_text()) == result

    (tmp_path / "jobs.yaml").write_text(JOBS.replace("qwen33-32bb", "qwen3-32b"))
    again = batch(tmp_path, "jobs.yaml", "-o", "out", "--gpus", "none")
    assert again.returncode == 3, again.stderr  # an answer, and nothing fits
    assert "3 done, 1 nothing fits (3 by an earlier run)" in again.stdout
    assert "typo: started" in again.stderr
    assert "measured: finished earlier" in again.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "code", "message"),
    [
        ("jobs: []", (), 1, "no list of jobs"),
        ("jobs: [{name: a, recommend: {budget: x}}]", (), 1, "job 'a'"),
        ("jobs: [{name: a, recommend: {budget: 1}}]", ("--address", "x"), 2, "--executor local"),
        ("jobs: [{name: a, recommend: {budget: 1}}]", ("--gpus", "97"), 1, "no GPU 97"),
    ],
)
def test_what_cannot_be_run_is_explained_before_anything_runs(
    tmp_path: Path, text: str, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "jobs.yaml").write_text(text)
    done = batch(tmp_path, "jobs.yaml", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_whose_profile_failed_says_so(tmp_path: Path) -> None:
    wrong = {"target": "x", "backend": "fake", "method": "ngram", "prompts": "p.jsonl"}
    (tmp_path / "p.jsonl").write_text("{")
    plan = {"budget": "20k", "rate": 2, "profile": "job:p"}
    jobs = [
        Job(name="p", kind="profile", options={**wrong, "prompts": str(tmp_path / "p.jsonl")}),
        Job(name="q", kind="recommend", options=plan),
    ]
    result = run_batch(jobs, tmp_path / "out", gpus="none")
    assert [job.state for job in result.jobs] == [State.FAILED] * 2
    assert "p.jsonl" in result.jobs[0].reason
    assert result.jobs[1].reason == "it needs the profile of p, which failed"
    assert result.exit_code == 1


def test_a_file_that_is_missing_stops_the_batch_before_it_begins(tmp_path: Path) -> None:
    jobs = [Job(name="q", kind="recommend", options={"profile": "none.json"})]
    with pytest.raises(JobsFileError, match=r"none\.json"):
        run_batch(jobs, tmp_path / "out")
    assert not (tmp_path / "out").exists()
