"""An engine's process that hangs, dies, floods or answers nonsense, and a GPU that is lost."""

from __future__ import annotations

import io
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capplan.errors import EngineError
from capplan.profiles.store import load_profile
from capplan.schema.verdict import Stability
from profiler.backends.fake_engine import FakeEngine, FakeEngineFactory
from profiler.backends.vllm_process import WorkerProcess
from profiler.backends.vllm_running import Patience, VllmEngine
from profiler.engine import Configuration, Load, RunningEngine
from profiler.experiment import Wishes

NEVER, ALWAYS = 10**9, 10**9
SOON = Patience(start_s=30.0, request_s=3.0, per_token_s=0.0, per_scored_token_s=0.0, idle_s=1.5)
CALM = Patience(start_s=30.0, request_s=30.0, idle_s=30.0)
"""For whole runs: a busy machine lets a worker wait for seconds."""
BOUND_S = 60.0
SMALL = Wishes(batches=(1, 2), contexts=(64,), lengths=(1, 3), max_tokens=12, requests_per_task=2)
PROMPT = "Tell me about the secret garden behind the old library"


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def wait_until_gone(pids: list[int]) -> list[int]:
    """Return those that still run after a while."""
    end_s = time.monotonic() + 20.0
    while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < end_s:
        time.sleep(0.05)
    return left


@dataclass
class PlantedFactory(FakeEngineFactory):
    """Starts real processes that meet a fault."""

    script: Path = Path()
    folder: Path = Path()
    fault: str = "hang"
    first: int = NEVER
    last: int = NEVER
    patience: Patience = SOON
    pids: list[int] = field(default_factory=list)

    def start(self, configuration: Configuration) -> RunningEngine:
        command = [sys.executable, str(self.script), self.fault]
        command += [str(self.first), str(self.last), str(self.folder)]
        process = WorkerProcess(os.environ, "planted", command)
        self.pids.append(process.pid)
        self.started.append(configuration)
        arguments = {"length": configuration.num_speculative_tokens}
        try:
            process.ask({"op": "start", "arguments": arguments}, self.patience.start_s)
        except BaseException:
            process.close()
            raise
        return VllmEngine(process, FakeEngine(self, configuration).facts, self.patience)

    def left(self) -> list[int]:
        """Return the processes that outlived their engines, children included."""
        children = self.folder / "children"
        more = children.read_text(encoding="ascii").split() if children.exists() else []
        return wait_until_gone([*self.pids, *map(int, more)])


@pytest.fixture
def planted(tmp_path: Path, planted_worker: Any) -> Any:
    def make(fault: str = "hang", first: int = NEVER, last: int = NEVER, **more: Any) -> Any:
        folder = tmp_path / "worker"
        folder.mkdir(exist_ok=True)
        (folder / "asked").unlink(missing_ok=True)
        script = Path(planted_worker.__file__)
        return PlantedFactory(
            script=script, folder=folder, fault=fault, first=first, last=last, **more
        )

    return make


def cells(profile: Any) -> int:
    return len(profile.timing) + len(profile.rounds) + len(profile.losslessness)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("hang", "said nothing for"),
        ("hang_with_a_child", "said nothing for"),
        ("only_live", "said nothing for"),
        ("die", "exit code 3"),
        ("die_with_a_child", "exit code 4"),
        ("be_killed", "SIGKILL; Linux does so where memory runs out"),
        ("print_garbage", "no answer"),
        ("answer_nothing", "cannot be read"),
        ("answer_other_types", "cannot be read"),
        ("answer_steps_that_are_none", "cannot be read"),
        ("answer_a_list", "no answer"),
        ("flood_a_line", "without an end"),
        ("flood_lines", "no answer"),
        ("lose_the_gpu", "unspecified launch failure"),
    ],
)
def test_a_fault_ends_in_time_with_a_reason_and_nothing_left(
    planted: Any, monkeypatch: pytest.MonkeyPatch, fault: str, said: str
) -> None:
    from profiler.backends import worker_pipes

    monkeypatch.setattr(worker_pipes, "MAX_ANSWER_BYTES", 2**20)
    factory = planted(fault, 2, ALWAYS)
    factory.prepare(_request())
    engine = factory.start(Configuration())
    began_s = time.monotonic()
    with pytest.raises(EngineError, match=said) as caught:
        engine.serve(Load([(1, 2, 3)], 1, 4))
    engine.close()
    assert time.monotonic() - began_s < BOUND_S
    assert caught.value.remedy
    assert caught.value.message.isprintable()
    assert factory.left() == []


def test_an_engine_that_is_never_ready_is_given_up(planted: Any) -> None:
    factory = planted("hang_with_a_child", 1, ALWAYS, patience=Patience(start_s=3.0))
    factory.prepare(_request())
    with pytest.raises(EngineError, match="said nothing for 3 s"):
        factory.start(Configuration())
    assert factory.left() == []


def test_a_flood_of_log_is_read_on_and_its_ends_are_kept(planted: Any) -> None:
    factory = planted("flood_the_log", 2, ALWAYS)
    factory.prepare(_request())
    engine = factory.start(Configuration())
    served = engine.serve(Load([(1, 2, 3)], 1, 4))
    kept = len(engine.process.log_text())
    engine.close()
    assert len(served.requests) == 1
    assert kept < 3 * 2**20
    assert factory.left() == []


def test_a_long_question_to_an_engine_that_does_not_read_is_not_waited_for(planted: Any) -> None:
    factory = planted("hang", 2, ALWAYS)
    factory.prepare(_request())
    engine = factory.start(Configuration())
    began_s = time.monotonic()
    with pytest.raises(EngineError, match="said nothing"):
        engine.serve(Load([tuple(range(1000)) for _ in range(200)], 1, 4))
    engine.close()
    assert time.monotonic() - began_s < BOUND_S
    assert factory.left() == []


def test_an_error_that_repeats_a_prompt_is_not_quoted(planted: Any) -> None:
    factory = planted("refuse_with_the_prompt", 2, ALWAYS)
    factory.prepare(_request())
    engine = factory.start(Configuration())
    with pytest.raises(EngineError, match="repeat the prompt") as caught:
        engine.encode([PROMPT])
    engine.close()
    assert "garden" not in str(caught.value)


def test_a_run_over_real_processes_is_whole(planted: Any, session: Any) -> None:
    factory = planted(patience=CALM)
    profile = session(factory).profile
    assert profile.complete
    assert {c.num_speculative_tokens for c in profile.rounds} == {1, 3}
    assert factory.left() == []


@pytest.mark.parametrize("fault", ["die", "print_garbage"])
def test_one_fault_costs_one_point(planted: Any, session: Any, fault: str) -> None:
    factory = planted(fault, 12, 12, patience=CALM)
    profile = session(factory).profile
    assert profile.complete
    assert len(profile.skipped) == 1
    assert profile.skipped[0].reason.startswith("EngineError: The engine")
    assert factory.left() == []


def test_an_engine_that_fails_for_good_ends_the_run_and_resume_finishes_it(
    planted: Any, session: Any, tmp_path: Path
) -> None:
    factory = planted("be_killed", 24, ALWAYS, patience=CALM)
    with pytest.raises(EngineError, match="times in a row") as caught:
        session(factory)
    assert caught.value.exit_code == 1
    assert "--resume" in caught.value.remedy
    kept = load_profile(tmp_path / "p.json").profile
    assert not kept.complete
    assert cells(kept) > 0
    assert kept.verdict.stability is Stability.NOISY
    assert {r.check for r in kept.verdict.reasons} >= {"engine_fails"}
    assert any("SIGKILL" in skipped.reason for skipped in kept.skipped)
    assert any("in a row" in skipped.reason for skipped in kept.skipped)
    assert factory.left() == []
    again = session(planted(patience=CALM), resume=True).profile
    assert again.complete
    assert again.skipped == ()
    assert again.verdict.stability is Stability.STABLE
    assert set(kept.timing) <= set(again.timing)


def test_a_worker_says_that_it_lives_between_steps_and_never_within_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The real worker's loop around an engine of a few lines; vLLM itself is not needed here."""
    from profiler.backends import vllm_worker

    written: list[str] = []

    class Steps:
        left = 3

        def admit(self, _: Any) -> bool:
            return self.left > 0

        @property
        def engine(self) -> Steps:
            return self

        def step(self) -> list[Any]:
            written.append("step")
            self.left -= 1
            return []

        def take(self, _: Any) -> dict[str, Any]:
            return {"starting": 0, "decoding": 1, "running": 1}

        def finished(self) -> list[Any]:
            return []

    monkeypatch.setattr(vllm_worker, "ALIVE_S", -1.0)
    monkeypatch.setattr(vllm_worker, "_Serving", lambda *_: Steps())
    worker = vllm_worker.Worker(io.StringIO())
    worker._llm = SimpleNamespace(llm_engine=None)
    monkeypatch.setattr(worker, "_write", lambda line: written.append(next(iter(line))))
    answer = worker.serve([[1]], 1, {}, None)
    assert written == ["alive", "step"] * 3
    assert len(answer["steps"]) == 3


def _request() -> Any:
    from profiler.engine import EngineRequest

    return EngineRequest(target="big")
