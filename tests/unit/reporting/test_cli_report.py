from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from capplan.cli import diff, report, schema
from capplan.errors import PlanFormatError, RequestError
from capplan.profiles.store import save_profile
from capplan.reporting import render
from capplan.schema.verdict import Stability


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


@pytest.fixture
def profile_file(tmp_path: Path, synthetic: Any) -> Path:
    path = tmp_path / "profile.json"
    save_profile(path, *synthetic.profile())
    return path


def test_a_profile_has_a_page_a_summary_and_json(profile_file: Path) -> None:
    page = profile_file.with_name("p.html")
    assert _report(profile_file, "-o", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "on 1 x Toy CPU" in text
    assert "Tokens a round by temperature" in text
    assert "plotly" not in text
    assert _report(profile_file).stdout.startswith("Profile p-0001")
    assert json.loads(_report(profile_file, "--format", "json").stdout)["id"] == "p-0001"


def test_an_invalid_profile_has_a_page_that_says_why(tmp_path: Path, synthetic: Any) -> None:
    path = tmp_path / "invalid.json"
    save_profile(path, *synthetic.profile(stability=Stability.INVALID))
    _report(path, "-o", tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "Why it is invalid" in text
    assert "Close other work." in text


def test_a_profile_has_no_rows_of_options(profile_file: Path) -> None:
    result = _report(profile_file, "--format", "csv")
    assert isinstance(result.exception, RequestError)
    assert "table, json, html" in str(result.exception)


def test_two_plans_are_compared_on_a_page(plan_file: Path, sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    other = plan_file.with_name("other.json")
    dearer = plan.model_copy(update={"options": plan.options[4:]})
    other.write_text(render(dearer, "json"), encoding="utf-8")
    page = plan_file.with_name("c.html")
    assert _report(plan_file, other, "-o", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "Why the bill moved, in USD a month" in text
    assert "The recommended options" in text
    said = _report(plan_file, other).stdout
    assert said == CliRunner().invoke(diff.command, [str(plan_file), str(other)]).stdout
    found = json.loads(_report(plan_file, other, "--format", "json").stdout)
    assert found["kind"] == "plans"


def test_two_profiles_are_compared_on_a_page(profile_file: Path, synthetic: Any) -> None:
    other = profile_file.with_name("other.json")
    save_profile(other, *synthetic.profile(probability=0.4))
    page = profile_file.with_name("c.html")
    assert _report(profile_file, other, "-o", page).exit_code == 0
    assert "compared figures changed" in page.read_text(encoding="utf-8")


def test_a_plan_and_a_profile_are_not_compared(plan_file: Path, profile_file: Path) -> None:
    result = _report(plan_file, profile_file, "-o", plan_file.with_name("c.html"))
    assert isinstance(result.exception, RequestError)
    assert not plan_file.with_name("c.html").exists()


@pytest.mark.parametrize(
    "more", [["a", "b"], ["--profile", "p.json"], ["--month", "2027-01"]], ids=str
)
def test_what_does_not_go_together_is_a_usage_error(plan_file: Path, more: list[str]) -> None:
    result = _report(plan_file, *more)
    assert result.exit_code == 2


def test_a_page_says_how_to_add_what_the_bill_hangs_on(plan_file: Path) -> None:
    output = plan_file.with_name("r.html")
    _report(plan_file, "-o", output)
    text = output.read_text(encoding="utf-8")
    assert "capplan report plan.json --profile FILE -o report.html" in text


@pytest.mark.parametrize("name", ["plan", "profile"])
def test_schema_prints_json_schema(name: str) -> None:
    result = CliRunner().invoke(schema.command, [name])
    document = json.loads(result.stdout)
    assert document["$schema"].startswith("https://json-schema.org/")
    assert "schema_version" in document["properties"]
