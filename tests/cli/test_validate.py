"""``capplan validate``: predicted against measured, for people and for programs."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from capplan.cli.main import cli
from capplan.cli.validate import command
from capplan.resources import models_db_dir

SHIPPED = models_db_dir() / "published"


def validate(*args: str) -> Result:
    return CliRunner().invoke(command, args)


def test_it_is_a_command_of_capplan() -> None:
    assert "validate" in cli.list_commands(None)  # type: ignore[arg-type] - our group ignores it


def test_the_shipped_measurements_are_the_default() -> None:
    content = json.loads(validate("--mode", "verify", "--format", "json").output)
    assert set(content["modes"]) == {"verify"}
    assert set(content["modes"]["verify"]["pooled"]) == {
        *("n", "mape", "bias", "sign_accuracy", "coverage")
    }
    assert content["modes"]["verify"]["sets"]["magicdec"]["n"] == 89


def test_the_table_shows_residuals_when_asked() -> None:
    table = validate("--mode", "verify", "--residuals", "2").output
    assert table.count("predicted") == 3  # two rows and the legend
    assert "magicdec" in table


def test_modes_without_data_are_absent(tmp_path: Path) -> None:
    shutil.copy(SHIPPED / "verify_cost.csv", tmp_path)
    content = json.loads(validate(str(tmp_path), "--format", "json").output)
    assert set(content["modes"]) == {"verify"}


def test_rows_of_lower_quality_count_only_when_asked_for(tmp_path: Path) -> None:
    with (SHIPPED / "verify_cost.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows[:30]:
        row["quality"] = "low"
    with (tmp_path / "verify_cost.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

    def count(*args: str) -> int:
        output = validate(str(tmp_path), "--mode", "verify", "--format", "json", *args).output
        n: int = json.loads(output)["modes"]["verify"]["pooled"]["n"]
        return n

    assert count() < count("--all-quality") == 89


def test_unreadable_cells_are_named_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "speedup.csv").write_text("target,tau\nA,many\n", encoding="utf-8")
    result = validate(str(tmp_path))
    assert result.exit_code == 0
    assert "speedup.csv:2: tau is 'many'" in result.stderr
    assert "Nothing in this folder" in result.stdout


@pytest.mark.parametrize("arguments", [["--mode", "unheard-of"], ["/no/such/folder"]])
def test_misuse_is_refused(arguments: list[str]) -> None:
    assert validate(*arguments).exit_code == 2


def test_every_row_is_drawn_once_and_the_page_names_it(tmp_path: Path) -> None:
    page, picture = tmp_path / "r.html", tmp_path / "r.svg"
    assert validate("--mode", "verify", "--figure", str(page)).exit_code == 0
    assert validate("--mode", "verify", "--figure", str(picture)).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<circle") == text.count("<title>") - 1 == 89
    assert "magicdec" in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    drawn = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}circle"))) == 89


def test_a_figure_of_another_format_is_misuse(tmp_path: Path) -> None:
    result = validate("--mode", "verify", "--figure", str(tmp_path / "r.png"))
    assert result.exit_code == 2
    assert ".svg or .html" in result.output
