"""Bad rows are errors with file, line, column, value and what was expected."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from capplan.errors import FactsError
from capplan.facts.catalog import load_catalog
from capplan.resources import models_db_dir

GPUS = "gpus/gpus.csv"
MODELS = "models/models.csv"
PAIRINGS = "pairings/pairings.csv"
ACCEPTANCE = "acceptance/acceptance.csv"
PRICES = "prices/gpu_prices.csv"
CLAIMS = "claims/guide.csv"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return Path(shutil.copytree(models_db_dir(), tmp_path / "db"))


def spoil(path: Path, line: int, old: str, new: str) -> None:
    """Replace text in one line (counted from 1) of a file."""
    lines = path.read_text(encoding="utf-8").split("\n")
    assert old in lines[line - 1], lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_text("\n".join(lines), encoding="utf-8")


def message(database: Path) -> str:
    with pytest.raises(FactsError) as caught:
        load_catalog(database)
    assert caught.value.exit_code == 1
    assert caught.value.remedy
    return caught.value.message


@pytest.mark.parametrize(
    ("file", "line", "old", "new", "column", "value"),
    [
        (GPUS, 7, ",3350,", ",fast,", "memory_gb_per_s", "'fast'"),
        (GPUS, 7, ",3350,", ",-3350,", "memory_bytes_per_s", "-3350000000000.0"),
        (GPUS, 7, ",3350,", ",nan,", "memory_gb_per_s", "'nan'"),
        (GPUS, 2, "A100 PCIe 40GB", "", "name", "''"),
        (MODELS, 2, ",32 full 8x256,", ",32 fully 8x256,", "cache", "'32 fully 8x256'"),
        (PAIRINGS, 2, ",eagle3,", ",eagle4,", "method", "'eagle4'"),
        (PAIRINGS, 2, ",true,", ",perhaps,", "exists", "'perhaps'"),
        (ACCEPTANCE, 2, ",3,", ",0,", "num_speculative_tokens", "'0'"),
        (PRICES, 4, ",55.04,", ",0,", "usd_per_hour", "is 0"),
        (PRICES, 4, ",8,", ",eight,", "gpu_count", "'eight'"),
        (PRICES, 2, ",21.957642,9.8979,", ",,,", "on_demand_usd_per_hour", "''"),
        (CLAIMS, 2, ",3,x,", ",,x,", "value", ""),
    ],
)
def test_a_bad_cell_is_named_with_file_and_line(
    database: Path, file: str, line: int, old: str, new: str, column: str, value: str
) -> None:
    spoil(database / file, line, old, new)
    text = message(database)
    assert text.startswith(f"{database / file}:{line}: column {column} ")
    assert value in text


def test_a_row_without_a_source_is_refused(database: Path) -> None:
    path = database / PRICES
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = lines[0].split(",")
    lines[1] = (
        ",".join("x" if c == "tier" else "1" for c in cells[: cells.index("source")]) + ",,,"
    )
    path.write_text("\n".join(lines), encoding="utf-8")
    assert f"{path}:2: column source is ''" in message(database)


def test_a_short_row_is_refused(database: Path) -> None:
    path = database / CLAIMS
    path.write_text(path.read_text(encoding="utf-8") + "id-only,topic\n", encoding="utf-8")
    assert "2 cells, expected 9" in message(database)


def test_a_renamed_column_is_refused_at_line_1(database: Path) -> None:
    spoil(database / GPUS, 1, "memory_gb_per_s", "bandwidth")
    assert message(database).startswith(f"{database / GPUS}:1: the header is ")


def test_an_empty_family_is_named(database: Path) -> None:
    (database / CLAIMS).unlink()
    assert str((database / CLAIMS).parent) in message(database)


def test_text_that_is_not_utf8_is_refused(database: Path) -> None:
    (database / CLAIMS).write_bytes(b"\xff\xfe")
    assert "cannot be read" in message(database)


def test_line_numbers_survive_a_quoted_line_break(database: Path) -> None:
    spoil(database / CLAIMS, 2, '"""Speculative', '"\n""Speculative')
    spoil(database / CLAIMS, 4, ",2,x", ",two,x")
    assert message(database).startswith(f"{database / CLAIMS}:4: column value is 'two'")


def test_an_llm_without_sizes_is_listed_and_not_planned_with(database: Path) -> None:
    catalog = load_catalog(database)
    (partial,) = (m for m in catalog.incomplete_llms if m.id == "Qwen/Qwen3.5-4B")
    assert partial.missing == ("params_total", "params_active", "weight_bytes")
    assert "Qwen/Qwen3.5-4B" not in {llm.id for llm in catalog.llms}


def test_the_shipped_catalogue_is_read_once() -> None:
    assert load_catalog() is load_catalog()


def test_api_prices_are_read_only_when_asked_for(database: Path) -> None:
    spoil(database / "api_prices/api_prices.csv", 2, ",1,5,", ",one,5,")
    catalog = load_catalog(database)
    with pytest.raises(FactsError, match=r"api_prices.csv:2: column input_usd_per_million"):
        _ = catalog.api_prices
