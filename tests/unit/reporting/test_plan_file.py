from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import CapplanError, PlanFormatError, PlanVersionError
from capplan.reporting import render
from capplan.reporting.plan_file import load_plan


@pytest.fixture
def plan_file(tmp_path: Path, sample_plans: Any) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(render(sample_plans.make_plan(), "json"), encoding="utf-8")
    return path


def _changed(path: Path, **fields: object) -> Path:
    document = json.loads(path.read_text(encoding="utf-8")) | fields
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_written_plan_is_read_back(plan_file: Path, sample_plans: Any) -> None:
    assert load_plan(plan_file) == sample_plans.make_plan()


def test_a_truncated_plan_is_named_as_such(plan_file: Path) -> None:
    text = plan_file.read_text(encoding="utf-8")
    plan_file.write_text(text[: len(text) // 2], encoding="utf-8")
    with pytest.raises(PlanFormatError, match="cut off after"):
        load_plan(plan_file)


def test_a_newer_schema_asks_for_an_upgrade(plan_file: Path) -> None:
    with pytest.raises(
        PlanVersionError, match="plan schema 2; this capplan reads up to 1"
    ) as caught:
        load_plan(_changed(plan_file, schema_version=2, something_new=1))
    assert "pip install --upgrade" in caught.value.remedy


@pytest.mark.parametrize("version", [None, "1", True, 0, -1])
def test_a_senseless_version_is_no_plan(plan_file: Path, version: object) -> None:
    with pytest.raises(PlanFormatError):
        load_plan(_changed(plan_file, schema_version=version))


def test_a_wrong_field_is_named_with_its_place(plan_file: Path) -> None:
    with pytest.raises(PlanFormatError, match=r"candidates: Input should be a valid integer"):
        load_plan(_changed(plan_file, candidates="many"))


def test_a_profile_given_as_a_plan_leads_to_recommend(plan_file: Path) -> None:
    with pytest.raises(PlanFormatError, match="is a profile") as caught:
        load_plan(_changed(plan_file, environment={}, backend={}, timing=[]))
    assert "--profile" in caught.value.remedy


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe\x00", b"null", b"{}"])
def test_other_files_are_refused_with_a_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(CapplanError) as caught:
        load_plan(path)
    assert caught.value.remedy


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(PlanFormatError, match="No such file"):
        load_plan(tmp_path / "none.json")
