"""The public API has types where it is used: a right program passes, each mistake is found.

The checker runs outside of the checkout, without its settings: it sees what a user's would.
After a change of the public names: ``CAPPLAN_UPDATE_GOLDEN=1 pytest tests/typing -k loaded``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import capplan

pytest.importorskip("mypy")

PACKAGE = Path(capplan.__file__).parent
PROGRAMS = Path(__file__).with_name("programs")
_FOUND = re.compile(r"^(?P<file>\w+)\.py:(?P<line>\d+): error: .*\[(?P<code>[\w-]+)\]$")
_EXPECTED = re.compile(r"# error: ([\w-]+)$")

_STUB_HEAD = (
    '"""Types of the public names, for checkers and editors; they load on first use '
    '(__init__.py)."""\n'
)

Mistake = tuple[str, int, str]


def expected(program: str) -> set[Mistake]:
    lines = (PROGRAMS / f"{program}.py").read_text(encoding="utf-8").splitlines()
    marked = ((number, _EXPECTED.search(line)) for number, line in enumerate(lines, start=1))
    return {(program, number, mark[1]) for number, mark in marked if mark}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> set[Mistake]:
    """Everything that ``mypy --strict`` says of both programs."""
    folder = tmp_path_factory.mktemp("user")
    for program in PROGRAMS.glob("*.py"):
        shutil.copy(program, folder)
    environment = {name: value for name, value in os.environ.items() if "PYTHONPATH" not in name}
    environment.pop("MYPYPATH", None)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-incremental",
        "right.py",
        "wrong.py",
    ]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    matches = [_FOUND.match(line) for line in errors]
    assert all(matches), done.stdout
    return {(one["file"], int(one["line"]), one["code"]) for one in matches if one}


@pytest.mark.slow
def test_a_right_program_passes_strict_checks(found: set[Mistake]) -> None:
    assert {mistake for mistake in found if mistake[0] == "right"} == set()


@pytest.mark.slow
def test_each_mistake_is_found_and_no_other(found: set[Mistake]) -> None:
    assert len(expected("wrong")) == 8
    assert {mistake for mistake in found if mistake[0] == "wrong"} == expected("wrong")


def stub() -> str:
    """Return what ``__init__.pyi`` is to say: an import of each public name, sorted as by ruff."""
    names: dict[str, list[str]] = {}
    for name, module in capplan._PUBLIC.items():
        names.setdefault(module, []).append(name)
    imports = []
    for module in sorted(names):
        ordered = sorted(names[module], key=lambda name: (name[0].islower(), name))
        reexports = [f"{name} as {name}" for name in ordered]
        if len(reexports) == 1:
            imports.append(f"from {module} import {reexports[0]}")
        else:
            lines = [f"    {reexport}," for reexport in reexports]
            imports.append("\n".join([f"from {module} import (", *lines, ")"]))
    return "\n".join([_STUB_HEAD, *imports, "", "__version__: str", ""])


def test_the_types_are_those_of_what_is_loaded() -> None:
    file = PACKAGE / "__init__.pyi"
    if os.environ.get("CAPPLAN_UPDATE_GOLDEN") == "1":
        file.write_text(stub(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == stub()


@pytest.mark.parametrize("package", ["capplan", "profiler"])
def test_a_checker_is_told_that_the_package_has_types(package: str) -> None:
    assert (PACKAGE.parent / package / "py.typed").is_file()
