"""What is published: the same bytes wherever it is built, and everything in it that it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EPOCH = "1767225600"
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11.3 and older have no filters."""
NEEDED = (
    "capplan/py.typed",
    "profiler/py.typed",
    "profiler/data/prompts.jsonl",
    "capplan/_data/models_db/gpus/gpus.csv",
    "capplan/_data/models_db/engines/vllm.yaml",
    "capplan/deploy/flags.csv",
)


def build(source: Path, into: Path, **environment: str) -> dict[str, Path]:
    """Build a wheel and an sdist without a network; return them by suffix."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
    cwd_first = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **environment}
    subprocess.run(command, cwd=source, check=True, capture_output=True, env=cwd_first)
    return {path.suffix: path for path in into.iterdir()}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("hatchling", reason="hatchling is in the test extra")
    return build(ROOT, tmp_path_factory.mktemp("first"))


def test_an_sdist_builds_to_the_same_bytes_elsewhere_and_later(
    first: dict[str, Path], tmp_path: Path
) -> None:
    before = os.umask(0o077)  # modes of files that nobody else may read
    try:
        with tarfile.open(first[".gz"]) as archive:
            archive.extractall(tmp_path / "another place", **SAFELY)
        (source,) = (tmp_path / "another place").iterdir()
        for path in source.rglob("*"):
            os.utime(path, (2_000_000_000, 2_000_000_000))
        odd = {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7", "LC_ALL": "C"}
        second = build(source, tmp_path / "second", **odd)
    finally:
        os.umask(before)
    assert second.keys() == first.keys() == {".whl", ".gz"}
    for suffix, path in first.items():
        assert second[suffix].name == path.name
        assert second[suffix].read_bytes() == path.read_bytes(), f"{path.name} differs"


def test_the_wheel_holds_what_it_needs_and_nothing_of_the_checkout(first: dict[str, Path]) -> None:
    with zipfile.ZipFile(first[".whl"]) as wheel:
        names = wheel.namelist()
        dates = {info.date_time for info in wheel.infolist()}
        modes = {oct(info.external_attr >> 16 & 0o777) for info in wheel.infolist()}
    assert set(NEEDED) <= set(names)
    assert any(name.endswith(".j2") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"capplan", "profiler"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    assert dates == {(2026, 1, 1, 0, 0, 0)}, "SOURCE_DATE_EPOCH is heeded"
    assert modes <= {"0o644", "0o755"}


def test_the_sdist_holds_the_tests_and_the_facts(first: dict[str, Path]) -> None:
    with tarfile.open(first[".gz"]) as archive:
        members = archive.getmembers()
    names = [member.name.partition("/")[2] for member in members]
    assert len(names) == len(set(names))
    assert {"pyproject.toml", "tests/contract/test_packaging.py", "constraints/core.txt"} <= {
        *names
    }
    assert {(member.uid, member.gid, member.uname) for member in members} == {(0, 0, "")}


def test_the_page_of_dependencies_has_every_pin_and_the_locks_every_dependency() -> None:
    tool = [sys.executable, str(ROOT / "tools" / "dependency_table.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"missing in docs/dependencies.md: {done.stdout}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for lock, wanted in {
        "core.txt": project["dependencies"],
        "tests.txt": [*project["dependencies"], *extras["profile"], *extras["test"]],
    }.items():
        text = (ROOT / "constraints" / lock).read_text(encoding="utf-8").lower()
        names = [re.split(r"[<>=\[;]", need)[0].strip().lower() for need in wanted]
        assert [name for name in names if f"\n{name}==" not in text] == [], lock


def test_what_is_installed_by_hash_has_a_hash_of_everything() -> None:
    for lock in ("core.txt", "build.txt"):
        text = (ROOT / "constraints" / lock).read_text(encoding="utf-8")
        pins = re.split(r"\n(?=[a-z0-9._-]+==)", text)[1:]
        assert len(pins) >= 5
        assert [pin.partition("==")[0] for pin in pins if "--hash=sha256:" not in pin] == []
