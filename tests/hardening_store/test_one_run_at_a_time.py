"""Two runs on one store: the second is told by whom it is held; the dead hold nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from capplan.cli.main import cli
from capplan.errors import StorageError
from capplan.files import hold
from capplan.profiles.store import load_profile, save_profile
from profiler.backends.fake import FakeBackend
from profiler.session import SessionRequest, run_session
from profiler.telemetry.fake import FakeTelemetry

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "examples" / "data" / "smollm2-lookup.json"
HOLDS = """
import sys, time
from pathlib import Path
from capplan.files import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
Holder = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def holder() -> Iterator[Holder]:
    """Start a process that holds a file until it is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(path: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def profile(path: Path, **options: Any) -> Any:
    backend = FakeBackend()
    request = SessionRequest(
        output=path, target="big", prompt_lookup=(2, 4), backend="fake", **options
    )
    return run_session(
        request,
        on_progress=lambda _step: None,
        clock=backend.clock,
        telemetry=FakeTelemetry(backend.clock),
        backend=backend,
    )


def test_a_second_run_is_refused_at_once_with_the_number_of_the_first(
    tmp_path: Path, holder: Holder
) -> None:
    path = tmp_path / "profile.json"
    first = holder(path)
    begun_s = time.monotonic()
    with pytest.raises(StorageError, match=rf"process {first.pid} on ") as caught:
        profile(path)
    assert time.monotonic() - begun_s < 5
    assert "-o" in caught.value.remedy
    assert not path.exists()


def test_the_lock_of_a_dead_process_is_taken_and_goes_with_the_run(
    tmp_path: Path, holder: Holder
) -> None:
    path = tmp_path / "profile.json"
    first = holder(path)
    first.kill()
    first.wait()
    assert (tmp_path / ".profile.json.lock").exists(), "it is left, but holds nothing"
    stored = profile(path)
    assert {one.name for one in tmp_path.iterdir()} == {"profile.json", stored.profile.sidecar}


def test_a_run_that_fails_gives_its_lock_back(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"

    def fail(_what: str) -> None:
        raise OSError("the machine is on fire")

    backend = FakeBackend(hook=fail)
    request = SessionRequest(output=path, target="big", backend="fake")
    with pytest.raises(OSError, match="on fire"):
        run_session(
            request,
            on_progress=lambda _step: None,
            clock=backend.clock,
            telemetry=FakeTelemetry(backend.clock),
            backend=backend,
        )
    assert list(tmp_path.iterdir()) == []
    with hold(path):
        pass


def test_a_link_and_what_it_points_to_are_one_store(tmp_path: Path, holder: Holder) -> None:
    path, link = tmp_path / "profile.json", tmp_path / "latest.json"
    path.write_text("{}")
    link.symlink_to(path)
    holder(path)
    with pytest.raises(StorageError, match="Another run"), hold(link):
        pass


def test_an_import_does_not_write_into_a_profile_that_is_being_taken(
    tmp_path: Path, holder: Holder
) -> None:
    path = tmp_path / "profile.json"
    first = holder(path)
    data = ROOT / "tests" / "data" / "imports" / "vllm_bench_speculative.json"
    words = ["import", str(data), "--target", "qwen3-32b", "-o", str(path)]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(done.exception, StorageError)
    assert f"process {first.pid} " in done.exception.message
    assert not path.exists()


def test_profiles_saved_by_several_processes_at_once_are_whole(tmp_path: Path) -> None:
    code = (
        "import sys; import numpy as np; from capplan.errors import StorageError\n"
        "from capplan.profiles.store import load_profile, save_profile\n"
        "base = load_profile(sys.argv[1]); me = int(sys.argv[3]); saved = 0\n"
        "for turn in range(15):\n"
        "    changed = base.profile.model_copy(update={'id': f'p-{me}-{turn}'})\n"
        "    try:\n"
        "        save_profile(sys.argv[2], changed, {**base.arrays, 'x': np.array([me, turn])})\n"
        "        saved += 1\n"
        "    except StorageError as error:\n"
        "        assert 'Another run' in error.message, error\n"
        "print(saved)"
    )
    path = tmp_path / "p.json"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(PROFILE), str(path), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for number in range(2)
    ]
    outputs = [writer.communicate() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], outputs
    assert sum(int(out) for out, _ in outputs) >= 15
    stored = load_profile(path)
    me, turn = (int(number) for number in stored.arrays["x"])
    assert stored.profile.id == f"p-{me}-{turn}", "profile and arrays are of one writer"
    assert {one.name for one in tmp_path.iterdir()} == {"p.json", stored.profile.sidecar}


def test_exports_by_several_processes_at_once_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    code = (
        "import sys; from pathlib import Path; from capplan.files import write_atomic\n"
        "for _ in range(60): write_atomic(Path(sys.argv[1]), sys.argv[2] * 20000)"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), letter],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for letter in "ab"
    ]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(path.read_text())
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen <= {"a" * 20000, "b" * 20000}
    assert [one.name for one in tmp_path.iterdir()] == ["plan.json"]


def test_a_sidecar_that_another_file_still_names_is_not_removed(tmp_path: Path) -> None:
    path, base = tmp_path / "p.json", load_profile(PROFILE)
    save_profile(path, base.profile, {**base.arrays, "x": np.arange(3)})
    kept = path.rename(tmp_path / "before.json")
    save_profile(path, base.profile, {**base.arrays, "x": np.arange(4)})
    save_profile(path, base.profile, {**base.arrays, "x": np.arange(5)})
    assert list(load_profile(kept).arrays["x"]) == [0, 1, 2]
    assert len(list(tmp_path.glob("*.npz"))) == 2
