"""One file and one command: a contribution is checked before it joins models_db."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from capplan.cli.facts import command
from capplan.errors import FactsError
from capplan.resources import models_db_dir


def check(*args: str | Path) -> Result:
    return CliRunner().invoke(command, ["check", *map(str, args)])


def with_row(tmp_path: Path, family: str, line: int, **changed: str) -> Path:
    """Write a file that holds one changed row of a shipped family."""
    shipped = sorted((models_db_dir() / family).glob("*.csv"))[0]
    with shipped.open(newline="", encoding="utf-8") as file:
        row = list(csv.DictReader(file))[line]
    path = tmp_path / "mine.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerow(row | changed)
    return path


def test_what_ships_is_sound() -> None:
    result = check()
    assert result.exit_code == 0
    assert "no problem" in result.output


@pytest.mark.parametrize(
    ("family", "changed"),
    [
        ("gpus", {"id": "my-gpu", "name": "My GPU", "device_names": ""}),
        ("models", {"id": "me/my-llm"}),
        ("pairings", {"draft": "me/my-head"}),
        ("prices", {"provider": "my-cloud"}),
        ("claims", {"id": "mine"}),
        ("instances", {"instance": "my.box"}),
        ("mig", {"gpus": "l4", "profile": "1g.99gb"}),
        ("vgpu", {"board": "MY1"}),
    ],
)
def test_a_good_row_is_told_where_it_belongs(
    tmp_path: Path, family: str, changed: dict[str, str]
) -> None:
    result = check(with_row(tmp_path, family, 3, **changed))
    assert result.exit_code == 0, result.output
    assert f"Put the file into models_db/{family}/" in result.output


def test_an_id_that_is_taken_is_a_problem(tmp_path: Path) -> None:
    result = check(with_row(tmp_path, "gpus", 3))
    assert result.exit_code == 1
    assert "a100-sxm-80gb appears 2 times" in result.output


def test_a_price_of_a_gpu_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    result = check(with_row(tmp_path, "prices", 3, provider="mine", gpu="h1000"))
    assert result.exit_code == 1
    assert "'h1000' is not in" in result.output


@pytest.mark.parametrize(
    ("family", "changed", "told"),
    [
        ("instances", {}, "appears 2 times"),
        ("instances", {"instance": "mine", "gpu": "h1000"}, "'h1000' is not in"),
        ("mig", {"gpus": "h1000"}, "'h1000' is not in"),
        ("vgpu", {"gpu": "h1000", "board": "mine"}, "'h1000' is not in"),
        ("vgpu", {"board": "L4"}, "virtual GPU board l4 appears 2 times"),
    ],
)
def test_names_of_gpus_are_checked_as_gpus_are(
    tmp_path: Path, family: str, changed: dict[str, str], told: str
) -> None:
    result = check(with_row(tmp_path, family, 3, **changed))
    assert result.exit_code == 1
    assert told in result.output


def test_a_bad_cell_is_named_with_its_line(tmp_path: Path) -> None:
    path = with_row(tmp_path, "gpus", 3, id="mine", memory_gb_per_s="fast")
    result = check(path)
    assert isinstance(result.exception, FactsError)
    assert f"{path}:2: column memory_gb_per_s is 'fast'" in result.exception.message


def test_a_header_that_fits_no_family_shows_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("provider,instance,gpu,price\n", encoding="utf-8")
    result = check(path)
    assert isinstance(result.exception, FactsError)
    assert "nearest is prices" in result.exception.message
    assert "unknown: price" in result.exception.message


def test_a_shipped_file_is_checked_in_its_place() -> None:
    shipped = sorted((models_db_dir() / "prices").glob("*.csv"))[0]
    assert check(shipped).exit_code == 0
