"""The built wheel finds its facts and templates with no checkout in sight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is in the test extra")
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("capplan-*.whl")
    target = folder / "site"
    install = [*pip, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    return target


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Isolated from the checkout: another working directory, and the wheel's folder first.
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )


def test_wheel_ships_facts_templates_and_prompts(installed: Path) -> None:
    assert (installed / "capplan/_data/models_db/gpus/gpus.csv").is_file()
    assert (installed / "capplan/_data/models_db/engines/vllm.yaml").is_file()
    assert list((installed / "capplan/_data/templates").glob("*.j2"))
    assert (installed / "profiler/data/prompts.jsonl").is_file()


def test_wheel_carries_no_tests_and_no_caches(installed: Path) -> None:
    assert {path.name for path in installed.iterdir() if path.is_dir()} <= {
        "bin",
        "capplan",
        "profiler",
        *(path.name for path in installed.glob("capplan-*.dist-info")),
    }


def test_wheel_finds_its_own_data(installed: Path) -> None:
    code = (
        "import capplan.resources as r; print(r.models_db_dir()); print(r.templates_dir()); "
        "import capplan; print(len(capplan.load_catalog().gpus))"
    )
    done = run(installed, "-c", code)
    assert done.returncode == 0, done.stderr
    models_db, templates, gpus = done.stdout.split("\n")[:3]
    assert Path(models_db).is_relative_to(installed)
    assert Path(templates).is_relative_to(installed)
    assert int(gpus) > 0


def test_wheel_lists_gpus(installed: Path) -> None:
    done = run(installed, "-m", "capplan", "facts", "gpus", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "h100-sxm-80gb" in json.dumps(json.loads(done.stdout))
