"""``capplan claims``: what it prints, and the page made of it."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from capplan.advice.guide.checklist import guide_checklist
from capplan.cli.claims import command
from capplan.cli.main import cli
from capplan.errors import CapplanError, UnknownIdError
from capplan.reporting import render
from capplan.schema.audit import ClaimVerdict

PAGE = Path(__file__).parents[2] / "docs" / "guide-audit.md"


def claims(*args: str) -> Result:
    return CliRunner().invoke(command, args)


def records(*args: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(claims("--format", "csv", *args).output)))


def test_it_is_a_command_of_capplan() -> None:
    assert "claims" in cli.list_commands(None)  # type: ignore[arg-type] - our group ignores it


def test_every_figure_is_listed_with_its_verdict() -> None:
    rows = records()
    counts = Counter(row["verdict"] for row in rows)
    assert set(counts) == {verdict.value for verdict in ClaimVerdict}
    assert all(row["reason"] and row["source"] for row in rows)
    last = claims().output.splitlines()[-1]
    assert last.startswith(f"{len(rows)} figures: ")
    assert f"{counts['contradicted']} contradicted" in last


def test_a_topic_and_a_verdict_narrow_the_list() -> None:
    rows = records("--topic", "cost", "--verdict", "inconsistent")
    assert [row["id"] for row in rows] == [
        *("cost-none-million", "cost-n5-month", "cost-n5-million"),
        *("cost-eagle-month", "cost-eagle-million"),
    ]


def test_json_has_the_findings_with_their_numbers() -> None:
    content = json.loads(claims("--topic", "formula", "--format", "json").output)
    assert content["schema_version"] == 1
    example = {item["claim"]["id"]: item for item in content["claims"]}["formula-example-speedup"]
    assert example["verdict"] == "reproduced"
    assert example["recomputed"] == pytest.approx(3.2)
    assert example["deviation"] == pytest.approx(0)
    assert example["findings"][0]["claims"] == [
        "formula-example-acceptance",
        "formula-example-n",
        "formula-example-cost-ratio",
    ]


def test_figures_are_shown_as_the_guide_prints_them() -> None:
    text = claims("--topic", "pairs").output
    assert "pair-qwen3.5-72b-acceptance  82 %  does not exist" in text
    assert "pair-qwen3.5-72b-speedup  3.1x" in text
    assert "cost-none-million  $2.31" in claims("--topic", "cost").output


def test_a_wrong_verdict_is_misuse() -> None:
    result = claims("--verdict", "wrong")
    assert result.exit_code == 2
    assert "does not exist" in result.output


def test_a_wrong_topic_is_an_error_with_a_remedy() -> None:
    error = claims("--topic", "weather").exception
    assert isinstance(error, UnknownIdError)
    assert error.remedy


def test_the_page_is_the_commands_own_output() -> None:
    text = claims("--format", "markdown").output
    if os.environ.get("CAPPLAN_UPDATE_GOLDEN"):
        PAGE.write_text(text, encoding="utf-8")
    assert text == PAGE.read_text(encoding="utf-8"), (
        "capplan claims --format markdown > docs/guide-audit.md"
    )


def test_the_page_counts_every_figure_once_and_keeps_its_lines_short() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (total,) = [line for line in lines if line.startswith("| **all** |")]
    counts = [int(cell) for cell in total.strip("| ").split("|")[1:]]
    assert sum(counts[:-1]) == counts[-1] == len(records())
    assert all(len(line) <= 99 for line in lines)


def test_the_page_begins_with_five_findings() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = lines.index("## The five findings that matter most")
    following = lines[first + 1 : lines.index("## What it has right")]
    assert [line[:2] for line in following if line[:1].isdigit()] == ["1.", "2.", "3.", "4.", "5."]


def test_a_part_of_the_audit_makes_a_page_of_its_own() -> None:
    page = claims("--topic", "cost", "--format", "markdown").output
    assert "46.2, 47.8, 48.5 %" in page
    assert "Spec-Bench" not in page


def test_the_checklist_is_applied_to_a_plan_file(tmp_path: Path, sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    path = tmp_path / "plan.json"
    path.write_text(
        render(plan.model_copy(update={"guide_checklist": guide_checklist(plan)}), "json")
    )
    text = claims("--on", str(path)).output
    assert text.count("\n  - ") == 14
    assert "Troubleshooting:" in text
    points = json.loads(claims("--on", str(path), "--format", "json").output)["points"]
    assert [point["id"] for point in points][:2] == ["same-family", "n5"]
    assert claims("--on", str(path), "--topic", "cost").exit_code == 2


def test_a_file_that_is_neither_plan_nor_profile_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    assert isinstance(claims("--on", str(path)).exception, CapplanError)
