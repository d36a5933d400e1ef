"""Jobs on this machine: killed, hanging, failing, interrupted; nothing is lost or left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from capplan.errors import ExecutorError, Interrupted
from capplan.jobs.gpus import VisibleGpu
from capplan.jobs.job import Ending, Job, State
from capplan.jobs.local import LocalExecutor
from capplan.jobs.store import BatchStore

WITHIN_S = 30.0
ANSWERS = 'Path("plan.json").write_text("{}")\nanswer(answer="all is well")\n'
WAITS = """
    with Path("pids").open("a") as pids:
        pids.write(f"{os.getpid()}\\n")
    time.sleep(300)
"""


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(condition) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def pids_in(folder: Path, count: int = 1) -> list[int]:
    file = folder / "pids"
    wait_for(lambda: file.is_file() and len(file.read_text().split("\n")) > count)
    return [int(line) for line in file.read_text().split()]


def test_a_job_that_answers_is_done_and_not_run_again(runs, command, plan) -> None:
    command('Path("../count").open("a").write("x")\n' + ANSWERS)
    first = runs.run(plan())["a"]
    assert (first.state, first.answer, first.reused) == (State.DONE, "all is well", False)
    assert (runs.folder / first.result).read_text() == "{}"
    again = runs.run(plan())["a"]
    assert again.reused
    assert (runs.folder / "count").read_text() == "x"
    assert runs.run(plan(), afresh=True)["a"].reused is False
    assert (runs.folder / "count").read_text() == "xx"


def test_only_what_is_missing_is_run(runs, command, plan) -> None:
    command('name = Path.cwd().name[0]\nif name == "b": sys.exit(7)\n' + ANSWERS)
    ended = runs.run(plan("a"), plan("b"), plan("c"), retries=0)
    assert [ended[name].state.value for name in "abc"] == ["done", "failed", "done"]
    command(ANSWERS)
    runs.events.clear()
    ended = runs.run(plan("a"), plan("b"), plan("c"))
    assert {name: ended[name].reused for name in "abc"} == {"a": True, "b": False, "c": True}
    assert {event.name for event in runs.events} == {"b"}


def test_a_damaged_answer_is_made_again(runs, command, plan) -> None:
    command(ANSWERS)
    result = runs.run(plan())["a"]
    (runs.folder / result.result).write_text("{")
    assert runs.run(plan())["a"].reused is False


def test_a_job_killed_in_the_middle_goes_on_with_what_it_had(runs, command, plan) -> None:
    command("""
        begun = Path("plan.json")
        had = begun.read_text() if begun.is_file() else ""
        begun.write_text(had + "cell")
        if not had:
            os.kill(os.getpid(), signal.SIGKILL)
        answer()
    """)
    result = runs.run(plan())["a"]
    assert result.state is State.DONE
    assert [attempt.ending for attempt in result.attempts] == [Ending.KILLED, Ending.ANSWERED]
    assert "signal 9 (SIGKILL)" in result.attempts[0].reason
    assert (runs.folder / result.result).read_text() == "cellcell"
    assert [event.what for event in runs.events] == ["started", "again", "started", "ended"]


def test_retries_are_bounded_and_the_reason_is_kept(runs, command, plan) -> None:
    command("os.kill(os.getpid(), signal.SIGSEGV)")
    result = runs.run(plan(), retries=2)["a"]
    assert result.state is State.FAILED
    assert len(result.attempts) == 3
    assert "signal 11 (SIGSEGV) (after 3 attempts)" in result.reason


def test_a_supervisor_that_is_killed_takes_its_job_along(runs, command, plan) -> None:
    command(WAITS)
    folder = runs.folder_of(plan())
    seen: list[int] = []

    def kill_supervisor() -> None:
        (pid,) = pids_in(folder)
        seen.append(pid)
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        command('Path("plan.json").write_text("{}")\nanswer()')
        os.kill(parent, signal.SIGKILL)

    killer = threading.Thread(target=kill_supervisor)
    killer.start()
    result = runs.run(plan())["a"]
    killer.join()
    assert [attempt.ending for attempt in result.attempts] == [Ending.KILLED, Ending.ANSWERED]
    wait_for(lambda: not is_alive(seen[0]))


def test_a_hanging_job_is_stopped_with_children_of_other_sessions(runs, command, plan) -> None:
    # As engines do: a child in a session of its own, and one that its parent left behind.
    command("""
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        leaves = "sleep 300 & echo $! > orphan"
        subprocess.run(["sh", "-c", leaves], start_new_session=True)
        orphan = Path("orphan").read_text()
        print("measuring cell 7 of 40", flush=True)
        Path("pids").write_text(f"{os.getpid()}\\n{child.pid}\\n{orphan}")
        time.sleep(300)
    """)
    result = runs.run(plan(), retries=0, limit_s=6.0)["a"]
    assert result.attempts[0].ending is Ending.TIMED_OUT
    assert "time limit of 0.1 min; its last line: measuring cell 7 of 40" in result.reason
    assert "--timeout-minutes" in result.remedy
    pids = pids_in(runs.folder_of(plan()), 3)
    assert len(pids) == 3
    wait_for(lambda: not any(map(is_alive, pids)))


def test_children_that_outlive_a_job_are_ended(runs, command, plan) -> None:
    command(
        'p = subprocess.Popen(["sleep", "300"], start_new_session=True)\n'
        'Path("pids").write_text(f"{p.pid}\\n")\n' + ANSWERS
    )
    assert runs.run(plan())["a"].state is State.DONE
    (pid,) = pids_in(runs.folder_of(plan()))
    assert not is_alive(pid)


def test_an_error_that_would_come_again_is_not_retried(runs, command, plan) -> None:
    command("""
        told = {"ending": "failed", "exit_code": 1, "error": "UnknownIdError",
                "reason": "No LLM 'x'.", "remedy": "Did you mean y?"}
        Path("outcome.json").write_text(json.dumps(told))
        sys.exit(1)
    """)
    result = runs.run(plan(), retries=5)["a"]
    assert len(result.attempts) == 1
    assert (result.reason, result.remedy) == ("No LLM 'x'.", "Did you mean y?")


def test_a_defect_is_told_by_the_last_line_of_its_log(runs, command, plan) -> None:
    command('raise ValueError("matrix of no size")')
    result = runs.run(plan(), retries=0)["a"]
    assert "exit code 1: ValueError: matrix of no size" in result.reason


def test_a_begun_profile_that_cannot_be_gone_on_with_is_begun_afresh(runs, command) -> None:
    command("""
        begun = Path("profile.json")
        if begun.is_file():
            told = {"ending": "failed", "error": "ProfileError", "reason": "another GPU"}
            Path("outcome.json").write_text(json.dumps(told))
            sys.exit(1)
        begun.write_text('{"sidecar": null}')
        answer(complete=False)
    """)
    job = Job(name="p", kind="profile", options={"target": "t"})
    assert runs.run(job)["p"].state is State.INCOMPLETE
    again = runs.run(job)["p"]  # an unfinished profile is run again
    assert [a.ending for a in again.attempts] == [Ending.FAILED, Ending.ANSWERED]


def test_two_runs_in_one_folder_do_not_collide(runs, command, plan) -> None:
    holds = (
        "import sys, time; from pathlib import Path; from capplan.jobs.store import BatchStore\n"
        "with BatchStore(Path(sys.argv[1])): print('held', flush=True); time.sleep(300)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", holds, str(runs.folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ExecutorError, match=f"process {other.pid} on") as caught:
            runs.run(plan())
        assert "-o" in caught.value.remedy
        other.kill()
    command(ANSWERS)  # the dead run's lock is no obstacle
    assert runs.run(plan())["a"].state is State.DONE


def test_control_c_stops_children_and_keeps_what_is_finished(runs, command, plan) -> None:
    command(
        'if Path.cwd().name[0] == "a":\n    ' + ANSWERS.replace("\n", "\n    ") + "\nelse:" + WAITS
    )
    folder = runs.folder_of(plan("b"))

    def a_ended() -> bool:
        return any(event.what == "ended" for event in runs.events)

    def press() -> None:
        pids_in(folder)
        wait_for(a_ended)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(Interrupted, match="1 of 2 jobs are finished"):
        runs.run(plan("a"), plan("b"))
    presser.join()
    (pid,) = pids_in(folder)
    wait_for(lambda: not is_alive(pid))
    with BatchStore(runs.folder) as store:
        assert store.finished(runs.prepared(plan("a"))) is not None
        assert store.finished(runs.prepared(plan("b"))) is None


def gpus(count: int, name: str = "NVIDIA H100 80GB HBM3") -> tuple[VisibleGpu, ...]:
    return tuple(VisibleGpu(f"GPU-{number}", f"GPU {number}", name) for number in range(count))


SEES = 'Path("profile.json").write_text(json.dumps(os.environ["CUDA_VISIBLE_DEVICES"]))\n'
OVERLAPS = """
    stamps = Path("..").resolve() / "stamps"
    with stamps.open("a") as file:
        file.write(f"start {os.environ['CUDA_VISIBLE_DEVICES']}\\n")
    time.sleep(0.5)
    with stamps.open("a") as file:
        file.write(f"end {os.environ['CUDA_VISIBLE_DEVICES']}\\n")
    Path("profile.json").write_text("{}")
    answer()
"""


def profile(name: str, gpus: int | None = None, **options) -> Job:
    return Job(name=name, kind="profile", gpus=gpus, options={"target": "t", **options})


def test_profiles_share_no_gpu(runs, command) -> None:
    command(OVERLAPS)
    runs.executor = LocalExecutor(gpus(2), workers=1)
    runs.run(*(profile(name) for name in "abcd"))
    held: set[str] = set()
    for line in (runs.folder / "stamps").read_text().split("\n")[:-1]:
        what, gpu = line.split()
        assert (gpu in held) == (what == "end")
        held ^= {gpu}
    assert not held


def test_a_profile_on_the_cpu_runs_alone(runs, command, plan) -> None:
    command(OVERLAPS + '    Path("plan.json").write_text("{}")\n')
    runs.run(profile("a"), profile("b"), plan("c"))
    lines = [line.split()[0] for line in (runs.folder / "stamps").read_text().splitlines()]
    assert lines == ["start", "end"] * 3


def test_a_job_sees_the_gpus_it_was_given(runs, command) -> None:
    command(SEES + "answer()")
    runs.executor = LocalExecutor(gpus(4))
    jobs = [profile("one"), profile("two", **{"tensor-parallel": 2}), profile("cpu", device="cpu")]
    ended = runs.run(*jobs)
    saw = {
        name: (runs.folder / result.result).read_text().strip('"').split(",")
        for name, result in ended.items()
    }
    assert {name: len(ids) for name, ids in saw.items()} == {"one": 1, "two": 2, "cpu": 1}
    assert saw["cpu"] == [""]
    assert not set(saw["one"]) & set(saw["two"])


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (profile("a", gpus=3), "asks for 3 GPU"),
        (
            Job(name="a", kind="profile", gpu_type="B200", options={"target": "t"}),
            "asks for 1 B200 GPU",
        ),
        (
            Job(name="a", kind="profile", node="10.0.0.9", options={"target": "t"}),
            "--executor ray",
        ),
    ],
)
def test_what_this_machine_never_has_is_refused_at_once(runs, command, job, reason) -> None:
    command("answer()")
    runs.executor = LocalExecutor(gpus(2))
    result = runs.run(job, retries=5)["a"]
    assert result.state is State.FAILED
    assert [attempt.ending for attempt in result.attempts] == [Ending.NEVER_PLACED]
    assert reason in result.reason
