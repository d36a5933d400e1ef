"""Files that must not change unless somebody means it.

To accept a change: ``CAPPLAN_UPDATE_GOLDEN=1 pytest tests/golden``, then read the diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from capplan.reporting import render
from capplan.reporting.jsonout import json_schema_text

GOLDEN = Path(__file__).parent / "data"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


def _compare(path: Path, text: str) -> None:
    if os.environ.get("CAPPLAN_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    recorded = path.read_text(encoding="utf-8")
    assert _cut(text) == _cut(recorded), f"{path.name} differs; see the module's head"


def _cut(text: str) -> str:
    """Return the text with 12 digits of each number: Python 3.12 adds floats up more exactly."""
    return re.sub(r"\d+\.\d{10,}(e[-+]\d+)?", lambda number: f"{float(number[0]):.12g}", text)


@pytest.mark.parametrize(("fmt", "suffix"), [("table", "txt"), ("csv", "csv"), ("json", "json")])
def test_a_feasible_plan_reads_as_recorded(sample_plans: Any, fmt: str, suffix: str) -> None:
    _compare(GOLDEN / f"plan.{suffix}", render(sample_plans.make_plan(), fmt))


def test_an_infeasible_plan_reads_as_recorded(sample_plans: Any) -> None:
    _compare(GOLDEN / "infeasible.txt", render(sample_plans.infeasible_plan(), "table"))


@pytest.mark.parametrize("name", ["plan", "profile", "calibration"])
def test_the_published_schema_is_the_codes_own(name: str) -> None:
    _compare(SCHEMAS / f"{name}.schema.json", json_schema_text(name))
