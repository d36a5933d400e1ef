from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from capplan.cli import report, schema
from capplan.errors import PlanFormatError
from capplan.reporting import render


@pytest.fixture
def plan_file(tmp_path: Path, sample_plans: Any) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(render(sample_plans.make_plan(), "json"), encoding="utf-8")
    return path


def _report(*arguments: str | Path) -> Any:
    return CliRunner().invoke(report.command, [str(argument) for argument in arguments])


def test_a_table_goes_to_the_terminal(plan_file: Path, sample_plans: Any) -> None:
    result = _report(plan_file)
    assert result.stdout == render(sample_plans.make_plan(), "table")


@pytest.mark.parametrize(
    ("name", "start"),
    [("r.html", "<!doctype html>"), ("r.csv", "rank,"), ("r.json", "{"), ("r", "Spec")],
)
def test_the_suffix_chooses_the_format(plan_file: Path, name: str, start: str) -> None:
    output = plan_file.with_name(name)
    result = _report(plan_file, "-o", output)
    assert output.read_text(encoding="utf-8").startswith(start)
    assert result.stdout == ""
    assert f"Written to {output}" in result.stderr


def test_a_named_format_wins_over_the_suffix(plan_file: Path) -> None:
    output = plan_file.with_name("r.html")
    _report(plan_file, "-o", output, "--format", "csv")
    assert output.read_text(encoding="utf-8").startswith("rank,")


def test_a_broken_plan_leaves_the_old_report(plan_file: Path) -> None:
    output = plan_file.with_name("r.html")
    output.write_text("old", encoding="utf-8")
    plan_file.write_text("{", encoding="utf-8")
    result = _report(plan_file, "-o", output)
    assert isinstance(result.exception, PlanFormatError)
    assert output.read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("name", ["plan", "profile"])
def test_schema_prints_json_schema(name: str) -> None:
    result = CliRunner().invoke(schema.command, [name])
    document = json.loads(result.stdout)
    assert document["$schema"].startswith("https://json-schema.org/")
    assert "schema_version" in document["properties"]
