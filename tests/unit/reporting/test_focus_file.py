"""FOCUS-shaped rows as files: what a reader, and a spreadsheet, gets."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from capplan.cli.main import main
from capplan.economics.focus import focus_rows
from capplan.economics.focus_columns import COLUMNS
from capplan.reporting.focus_file import focus_csv, focus_parquet, write_focus
from capplan.reporting.render import render


def _read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr("sys.argv", ["capplan", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code


def test_no_text_is_a_formula(sample_plans: Any) -> None:
    option = sample_plans.make_option(
        target='=HYPERLINK("http://x","y")', draft="@SUM(A1)", instance="-1+1", region="+cmd"
    )
    (row,) = _read(focus_csv(focus_rows(sample_plans.make_plan(options=(option,)))))
    assert row["x_TargetModel"] == '\'=HYPERLINK("http://x","y")'
    assert row["x_DraftModel"] == "'@SUM(A1)"
    assert row["RegionId"] == "'+cmd"
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row.values())


def test_a_plan_that_fits_nothing_gives_a_header_alone(sample_plans: Any) -> None:
    text = render(sample_plans.infeasible_plan(), "focus")
    assert text == ",".join(COLUMNS) + "\n"


def test_parquet_keeps_amounts_exact_and_times_in_utc(sample_plans: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = focus_rows(sample_plans.make_plan())
    file = write_focus(tmp_path / "estimate.parquet", rows)
    table = parquet.read_table(file)
    assert tuple(table.column_names) == COLUMNS
    (read,) = table.to_pylist()
    (written,) = rows
    for name, value in written.items():
        assert read[name] == value
    assert isinstance(read["ListCost"], Decimal)
    assert str(table.schema.field("ChargePeriodStart").type) == "timestamp[us, tz=UTC]"
    assert str(table.schema.field("CommitmentDiscountQuantity").type) == "decimal128(38, 14)"
    assert parquet.read_table(io.BytesIO(focus_parquet(()))).num_rows == 0


def test_report_writes_the_month_that_is_asked_for(
    sample_plans: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "estimate.csv"
    plan.write_text(render(sample_plans.make_plan(), "json"))
    arguments = ("report", str(plan), "--format", "focus", "--month", "2027-03", "-o", str(out))
    assert _run(monkeypatch, *arguments) in (0, None)
    (row,) = _read(out.read_text())
    assert row["ChargePeriodStart"] == "2027-03-01T00:00:00Z"
    assert Decimal(row["EffectiveCost"]) == Decimal("11650.80")


def test_a_month_without_focus_is_misuse(
    sample_plans: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(render(sample_plans.make_plan(), "json"))
    assert _run(monkeypatch, "report", str(plan), "--month", "2027-03") == 2
    assert "--format focus" in capsys.readouterr().err
