"""A real cluster of two working nodes: one is killed in the middle, one never comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import capplan
from capplan.api.batch import run_batch
from capplan.errors import ExecutorError
from capplan.jobs.job import BatchResult, Ending, Job, JobResult, State

MEASURE = {
    "target": "Qwen/Qwen3-8B",
    "rate": (4, 5, 6, 7),
    "max-requests": 160,
    "max-tokens": 8,
    "temperature": 0,
    "no-check-text": True,
}
"""Four levels of load, each written when it is over."""
PLAN = {"target": "qwen3-32b", "budget": "20k", "rate": 2, "gpu": "h100-sxm-80gb"}
SEEDS = {"one": 1, "two": 2}
WITHIN_S = 600.0


@pytest.fixture
def measure(stand_in: Any) -> Iterator[dict[str, Any]]:
    """Options of a profile that takes its time and no core: a load on a server of this test."""
    with stand_in.StandIn() as server:
        yield {**MEASURE, "server": server.url}


def ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        pid = int(stat.rpartition(")")[2].split()[1])


def node_that_runs(cluster: Any, word: bytes) -> Any:
    """Return the node whose daemon is above the job with a word on its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            said = file.read_bytes()
            if b"capplan.cli.batch_job" in said and word in said.split(b"\0"):
                above = set(ancestors(int(file.parent.name)))
                for node in cluster.workers:
                    if node.all_processes["raylet"][0].process.pid in above:
                        return node
    return None


class _KillsNode(threading.Thread):
    """Kills the node of the profile that wrote its first level, as a power cut would."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        super().__init__(daemon=True)
        self._cluster, self._folder = cluster, folder
        self.victim = ""
        self.begun: Any = None

    def run(self) -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline_s and self.begun is None:
            time.sleep(0.1)
            for file in self._folder.glob("*/profile.json"):
                self._kill(file)
                return

    def _kill(self, file: Path) -> None:
        self.victim = file.parent.name.partition("-")[0]
        node = node_that_runs(self._cluster, b"--seed=" + str(SEEDS[self.victim]).encode())
        if node is not None:
            self.begun = capplan.load_profile(file).profile
            self._cluster.workers.remove(node)
            self._cluster.remove_node(node, allow_graceful=False)


def _run(cluster: Any, output: Path, *jobs: Job, **options: Any) -> BatchResult:
    return run_batch(jobs, output, "ray", address=cluster.address, **options)


def _by_name(result: BatchResult) -> dict[str, JobResult]:
    return {job.name: job for job in result.jobs}


def test_a_node_that_never_comes_is_a_time_out_that_says_what_there_is(
    cluster: Any, tmp_path: Path
) -> None:
    result = _by_name(
        _run(
            cluster,
            tmp_path / "out",
            Job(name="gpu", kind="profile", options={"target": "x"}, gpus=1),
            Job(name="h100", kind="profile", options={"target": "x"}, gpu_type="H100"),
            Job(name="plan", kind="recommend", options=PLAN),
            wait_minutes=0.1,
        )
    )
    assert result["plan"].state is State.DONE
    for name, asked in (("gpu", "1 GPU"), ("h100", "a GPU of type H100")):
        job = result[name]
        assert job.state is State.FAILED
        assert [attempt.ending for attempt in job.attempts] == [Ending.NEVER_PLACED]
        assert f"no node has 1 CPU, 1 GPU{', ' + asked if name == 'h100' else ''}" in job.reason
        assert "nodes with 2 CPUs and 0 GPUs" in job.reason
        assert "--wait-minutes" in job.remedy


def test_a_job_over_its_time_is_stopped_on_its_node(
    cluster: Any, measure: dict[str, Any], tmp_path: Path
) -> None:
    job = Job(name="slow", kind="profile", options=measure, timeout_minutes=0.02)
    (result,) = _run(cluster, tmp_path / "out", job, retries=0).jobs
    assert result.attempts[0].ending is Ending.TIMED_OUT
    assert "time limit of 0.02 min" in result.reason


def test_no_cluster_is_explained_at_once(tmp_path: Path) -> None:
    job = Job(name="plan", kind="recommend", options=PLAN)
    began_s = time.monotonic()
    with pytest.raises(ExecutorError, match="No Ray cluster answers") as caught:
        run_batch([job], tmp_path / "out", "ray", address="127.0.0.1:1")
    assert "ray start --head" in caught.value.remedy
    assert time.monotonic() - began_s < 60.0  # Ray by itself tries for a quarter of an hour


def test_a_node_killed_in_the_middle_loses_nothing(
    cluster: Any, measure: dict[str, Any], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    killer = _KillsNode(cluster, output)
    killer.start()
    profiles = [
        Job(name=name, kind="profile", options={**measure, "seed": seed})
        for name, seed in SEEDS.items()
    ]
    plan = Job(name="plan", kind="recommend", options=PLAN)
    result = _run(cluster, output, *profiles, plan)
    killer.join(WITHIN_S)
    assert killer.begun is not None, "no node was killed"
    assert [job.state for job in result.jobs] == [State.DONE] * 3
    victim = _by_name(result)[killer.victim]
    # Here a dying node may take the job along before its own silence is noticed.
    assert victim.attempts[0].ending in (Ending.LOST, Ending.KILLED)
    assert [a.ending for a in victim.attempts[1:]] == [Ending.ANSWERED]
    assert all(len(job.attempts) == 1 for job in result.jobs if job is not victim)
    levels = len(MEASURE["rate"])
    assert 0 < len(killer.begun.observations) < levels, "it was not killed in the middle"
    for job in result.jobs[:2]:
        profile = capplan.load_profile(output / str(job.result)).profile
        assert profile.complete
        assert len(profile.observations) == levels
        if job is victim:  # what was measured before is in it, value by value
            assert profile.id == killer.begun.id
            assert profile.observations[: len(killer.begun.observations)] == (
                killer.begun.observations
            )
