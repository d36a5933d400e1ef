from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import Any

import pytest

from capplan.errors import RequestError
from capplan.reporting import FORMATS, render
from capplan.reporting.csvout import columns
from capplan.schema.plan import Plan


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_format_ends_with_one_newline(sample_plans: Any, fmt: str) -> None:
    text = render(sample_plans.make_plan(), fmt)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_an_unknown_format_lists_the_known_ones(sample_plans: Any) -> None:
    with pytest.raises(RequestError, match="table, json, csv, html"):
        render(sample_plans.make_plan(), "pdf")


def test_json_comes_back_as_the_same_plan(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    assert Plan.model_validate_json(render(plan, "json")) == plan


def test_json_starts_with_its_version_and_figures_carry_intervals(sample_plans: Any) -> None:
    document = json.loads(render(sample_plans.make_plan(), "json"))
    assert next(iter(document)) == "schema_version"
    assert list(document["options"][0]["speedup"]) == ["low", "mid", "high"]


def test_csv_has_one_row_an_option_in_order(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    rows = list(csv.DictReader(io.StringIO(render(plan, "csv"))))
    assert [row["id"] for row in rows] == [option.id for option in plan.options]
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert float(rows[0]["tpot_ms_high"]) == 21.0
    assert rows[-1]["cost_ratio_mid"] == ""
    assert rows[-1]["acceptance_definition"] == ""


def test_csv_columns_are_unique_and_plain() -> None:
    assert len(set(columns())) == len(columns())
    assert all(name.isidentifier() for name in columns())


def test_csv_text_is_never_a_formula(sample_plans: Any) -> None:
    option = sample_plans.make_option(target='=HYPERLINK("http://x","y")')
    rows = list(
        csv.DictReader(io.StringIO(render(sample_plans.make_plan(options=(option,)), "csv")))
    )
    assert rows[0]["target"].startswith("'=")


def test_text_keeps_to_the_width_apart_from_tables_and_launch(sample_plans: Any) -> None:
    lines = render(sample_plans.make_plan(), "table").splitlines()
    assert max(len(line) for line in lines if "speculative-config" not in line) <= 110


def test_text_drops_control_characters(sample_plans: Any) -> None:
    option = sample_plans.make_option(target="evil\x1b[2J\x07model")
    text = render(sample_plans.make_plan(options=(option,)), "table")
    assert "\x1b" not in text
    assert "\x07" not in text


def test_text_says_what_an_infeasible_plan_would_take(sample_plans: Any) -> None:
    text = render(sample_plans.infeasible_plan(), "table")
    assert text.startswith("No plan fits 500 USD a month.\n\nNeeded: ")
    assert "Launch:" not in text


def test_text_names_the_best_of_every_other_target(sample_plans: Any) -> None:
    other = sample_plans.make_option(id="o", target="meta-llama/Llama-3.1-8B-Instruct")
    text = render(sample_plans.make_plan(options=(sample_plans.make_option(), other)), "table")
    assert "Best for meta-llama/Llama-3.1-8B-Instruct: " in text


def test_only_html_imports_plotly() -> None:
    code = (
        "import sys; from capplan.reporting import render; import capplan.reporting.text, "
        "capplan.reporting.csvout, capplan.reporting.jsonout, capplan.reporting.view; "
        "sys.exit('plotly' in sys.modules or 'jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
