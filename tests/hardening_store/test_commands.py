"""Every command that writes a file leaves the old one alone when it fails, and nothing else."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from capplan.cli.main import cli
from capplan.errors import CapplanError, StorageError
from capplan.profiles.store import save_profile

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "examples" / "data" / "smollm2-lookup.json"
SERVED = ("--target", "qwen3-32b", "--rate", "2", "--budget", "20k", "--gpu", "h100-sxm-80gb")
OLD = "what was there before\n"


class Inputs:
    """Files that the commands read, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getattr__(self, name: str) -> str:
        return str(self.folder / name.replace("_", "."))


def _trace() -> str:
    rows = [f"2026-01-01 00:{m:02}:{s:02},500,100" for m in range(60) for s in (0, 30)]
    return "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n"


def _prices() -> str:
    header = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size"
    row = "gpu_1x_h100_pcie,us-west-1,3.49,26,200.0,1,H100,80.0,False,,nvidia,,x86,{}"
    return f"{header},gpu_vendor,flags,cpu_arch,provider_data\n{row}\n"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, planted_engine: Any) -> Inputs:
    folder = tmp_path_factory.mktemp("inputs")
    for name in ("one", "two"):
        shutil.copy(PROFILE, folder / f"{name}.json")
    shutil.copy(next(PROFILE.parent.glob("smollm2-lookup-*.npz")), folder)
    planted = planted_engine.profile(
        planted_engine.SMALL, "p", planted_engine.cells(planted_engine.SMALL)
    )
    save_profile(folder / "planted.json", planted, {})
    larger = planted_engine.profile(
        planted_engine.LARGE, "q", planted_engine.cells(planted_engine.LARGE, seed=1)
    )
    save_profile(folder / "larger.json", larger, {})
    (folder / "trace.csv").write_text(_trace())
    tables = folder / "tables"
    tables.mkdir()
    (tables / "lambdalabs.csv").write_text(_prices())
    plan = folder / "plan.json"
    done = CliRunner().invoke(cli, ["recommend", *SERVED, "--plan-json", str(plan)])
    assert done.exit_code == 0, done.output
    return Inputs(folder)


DATA = ROOT / "tests" / "data" / "imports" / "vllm_bench_speculative.json"
COMMANDS: dict[str, Callable[[Inputs], list[str]]] = {
    "calibrate -o": lambda f: ["calibrate", f.planted_json, f.larger_json, "-o"],
    "diff -o": lambda f: ["diff", f.one_json, f.two_json, "-o"],
    "import -o": lambda _: ["import", str(DATA), "--target", "qwen3-32b", "-o"],
    "launch -o": lambda f: ["launch", f.plan_json, "-o"],
    "load -o": lambda f: ["load", f.plan_json, "--share", "0.3", "--requests", "10", "-o"],
    "prices refresh -o": lambda _: ["prices", "refresh", "--provider", "lambdalabs", "-o"],
    "profile -o": lambda _: [
        *("profile", "big", "--method", "ngram", "--backend", "fake", "--batch", "1"),
        *("--context", "64", "--max-tokens", "8", "--force", "-o"),
    ],
    "prompts -o": lambda f: ["prompts", f.one_json, "-o"],
    "recommend --plan-json": lambda _: ["recommend", *SERVED, "--plan-json"],
    "recommend -o": lambda _: ["recommend", *SERVED, "--format", "json", "-o"],
    "report -o": lambda f: ["report", f.plan_json, "--format", "html", "-o"],
    "report --format focus -o": lambda f: ["report", f.plan_json, "--format", "focus", "-o"],
    "schedule -o": lambda f: ["schedule", f.one_json, "-o"],
    "simulate -o": lambda f: ["simulate", f.one_json, "--stream", "200", "-o"],
    "what-if -o": lambda f: ["what-if", f.plan_json, "--spares", "1", "-o"],
    "workload -o": lambda f: ["workload", f.trace_csv, "--format", "yaml", "-o"],
}
"""How a command is called, up to the name of the file that it writes."""


def _writing(group: click.Group = cli, *path: str) -> Iterator[str]:
    """Yield every command that writes a file where its user says, with the option that says it."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _writing(command, *path, name)
        for option in command.params:
            if {"-o", "--output", "--plan-json"} & set(option.opts):
                yield " ".join((*path, name, option.opts[0]))


def test_every_command_that_writes_is_tried_here() -> None:
    tried = {name.replace(" --format focus", "") for name in COMMANDS}
    assert set(_writing()) - {"batch -o"} <= tried, "add the new command above"


@pytest.fixture
def call(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Path], Result]:
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", inputs.tables)
    monkeypatch.setattr("profiler.registry.backend_names", lambda: ("torch", "vllm", "fake"))

    def run(name: str, output: Path) -> Result:
        words = [*COMMANDS[name](inputs), str(output)]
        return CliRunner().invoke(cli, words, standalone_mode=False)

    return run


@pytest.fixture(params=sorted(COMMANDS))
def name(request: pytest.FixtureRequest) -> str:
    if request.param == "prices refresh -o":
        pytest.importorskip("gpuhunt")
    return str(request.param)


def _refused(done: Result) -> CapplanError | click.UsageError:
    assert isinstance(done.exception, CapplanError | click.UsageError), done.output
    return done.exception


# gpuhunt leaves the local files open for the garbage collector
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_command_that_cannot_write_leaves_the_old_file_and_nothing_else(
    name: str, call: Callable[[str, Path], Result], tmp_path: Path, disk: Any
) -> None:
    output = tmp_path / "out.json"
    output.write_text(OLD)
    with disk.failing(0, errno.ENOSPC, calls=("write",), for_good=True):
        error = _refused(call(name, output))
    assert isinstance(error, StorageError)
    assert "No space left" in error.message
    assert error.remedy
    assert output.read_text() == OLD
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]


def test_a_command_refuses_a_folder_in_the_place_of_its_file(
    name: str, call: Callable[[str, Path], Result], tmp_path: Path
) -> None:
    (tmp_path / "out.json").mkdir()
    assert isinstance(_refused(call(name, tmp_path / "out.json")), click.UsageError)
    assert not any((tmp_path / "out.json").iterdir())


@pytest.mark.parametrize("name", ["profile -o", "recommend -o", "import -o", "workload -o"])
def test_a_command_explains_that_the_folder_is_not_there(
    name: str, call: Callable[[str, Path], Result], tmp_path: Path
) -> None:
    error = _refused(call(name, tmp_path / "absent" / "out.json"))
    assert "absent" in str(error)
    assert list(tmp_path.iterdir()) == []
