"""The plan that a user gets: the schema's values, with what a notebook asks of it."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path

import pytest

import capplan
from capplan.api.notebook import Plan, load_plan
from capplan.reporting.focus_file import focus_csv
from capplan.schema import plan as schema


@pytest.fixture(scope="module")
def plan() -> Plan:
    load = capplan.Workload(requests_per_s=0.5)
    request = capplan.PlanRequest(
        targets=("Qwen/Qwen3-32B",), budget_usd_per_month=6000, workload=load
    )
    return capplan.recommend(request)


def test_it_is_a_plan_to_all_that_know_only_the_schema(plan: Plan) -> None:
    assert isinstance(plan, schema.Plan)
    assert set(Plan.model_fields) == set(schema.Plan.model_fields)
    bare = schema.Plan.model_validate_json(capplan.render(plan, "json"))
    assert capplan.render(bare, "json") == capplan.render(plan, "json")
    assert Plan.of(bare) == plan
    assert Plan.of(plan) is plan


def test_a_plan_read_from_its_file_is_the_same_and_has_the_methods(
    plan: Plan, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(capplan.render(plan, "json"), encoding="utf-8")
    again = load_plan(file)
    assert again == plan
    assert again.figure().svg == plan.figure().svg
    assert again.to_focus() == plan.to_focus()


def test_its_text_is_a_line_and_its_html_has_the_sentence(plan: Plan) -> None:
    assert "\n" not in repr(plan)
    assert len(repr(plan)) < 500
    assert plan.verdict.sentence in repr(plan)
    assert plan.verdict.sentence.split(":")[0] in plan._repr_html_()


def test_its_frame_is_that_of_the_function(plan: Plan) -> None:
    pytest.importorskip("pandas")
    assert plan.to_frame().equals(capplan.to_frame(plan))


def test_its_focus_rows_cost_what_the_recommended_option_does(plan: Plan) -> None:
    rows = list(csv.DictReader(io.StringIO(focus_csv(plan.to_focus("2027-01")))))
    assert plan.options[0].bill is not None
    spent = sum(Decimal(row["EffectiveCost"]) for row in rows)
    assert spent == plan.options[0].bill.total_usd
    assert {row["ChargePeriodEnd"] for row in rows} == {"2027-02-01T00:00:00Z"}


def test_a_saved_plan_is_read_back_whole(plan: Plan, tmp_path: Path) -> None:
    file = plan.save(tmp_path / "plan.json")
    assert load_plan(file) == plan
    assert file.read_text(encoding="utf-8") == capplan.render(plan, "json")
