"""``capplan doctor`` on whatever machine this is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from capplan.cli.doctor import as_text, examine
from capplan.cli.main import cli

ROOT = Path(__file__).parents[2]


@pytest.fixture
def found():
    return examine()


def test_json_holds_versions_gpus_and_backends():
    result = CliRunner().invoke(cli, ["doctor", "--format", "json"])
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert found["schema_version"] == 1
    assert found["packages"]["numpy"] == version("numpy")
    assert [b["name"] for b in found["backends"]] == ["torch", "vllm"]
    assert bool(found["gpus"]) != bool(found["no_gpu_because"])


def test_text_says_absent_where_a_package_is_absent(found):
    found["packages"]["vllm"] = None
    assert "vllm           absent" in as_text(found)


def test_a_backend_that_would_not_work_is_followed_by_the_exact_line(found):
    found["backends"] = [
        {
            "name": "torch",
            "available": False,
            "missing": ["torch>=2.6"],
            "install": "pip install 'capplan[profile]'",
            "found": "",
        }
    ]
    lines = as_text(found).splitlines()
    assert lines[-2].split(maxsplit=1) == ["torch", "needs torch>=2.6"]
    assert lines[-1].strip() == "pip install 'capplan[profile]'"


def test_gpus_are_listed_with_memory_and_driver(found):
    gpu = {"name": "H100", "memory_bytes": 2**36, "driver": "580.1", "cuda": "13.0"}
    assert "H100, 64.0 GiB, driver 580.1, CUDA 13.0" in as_text({**found, "gpus": [gpu]})


def test_doctor_imports_no_heavy_library():
    code = (
        "import sys\nfrom capplan.cli.doctor import examine\nexamine()\n"
        "print(*({'torch', 'transformers', 'vllm', 'pandas', 'plotly'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == ""
